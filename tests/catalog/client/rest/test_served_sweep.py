"""Rows that the server reads against rows of the files: types, columns, conditions, versions and changes.

One client reads the files of a table, the other one asks the server (`read.rows-from` = `server`). Both get the same
rows in the same columns, whether policies bind their user or not.
"""

import datetime
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.rest.through_server import ServedTable
from interbed.storage.base.predicate.conditions import col
from tests.catalog.server.rest.rows.served_rows import RowsServer, rows_server
from tests.support.waits import wait_until

UTC = datetime.UTC
FIELDS: "list[pa.Field[Any]]" = [
    pa.field("id", pa.int64(), nullable=False),
    pa.field("part", pa.string(), nullable=False),
    pa.field("flag", pa.bool_()),
    pa.field("tiny", pa.int8()),
    pa.field("small", pa.int16()),
    pa.field("number", pa.int32()),
    pa.field("single", pa.float32()),
    pa.field("real", pa.float64()),
    pa.field("price", pa.decimal128(12, 3)),
    pa.field("wide", pa.decimal128(38, 10)),
    pa.field("word", pa.string()),
    pa.field("raw", pa.binary()),
    pa.field("day", pa.date32()),
    pa.field("clock", pa.time32("ms")),
    pa.field("at", pa.timestamp("us")),
    pa.field("nanos", pa.timestamp("ns")),
    pa.field("zoned", pa.timestamp("us", tz="UTC")),
    pa.field("items", pa.list_(pa.int32())),
    pa.field("labels", pa.map_(pa.string(), pa.int64())),
    pa.field("place", pa.struct([pa.field("city", pa.string()), pa.field("at", pa.timestamp("us"))])),
]
SCHEMA = pa.schema(FIELDS)
WORDS = ("", "a", "ä b", "x%_y", "longer than a word", "'quoted'", "\u6f22\u5b57")


def _row(number: int, shift: int) -> dict[str, Any]:
    """Return a row; each column of it is null in other rows."""
    when = datetime.datetime(1969, 12, 30, 23, 59, 59, 123457) + datetime.timedelta(days=number, hours=shift)
    row: dict[str, Any] = {
        "id": number,
        "part": "pq"[number % 2],
        "flag": number % 2 == 0,
        "tiny": number - 20,
        "small": number * 700 - 9000,
        "number": number * number * 999 - shift,
        "single": number / 4 - 2,
        "real": [float("nan"), float("inf"), -0.0, number / 3][number % 4],
        "price": Decimal(number * 1001 + shift).scaleb(-3),
        "wide": Decimal(number) ** 9 + Decimal(shift).scaleb(-10),
        "word": WORDS[(number + shift) % len(WORDS)],
        "raw": bytes([number, 255 - number]) * (number % 3),
        "day": when.date(),
        "clock": datetime.time(number % 24, shift, 59, 123000),
        "at": when,
        "nanos": when,
        "zoned": when.replace(tzinfo=UTC),
        "items": [number, None, shift][: number % 4],
        "labels": [("env", number), (WORDS[number % len(WORDS)] or "none", None)][: number % 3],
        "place": {"city": WORDS[number % len(WORDS)], "at": when if number % 2 else None},
    }
    names = list(row)[2:]
    row[names[number % len(names)]] = None
    return row


def _rows(numbers: Sequence[int], shift: int) -> pa.Table:
    return pa.Table.from_pylist([_row(number, shift) for number in numbers], schema=SCHEMA)


