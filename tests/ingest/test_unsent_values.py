"""Values that a source did not send with an update keep the old ones, or make the message bad; none becomes data."""

import hashlib
import itertools
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest

from interbed import DataField, Schema, data_type
from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.canal_json import CanalJson
from interbed.ingest.formats.lacking_columns import UnavailableValue
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.every_format import EncodedStream, Row, RowChange, ingested, written
from tests.ingest.formats.test_pgoutput import UNCHANGED
from tests.ingest.memory_source import messages_of
from tests.ingest.shop import lake
from tests.support.tally import Tally

REAL: Mapping[str, Any] = {
    "text": "a long text",
    "json": '{"a": 1}',
    "bytes": b"\x00\xff\x01",
    "texts": ["a", None, "b"],
    "ints": [1, None, -3],
    "longs": [2**40],
    "dates": [20_000, 1],
    "blobs": [b"\x01", b"\x02"],
    "uuids": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "geometry": {"wkb": b"\x01\x02", "srid": 4326},
}
"""A value of each type."""
PLACEHOLDERS = ("__debezium_unavailable_value", "n/a", "hex:ff00fe")
TYPES_OF: Mapping[str, Sequence[str]] = {
    "debezium-json": tuple(REAL),
    "debezium-json-schema": tuple(REAL),
    "debezium-avro": tuple(REAL),
    "pgoutput": ("text", "json", "bytes", "texts", "ints", "dates", "uuids"),
}
LACKING: Mapping[str, Sequence[str]] = {
    "debezium-json": ("text", "bytes", "texts", "ints", "geometry"),
    "maxwell-json": ("text", "bytes", "texts", "ints", "geometry"),
    "canal-json": ("text", "bytes"),
}
"""Formats whose updates may lack a column."""
Writer: TypeAlias = Callable[[Sequence[RowChange], Mapping[str, str]], EncodedStream]
PARTIAL = {"bucket": "1", "merge-engine": "partial-update", "ignore-delete": "true"}
PLAIN = {"bucket": "1"}


def placeholder_of(kind: str, binary: bytes) -> Any:
    """Return Debezium's placeholder for a value of a type."""
    text = binary.decode(errors="replace")
    match kind:
        case "bytes":
            return binary
        case "blobs":
            return [binary]
        case "texts":
            return [text]
        case "ints" | "longs" | "dates":
            return [byte - 256 if byte > 127 else byte for byte in binary]
        case "uuids":
            return [str(uuid.UUID(bytes=hashlib.md5(binary).digest(), version=3))]
        case "geometry":
            return {"wkb": binary, "srid": None}
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """The rows of the table, and the reasons of bad messages by offset."""

    rows: Sequence[Row]
    bad: Mapping[int, str]


