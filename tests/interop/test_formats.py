"""Tables whose files are ORC, Avro, or of several formats by level are the same to interbed and the peers."""

from pathlib import Path
from typing import Any

import pytest

from tests.interop.limits import values_held_by
from tests.support.peers_interbed import interbed_table
from tests.support.peers_java import JavaPaimon
from tests.support.peers_json import PeerType, TypeJson, comparable, parse_type

FORMATS = ("orc", "avro")
Values = list[tuple[TypeJson, list[Any]]]


def held(file_format: str, values: Values) -> Values:
    """Those that Java Paimon gets out of files of the format as they went in; README.md says what becomes of others."""
    if file_format == "avro":
        return [(of, those) for of, those in values if not _has_nanoseconds(parse_type(of))]
    return [(of, [_moved(v, parse_type(of)) for v in those]) for of, those in values]


def _is_timestamp(of: PeerType) -> bool:
    return of.root in ("TIMESTAMP", "TIMESTAMP_LTZ")


def _has_nanoseconds(of: PeerType) -> bool:
    return (_is_timestamp(of) and of.arguments[0] > 6) or any(_has_nanoseconds(child) for child in of.children)


def _moved(value: Any, of: PeerType) -> Any:
    """The value, with times before the epoch at whole seconds."""
    if of.root == "ARRAY" and value is not None:
        return [_moved(v, of.children[0]) for v in value]
    early = _is_timestamp(of) and value is not None and value < 0
    return value // 10**9 * 10**9 if early else value


def rows_of(values: Values) -> list[list[Any]]:
    """Rows with a number and every value at least once, and one of nulls."""
    turns = max(len(those) for _, those in values)
    rows: list[list[Any]] = [[i, *(those[i % len(those)] for _, those in values)] for i in range(turns)]
    return [*rows, [turns, *(None for _ in values)]]


@pytest.mark.parametrize("keyed", [True, False], ids=["keyed", "append"])
@pytest.mark.parametrize("file_format", FORMATS)
def test_java_and_interbed_read_all_types_of_each_other(
    java_paimon: JavaPaimon, tmp_path: Path, file_format: str, keyed: bool
) -> None:
    values = held(file_format, values_held_by("java"))
    columns = [("id", "INT NOT NULL"), *((f"c{i}", of) for i, (of, _) in enumerate(values))]
    types = [parse_type(of) for _, of in columns]
    options = {"file.format": file_format} | ({"bucket": "1", "write-only": "true"} if keyed else {})
    ours, theirs = interbed_table(tmp_path, "db.t"), java_paimon.table(tmp_path, "db.t")
    ours.create(columns, primary_keys=["id"] if keyed else [], options=options)
    rows = rows_of(values)

    def both_see(expected: list[list[Any]]) -> None:
        assert theirs.read().comparable() == comparable(expected, types)
        assert ours.read().comparable() == comparable(expected, types)

    ours.write(rows)
    both_see(rows)
    again = [[0, *rows[1][1:]], [len(rows), *rows[2][1:]]]
    theirs.write(again)
    rows = [*(rows[1:] if keyed else rows), *again]
    both_see(rows)
    ours.compact()
    both_see(rows)
    ours.write(rows[-1:])
    theirs.compact()
    both_see(rows if keyed else [*rows, rows[-1]])
    assert {Path(f).suffix for f in data_files(tmp_path)} == {f".{file_format}"}


def data_files(warehouse: Path) -> list[str]:
    """The data files of the table."""
    return [str(p) for p in (warehouse / "db.db" / "t").rglob("bucket-*/*") if p.is_file()]