FIRST, SECOND = _rows(range(24), 1), _rows(range(12, 36), 2)
TABLES: Mapping[str, Mapping[str, Any]] = {
    "appended": {},
    "keyed": {"primary_keys": ["id"], "options": {"bucket": "2", "changelog-producer": "lookup"}},
    "parted": {"primary_keys": ["id", "part"], "partition_keys": ["part"], "options": {"bucket": "1"}},
}
CONDITIONS: Sequence[Any] = (
    None,
    "id > 7 AND part = 'p'",
    "flag OR tiny IN (-3, -1, 5)",
    "NOT flag AND small BETWEEN -1000 AND 5000",
    "number <> 998 AND number IS NOT NULL",
    "single < 0.5 OR real > 1",
    "real = 'NaN' OR real = 0",
    "price >= 7.007 AND wide < 100000000.5",
    "word LIKE '%o%' OR word = '''quoted'''",
    "word NOT IN ('', 'a') AND raw <> X'05fa'",
    "day >= DATE '1970-01-10' AND clock < TIME '12:00:00'",
    "at > TIMESTAMP '1970-01-05 01:59:59.123456' OR nanos IS NULL",
    "zoned <= TIMESTAMP '1970-01-20 00:00:00'",
    "place.city = 'a' OR labels['env'] = 7",
    "items IS NULL OR labels IS NULL OR place IS NULL",
    (col("price") == Decimal("7.008")) | (col("day") == datetime.date(1970, 1, 3)),
    (col("raw") == b"\x05\xfa") | (col("at") < datetime.datetime(1970, 1, 2, 12)),
    (col("word") == WORDS[6]) & ~(col("id") == 6),
    col("zoned") >= datetime.datetime(1970, 1, 20, tzinfo=UTC),
    (col("clock") == datetime.time(5, 2, 59, 123000)) | (col("labels")["env"] == 4),
)
VERSIONS = ("newest", "snapshot", "tag", "time", "branch")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RowsServer]:
    """Run a server with tables of all types in two versions, with policies for `ann`."""
    with rows_server(tmp_path_factory.mktemp("sweep")) as made:
        with made.catalog("root") as catalog:
            for name, definition in TABLES.items():
                table = catalog.create_table(f"sales.{name}", SCHEMA, **definition)
                for rows in (FIRST, SECOND):
                    table.upsert(rows) if "primary_keys" in definition else table.append(rows)
                versions = catalog.get_table(f"sales.{name}").versions
                versions.create_tag("first", 1)
                versions.create_branch("side", "first")
                for user in ("ann", "bea"):
                    catalog.grant("SELECT", on=f"table sales.{name}", to=f"user {user}")
                catalog.set_row_filter(f"sales.{name}", "id > 3 AND word <> 'a'", to=["user ann"])
                catalog.set_column_mask(f"sales.{name}", "word", "CONCAT('*', part)", to=["user ann"])
                catalog.set_column_mask(f"sales.{name}", "price", "NULL", to=["user ann"])
        wait_until(lambda: made.rows("ann", {"limit": 0}, "parted").status == 200)
        yield made


def _version(table: Any, version: str, first_millis: int) -> Any:
    match version:
        case "tag":
            return table.copy({"scan.tag-name": "first"})
        case "snapshot":
            return table.copy({"scan.snapshot-id": "1"})
        case "time":
            return table.copy({"scan.timestamp-millis": str(first_millis)})
        case "branch":
            return table.branch("side")
        case _:
            return table


def _sorted(found: pa.Table) -> list[str]:
    # Not a number does not equal itself, and its text does.
    return sorted(map(repr, found.to_pylist()))


def _projections(place: int) -> Iterator[Sequence[str] | None]:
    """Yield lists of columns, others for each condition; all columns are among those of a table's conditions."""
    names = SCHEMA.names
    yield None if place % 4 == 0 else [names[(place * 7 + step * 5) % len(names)] for step in range(3)]
    yield [] if place % 3 == 0 else [names[place % len(names)]]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("user", ["ann", "bea"])
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.sample(3)
def test_the_server_reads_the_rows_of_the_files(server: RowsServer, name: str, user: str, version: str) -> None:
    with (
        server.catalog("root") as root,
        server.catalog(user, **{"read.rows-from": "files"}) as files,
        server.catalog(user, **{"read.rows-from": "server"}) as served,
    ):
        first = next(iter(root.get_table(f"sales.{name}").snapshots()))
        own: Any = _version(files.get_table(f"sales.{name}"), version, first.time_millis)
        others: Any = _version(served.get_table(f"sales.{name}"), version, first.time_millis)
        assert isinstance(others, ServedTable)
        shown = 0
        for place, condition in enumerate(CONDITIONS):
            for columns in _projections(place):
                expected = own.scan(columns, condition)
                found = others.scan(columns, condition).to_arrow()
                asked = (condition, columns)
                rows = expected.to_arrow()
                assert found.schema == rows.schema, asked
                assert columns or columns is None or others.scan(columns, condition).count() == rows.num_rows, asked
                assert found.num_rows == rows.num_rows, asked
                assert _sorted(found) == _sorted(rows), asked
                shown += found.num_rows
        assert shown > 100


@pytest.mark.parametrize("view", ["audit_log", "binlog"])
@pytest.mark.parametrize("user", ["ann", "bea"])
def test_the_server_reads_the_changes_of_the_files(server: RowsServer, user: str, view: str) -> None:
    with server.catalog(user, **{"read.rows-from": "files"}) as files:
        table: Any = files.get_table(f"sales.keyed${view}")
        last = max(each.id for each in _snapshots(server, "keyed"))
        for between in (f"0,{last}", f"1,{last}", f"{last - 1},{last}"):
            expected = table.copy({"incremental-between": between})
            for columns, condition in ((None, None), (["rowkind", "id", "word"], "id > 13"), (["at"], "flag")):
                if view == "binlog" and condition is not None:
                    # Its columns are lists of the values before and after a change.
                    continue
                body = {"columns": columns, "filter": condition, "incremental-between": between}
                found = server.rows(user, body, f"keyed${view}")
                rows = expected.scan(columns, condition).to_arrow()
                assert found.table.schema == rows.schema
                assert _sorted(found.table) == _sorted(rows), body
                assert rows.num_rows


def _snapshots(server: RowsServer, name: str) -> Sequence[Any]:
    with server.catalog("root") as catalog:
        return list(catalog.get_table(f"sales.{name}").snapshots())