class MemoryDeadLetters:
    """Dead letter queue in memory."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}

    def put(self, messages: Messages, index: int, reason: str) -> None:
        self.found[int(messages.offsets[index])] = reason

    def flush(self) -> None:
        pass


def outcome(path: Path, stream: EncodedStream, *, options: dict[str, str], ends: Sequence[int] = ()) -> RunOutcome:
    """Ingest the messages in one run, or in several, each up to one of these ends."""
    tables = TableSettings(primary_keys=["id"], options=options)
    catalog, letters = lake(path), MemoryDeadLetters()
    for end in (*ends, len(stream.messages)):
        part = EncodedStream(messages=stream.messages[:end], decoder=stream.decoder)
        ingested(catalog, part, tables=tables, bad_messages=BadMessages.DEAD_LETTER, dead_letters=letters)
    return RunOutcome(rows=rows_of(catalog), bad=letters.found)


def rows_of(catalog: Catalog) -> list[Row]:
    rows = catalog.get_table("shop.orders").scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def check(
    path: Path, form: str, kinds: Sequence[str], absent: Callable[[Row, str], Row], write: Writer, tally: Tally
) -> None:
    """Ingest updates that each lack the value of a column of another type.

    The tables have both merge engines. The updates come with the row before and without it, in one run and in two.
    """
    types = {"id": "bigint", "n": "int"} | {f"v_{kind}": kind for kind in kinds}
    real = {**REAL, "dates": ["2024-10-04"]} if form == "pgoutput" else REAL
    sent = [{"id": i, "n": 5, **{f"v_{kind}": real[kind] for kind in kinds}} for i in range(len(kinds))]
    insertions = [RowChange(after=row) for row in sent]
    known = outcome(path / "known", write(insertions, types), options=PLAIN).rows
    after = [absent({**row, "n": 7}, f"v_{kind}") for row, kind in zip(sent, kinds, strict=True)]
    has_before = [False] if form in ("maxwell-json", "canal-json") else [False, True]
    # pgoutput describes a table once in a run.
    parts: list[tuple[int, ...]] = [()] if form == "pgoutput" else [(), (len(sent),)]
    for before, ends, (name, options) in itertools.product(has_before, parts, (("plain", PLAIN), ("partial", PARTIAL))):
        updates = [RowChange(before=row if before else {}, after=new) for row, new in zip(sent, after, strict=True)]
        stream = write([*insertions, *updates], types)
        found = outcome(path / f"{before}{len(ends)}{name}", stream, options=options, ends=ends)
        tally("updates without a value: formats x types x rows before x tables x runs", len(kinds))
        case = (form, before, name, ends, found.bad)
        if before or name == "partial":
            assert not found.bad, case
            assert found.rows == [{**row, "n": 7} for row in known], case
            continue
        assert found.rows == known, case
        first = len(stream.messages) - len(updates)
        for i, kind in enumerate(kinds):
            assert f"column 'v_{kind}'" in found.bad[first + i], case
            assert "FULL" in found.bad[first + i], case


@pytest.mark.sample(6)
@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
@pytest.mark.parametrize("form", TYPES_OF)
def test_a_placeholder_is_no_value(tmp_path: Path, form: str, placeholder: str, tally: Tally) -> None:
    value = UnavailableValue.parse(placeholder)

    def absent(row: Row, name: str) -> Row:
        kind = name.removeprefix("v_")
        return {**row, name: UNCHANGED if form == "pgoutput" else placeholder_of(kind, value.binary)}

    def write(changes: Sequence[RowChange], types: Mapping[str, str]) -> EncodedStream:
        return written(form, changes, types, **({} if form == "pgoutput" else {"unavailable": value}))

    check(tmp_path, form, TYPES_OF[form], absent, write, tally)


@pytest.mark.parametrize("form", LACKING)
def test_a_column_that_an_update_lacks_is_not_null(tmp_path: Path, form: str, tally: Tally) -> None:
    def absent(row: Row, name: str) -> Row:
        return {n: v for n, v in row.items() if n != name}

    check(tmp_path, form, LACKING[form], absent, partial(written, form), tally)


TEXTS = (
    "__debezium_unavailable_value",
    "the word __debezium_unavailable_value in a text",
    '{"a": "__debezium_unavailable_value"}',
)


@pytest.mark.parametrize(
    "form", ["debezium-json", "debezium-json-schema", "debezium-avro", "pgoutput", "maxwell-json", "canal-json"]
)
def test_a_text_that_contains_the_placeholder_is_data(tmp_path: Path, form: str, tally: Tally) -> None:
    """An inserted text may even equal the placeholder; in an update it is one, where the format has placeholders."""
    types = {"id": "bigint", "n": "int", "v": "text"}
    for number, text in enumerate(TEXTS):
        first = {"id": 1, "n": 5, "v": text}
        changes = [RowChange(after=first), RowChange(after={"id": 2, "n": 5, "v": "x"})]
        if number or not form.startswith("debezium"):
            changes.append(RowChange(before={"id": 2, "n": 5, "v": "x"}, after={"id": 2, "n": 6, "v": text}))
        for options in (PLAIN, PARTIAL):
            found = outcome(tmp_path / f"{number}{len(options)}", written(form, changes, types), options=options)
            tally("texts with the placeholder in them: formats x tables", 1)
            assert not found.bad, (form, text)
            assert [row["v"] for row in found.rows] == [text, text if len(changes) > 2 else "x"]


def test_a_row_before_with_only_the_key_does_not_define_the_value(tmp_path: Path) -> None:
    """Debezium sends such rows if the replica identity is the key."""
    types = {"id": "bigint", "n": "int", "v": "text"}
    for form in ("debezium-json", "debezium-json-schema", "debezium-avro"):
        update = RowChange(
            before={"id": 1, "n": None, "v": None}, after={"id": 1, "n": 7, "v": "__debezium_unavailable_value"}
        )
        insertion = RowChange(after={"id": 1, "n": 5, "v": "x"})
        found = outcome(tmp_path / form, written(form, [insertion, update], types), options=PLAIN)
        assert list(found.bad) == [1]
        assert "REPLICA IDENTITY FULL" in found.bad[1]
        assert found.rows == [{"id": 1, "n": 5, "v": "x"}]


@pytest.mark.parametrize("ends", [(), (1,), (2,), (3,), (1, 2, 3)])
def test_an_insertion_without_a_column_does_not_drop_the_column(tmp_path: Path, ends: Sequence[int]) -> None:
    """MySQL omits columns that have their default: an update after it lacks the column, wherever a run ends."""
    types = {"id": "bigint", "n": "int", "v": "text"}
    changes = [
        RowChange(after={"id": 1, "n": 5, "v": "x"}),
        RowChange(after={"id": 2, "n": 5}),
        RowChange(before={}, after={"id": 1, "n": 7}),
        RowChange(before={}, after={"id": 2, "v": "y"}),
    ]
    for form in LACKING:
        found = outcome(tmp_path / form, written(form, changes, types), options=PLAIN, ends=ends)
        assert list(found.bad) == [2, 3], form
        assert "column 'v'" in found.bad[2], form
        assert "drop it from the table" in found.bad[2], form
        assert found.rows == [{"id": 1, "n": 5, "v": "x"}, {"id": 2, "n": 5, "v": None}], form

        found = outcome(tmp_path / f"{form}-partial", written(form, changes, types), options=PARTIAL, ends=ends)
        assert not found.bad, form
        assert found.rows == [{"id": 1, "n": 7, "v": "x"}, {"id": 2, "n": 5, "v": "y"}], form


@pytest.mark.parametrize("ends", [(), (1,), (2,)])
def test_a_column_without_a_value_may_be_omitted_wherever_a_run_ends(tmp_path: Path, ends: Sequence[int]) -> None:
    types = {"id": "bigint", "n": "int", "v": "text"}
    changes = [
        RowChange(after={"id": 1, "n": 5, "v": None}),
        RowChange(before={}, after={"id": 1, "n": 7}),
        RowChange(before={}, after={"id": 1, "n": 8, "v": "x"}),
    ]
    for form in LACKING:
        found = outcome(tmp_path / form, written(form, changes, types), options=PLAIN, ends=ends)
        assert not found.bad, form
        assert found.rows == [{"id": 1, "n": 8, "v": "x"}], form


@pytest.mark.parametrize("ends", [(), (1,), (2,)])
def test_a_column_that_is_sent_as_null_is_not_omitted(tmp_path: Path, ends: Sequence[int]) -> None:
    """Canal may state no type for a column."""
    rows: list[Row] = [{"id": "1", "v": "x"}, {"id": "2", "v": None}, {"id": "1", "v": None}]
    messages: list[tuple[object, object]] = []
    for number, row in enumerate(rows):
        kind, old = ("UPDATE", [{"v": "x"}]) if number == 2 else ("INSERT", None)
        head = {"database": "shop", "table": "orders", "type": kind, "isDdl": False, "mysqlType": {"id": "bigint"}}
        messages.append((None, {**head, "data": [row], "old": old}))
    found = outcome(tmp_path, EncodedStream(messages=messages, decoder=CanalJson), options=PLAIN, ends=ends)
    assert not found.bad
    assert found.rows == [{"id": 1, "v": None}, {"id": 2, "v": None}]


def test_a_column_dropped_at_the_source_and_in_the_table_is_not_lacking(tmp_path: Path) -> None:
    types = {"id": "bigint", "n": "int", "v": "text"}
    for form in LACKING:
        changes = [RowChange(after={"id": 1, "n": 5, "v": "x"}), RowChange(before={}, after={"id": 1, "n": 7})]
        catalog, stream = lake(tmp_path / form), written(form, changes, types)
        ingested(catalog, EncodedStream(messages=stream.messages[:1], decoder=stream.decoder))
        with catalog.get_table("shop.orders").update_schema() as update:
            update.drop_column("v")
        assert ingested(catalog, stream).result.bad == 0
        assert rows_of(catalog) == [{"id": 1, "n": 7}]


def test_a_column_that_the_source_never_sent_may_be_lacking(tmp_path: Path) -> None:
    """The first updates of a run do not define columns that the table has from elsewhere."""
    types = {"id": "bigint", "n": "int", "v": "text"}
    for form in LACKING:
        catalog = lake(tmp_path / form)
        stream = written(
            form, [RowChange(after={"id": 1, "n": 5}), RowChange(before={}, after={"id": 1, "n": 7})], types
        )
        tables = TableSettings(primary_keys=["id"], options=PLAIN)
        ingested(catalog, EncodedStream(messages=stream.messages[:1], decoder=stream.decoder), tables=tables)
        catalog.get_table("shop.orders").merge_schema(pa.schema([("own", pa.int64())]))
        assert ingested(catalog, stream, tables=tables).result.bad == 0


def test_a_table_with_two_sources_takes_the_columns_of_each(tmp_path: Path) -> None:
    """The merge engine combines their columns: an update of one source lacks those of the other."""
    types = {"id": "bigint", "n": "int", "v": "text"}
    for engine in ("partial-update", "aggregation"):
        for form in LACKING:
            catalog = lake(tmp_path / f"{engine}-{form}")
            tables = TableSettings(primary_keys=["id"], options={"bucket": "1", "merge-engine": engine})
            ingested(catalog, written(form, [RowChange(after={"id": 1, "n": 5, "v": "x"})], types), tables=tables)
            updates = written(form, [RowChange(before={}, after={"id": 1, "n": 7})], types)
            run = ingested(catalog, updates, tables=tables, group="other")
            assert run.result.bad == 0, (engine, form)
            assert rows_of(catalog) == [{"id": 1, "n": 7, "v": "x"}], (engine, form)


GROUPS = {**PARTIAL, "fields.seq.sequence-group": "v"}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"seq": 2, "v": ...}, False),
        ({"seq": None, "v": ...}, True),
        ({"seq": ..., "v": "new"}, False),
        ({"seq": ..., "v": None}, True),
    ],
)
def test_a_sequence_group_keeps_its_columns_only_without_a_sequence(tmp_path: Path, change: Row, kept: bool) -> None:
    """A newer row of the group writes its nulls; `...` marks unsent values."""
    types = {"id": "bigint", "seq": "text", "v": "text"}
    word = "__debezium_unavailable_value"
    after = {"id": 1, **{n: word if v is ... else None if v is None else str(v) for n, v in change.items()}}
    changes = [RowChange(after={"id": 1, "seq": "1", "v": "old"}), RowChange(before={}, after=after)]
    found = outcome(tmp_path, written("debezium-json-schema", changes, types), options=GROUPS)
    assert found.rows == [{"id": 1, "seq": "1", "v": "old"}]
    assert bool(found.bad) != kept, found.bad


def test_an_unsent_value_that_partial_updates_would_lose_is_bad(tmp_path: Path) -> None:
    """A sequence field, the first row of another key, a column that is NOT NULL, one with a default."""
    types = {"id": "bigint", "n": "int", "v": "text"}
    word = "__debezium_unavailable_value"
    text = data_type("STRING")
    columns = {
        "NOT NULL": DataField(id=2, name="v", type=text.with_nullable(False)),
        "default": DataField(id=2, name="v", type=text, default_value="d"),
    }
    for name in ("sequence", "key", *columns):
        options = {**PARTIAL, **({"sequence.field": "v"} if name == "sequence" else {})}
        before = {"id": 5, "n": 5, "v": None} if name == "key" else {}
        changes = [RowChange(after={"id": 5, "n": 5, "v": "x"})]
        changes.append(RowChange(before=before, after={"id": 1 if name == "key" else 5, "n": 7, "v": word}))
        if name in columns:
            catalog = lake(tmp_path / name)
            catalog.create_database("shop")
            fields = [
                DataField(id=0, name="id", type=data_type("BIGINT NOT NULL")),
                DataField(id=1, name="n", type=data_type("INT")),
                columns[name],
            ]
            catalog.create_table("shop.orders", Schema(fields=fields, primary_keys=["id"], options=options))
        found = outcome(tmp_path / name, written("debezium-avro", changes, types), options=options)
        assert list(found.bad) == [1], name
        assert "column 'v'" in found.bad[1], name
        assert [(row["id"], row["v"]) for row in found.rows] == [(5, "x")], name


def test_a_column_computed_from_an_unsent_value_is_kept_as_well(tmp_path: Path) -> None:
    types = {"id": "bigint", "n": "int", "v": "text"}
    changes = [
        RowChange(after={"id": 1, "n": 5, "v": "x"}),
        RowChange(before={}, after={"id": 1, "n": 7, "v": "__debezium_unavailable_value"}),
    ]
    stream = written("debezium-json", changes, types)
    tables = TableSettings(primary_keys=["id"], options=PARTIAL, computed=[ComputedColumn.parse("big=upper(v)")])
    catalog = lake(tmp_path)
    ingested(catalog, stream, tables=tables)
    assert rows_of(catalog) == [{"id": 1, "n": 7, "v": "x", "big": "X"}]


def test_an_unsent_hstore_leaves_no_field_behind(tmp_path: Path) -> None:
    word = "__debezium_unavailable_value"
    types = {"id": "bigint", "n": "int", "v": "json"}
    for number, absent in enumerate([{word: word}, json.dumps({word: word}, separators=(",", ":"))]):
        real: Any = {"a": "1"} if number == 0 else '{"a":"1"}'
        form = "debezium-json" if number == 0 else "debezium-json-schema"
        changes = [
            RowChange(after={"id": 1, "n": 5, "v": real}),
            RowChange(before={}, after={"id": 1, "n": 7, "v": absent}),
        ]
        found = outcome(tmp_path / str(number), written(form, changes, types), options=PARTIAL)
        assert not found.bad
        assert found.rows == [{"id": 1, "n": 7, "v": real}]


@pytest.mark.parametrize("form", ["debezium-json", "debezium-json-schema", "debezium-avro"])
def test_the_insertion_of_a_key_update_may_omit_values(form: str) -> None:
    word = "__debezium_unavailable_value"
    stream = written(form, [RowChange(after={"id": 1, "v": word})] * 2, {"id": "bigint", "v": "text"})
    messages = messages_of([value for _, value in stream.messages], [key for key, _ in stream.messages])
    [plain] = stream.decoder().decode(messages).changes
    assert plain.rows["v"].to_pylist() == [word, word]
    assert not plain.unsent

    rekeyed = replace(messages, rekeyed=np.array([False, True]))
    [found] = stream.decoder().decode(rekeyed).changes
    assert found.rows["v"].to_pylist() == [word, None]
    assert found.unsent["v"].rows.tolist() == [False, True]

    halves = rekeyed.slice(0, 1).followed_by(rekeyed.take(np.array([1])))
    assert halves.rekeyed_mask().tolist() == [False, True]
    assert messages.followed_by(messages).rekeyed is None
