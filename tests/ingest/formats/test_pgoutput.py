"""Decoding of pgoutput messages, which are encoded here by the protocol's specification."""

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.adapt import Transformer
from psycopg.pq import Format

from interbed.ingest.flow.changes import SourceTable, TableTruncation
from interbed.ingest.formats.pgoutput import PgOutput, copied_message, relation_message, truncations_of
from interbed.storage.base.row.kind import RowKind
from tests.ingest.memory_source import messages_of
from tests.support.examples import examples

ORDERS = SourceTable("public", "orders")
TYPES = psycopg.adapters.types


class FakeTypeCatalog:
    """Array types as psycopg knows them, and one primary key."""

    def base_type(self, oid: int, modifier: int) -> tuple[int, int, str | None]:
        found = TYPES.get(oid)
        assert found is not None
        return (found.oid, modifier, ",") if found.array_oid == oid else (oid, modifier, None)

    def primary_key(self, relation: int) -> tuple[str, ...]:
        return ("id",)


def oid(name: str) -> int:
    if name.endswith("[]"):
        return TYPES[name[:-2]].array_oid
    return TYPES[name].oid


@dataclass
class PgOutputStream:
    """Messages about one table with these columns (name -> type); the first column is the key."""

    columns: dict[str, str]
    identity: bytes = b"d"
    number: int = 7
    values: list[bytes] = field(default_factory=list)

    def relation(self) -> "PgOutputStream":
        columns = [(n, i == 0 or self.identity == b"f", oid(t), -1) for i, (n, t) in enumerate(self.columns.items())]
        return self._with(relation_message(self.number, ORDERS, self.identity, columns))

    def insert(self, *row: bytes | None) -> "PgOutputStream":
        return self._with(self._head(b"I") + b"N" + row_of(*row))

    def update(self, *row: Any, old: tuple[Any, ...] | None = None, tag: bytes = b"O") -> "PgOutputStream":
        before = b"" if old is None else tag + row_of(*old)
        return self._with(self._head(b"U") + before + b"N" + row_of(*row))

    def delete(self, *row: Any, tag: bytes = b"K") -> "PgOutputStream":
        return self._with(self._head(b"D") + tag + row_of(*row))

    def _head(self, kind: bytes) -> bytes:
        return kind + struct.pack(">I", self.number)

    def _with(self, message: bytes) -> "PgOutputStream":
        self.values.append(message)
        return self


UNCHANGED = object()


def row_of(*values: Any) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            parts += [b"t", struct.pack(">I", len(value)), value]
    return b"".join(parts)


def decoded(stream: PgOutputStream, decoder: PgOutput | None = None) -> list[tuple[int, int, dict[str, Any]]]:
    """Return message, kind and row of each change."""
    found = (decoder or PgOutput(FakeTypeCatalog())).decode(messages_of(stream.values))
    assert not found.bad
    return [
        (int(message), int(kind), row)
        for changes in found.changes
        for message, kind, row in zip(changes.messages, changes.kinds, changes.rows.to_pylist(), strict=True)
    ]


def test_changes_have_the_rows_before_and_after() -> None:
    stream = PgOutputStream({"id": "int4", "v": "text"}).relation()
    stream.insert(b"1", b"a").update(b"1", b"b").update(b"2", None, old=(b"1", None), tag=b"K").delete(b"2", None)
    stream.update(b"3", b"c", old=(b"3", b"b")).delete(b"3", b"c", tag=b"O")
    assert decoded(stream) == [
        (1, RowKind.INSERT, {"id": 1, "v": "a"}),
        (2, RowKind.UPDATE_AFTER, {"id": 1, "v": "b"}),
        (3, RowKind.UPDATE_BEFORE, {"id": 1, "v": None}),
        (3, RowKind.UPDATE_AFTER, {"id": 2, "v": None}),
        (4, RowKind.DELETE, {"id": 2, "v": None}),
        (5, RowKind.UPDATE_BEFORE, {"id": 3, "v": "b"}),
        (5, RowKind.UPDATE_AFTER, {"id": 3, "v": "c"}),
        (6, RowKind.DELETE, {"id": 3, "v": "c"}),
    ]


def test_the_key_is_the_replica_identity_or_the_primary_key_of_the_source() -> None:
    for identity, key in ((b"d", ("a",)), (b"i", ("a",)), (b"f", ("id",)), (b"n", ("id",))):
        stream = PgOutputStream({"a": "int4", "id": "int4"}, identity=identity).relation()
        [changes] = PgOutput(FakeTypeCatalog()).decode(messages_of(stream.values)).changes
        assert (changes.source, changes.key, changes.rows.num_rows) == (ORDERS, key, 0)
        assert changes.stated == {"a", "id"}


def test_an_unchanged_value_is_taken_from_the_row_before() -> None:
    stream = PgOutputStream({"id": "int4", "v": "text", "w": "text"}, identity=b"f").relation()
    stream.insert(b"1", b"long", None).update(b"1", UNCHANGED, b"x", old=(b"1", b"long", None))
    stream.update(b"2", UNCHANGED, UNCHANGED, old=(b"1", b"long", b"x"))
    rows = [row for _, kind, row in decoded(stream) if kind == RowKind.UPDATE_AFTER]
    assert rows == [{"id": 1, "v": "long", "w": "x"}, {"id": 2, "v": "long", "w": "x"}]


def test_unknown_values_are_null_and_listed_as_unsent() -> None:
    stream = PgOutputStream({"id": "int4", "v": "text", "n": "int4"}).relation()
    stream.insert(b"1", b"a", b"1").update(b"1", UNCHANGED, b"2").insert(b"2", b"b", b"x").insert(b"3", b"c", b"3")
    stream.update(b"4", UNCHANGED, UNCHANGED, old=(b"1", None, None), tag=b"K")
    found = PgOutput(FakeTypeCatalog()).decode(messages_of(stream.values))
    assert [(b.index, b.reason[:44]) for b in found.bad] == [(3, "its column 'n' has b'x', which is no value o")]
    [changes] = found.changes
    assert changes.messages.tolist() == [1, 2, 4, 5, 5]
    assert changes.rows["v"].to_pylist() == ["a", None, "c", None, None]
    unsent = {name: each.rows.tolist() for name, each in changes.unsent.items()}
    assert unsent == {"v": [False, True, False, True, True], "n": [False, False, False, True, True]}
    assert changes.unsent["v"].reason.format("v").startswith("it leaves out the column 'v', a large value that did not")


def test_each_version_of_a_table_has_its_own_columns() -> None:
    stream = PgOutputStream({"id": "int4"}).relation().insert(b"1")
    stream.columns = {"id": "int8", "v": "text"}
    stream.relation().insert(b"2", b"b").relation().insert(b"3", None)
    decoder = PgOutput(FakeTypeCatalog())
    assert [row for _, _, row in decoded(stream, decoder)] == [{"id": 1}, {"id": 2, "v": "b"}, {"id": 3, "v": None}]
    stream.values.clear()
    assert decoded(stream.insert(b"4", b"d"), decoder) == [(0, RowKind.INSERT, {"id": 4, "v": "d"})]


def test_decoding_stops_at_a_truncation() -> None:
    stream = PgOutputStream({"id": "int4"}).relation().insert(b"1")
    stream.values += truncations_of(b"T" + struct.pack(">IBII", 2, 0, 7, 8))
    stream.insert(b"2")
    decoder = PgOutput(FakeTypeCatalog())
    found = decoder.decode(messages_of(stream.values))
    assert found.truncation == TableTruncation(index=2, source=ORDERS)
    assert [changes.rows.to_pylist() for changes in found.changes] == [[{"id": 1}]]
    other = decoder.decode(messages_of(stream.values[3:]))
    assert other.truncation == TableTruncation(index=0, source=None)
    assert not other.changes
    assert decoder.decode(messages_of([])).changes == []


def test_rows_of_a_table_without_a_relation_message_are_bad() -> None:
    found = PgOutput(FakeTypeCatalog()).decode(
        messages_of([*PgOutputStream({"id": "int4"}).insert(b"1").values, b"?", b""[:0] or b"Z"])
    )
    assert [b.index for b in found.bad] == [0, 1, 2]


@given(data=st.data())
@settings(deadline=None)
def test_a_truncated_message_is_bad_without_affecting_others(data: st.DataObject) -> None:
    stream = PgOutputStream({"id": "int4", "v": "text"}).relation()
    stream.insert(b"1", b"aaa").update(b"1", b"b", old=(b"1", b"aaa")).delete(b"1", None).insert(b"2", b"c")
    at = data.draw(st.integers(1, len(stream.values) - 1))
    length = data.draw(st.integers(5, len(stream.values[at]) - 1))
    whole = decoded(stream)
    stream.values[at] = stream.values[at][:length]
    found = PgOutput(FakeTypeCatalog()).decode(messages_of(stream.values))
    assert [b.index for b in found.bad] == [at]
    rows = [row for changes in found.changes for row in changes.rows.to_pylist()]
    assert rows == [row for message, _, row in whole if message != at]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int2": st.integers(-(2**15), 2**15 - 1),
    "int4": st.integers(-(2**31), 2**31 - 1),
    "int8": st.integers(-(2**63), 2**63 - 1),
    "float8": st.floats(allow_nan=False),
    "text": TEXT,
    "bytea": st.binary(max_size=8),
    "date": st.dates(),
    "timestamp": st.datetimes(),
    "int4[]": st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=4),
    "text[]": st.lists(st.none() | TEXT, max_size=4),
    "bool[]": st.lists(st.booleans(), max_size=4),
}


def written(kind: str, value: Any) -> bytes:
    """Encode a value as PostgreSQL does."""
    match value:
        case None:
            raise AssertionError
        case bool():
            return b"t" if value else b"f"
        case bytes():
            return b"\\x" + value.hex().encode()
        case list():
            return ("{" + ",".join(element(kind[:-2], each) for each in value) + "}").encode()
        case float():
            return repr(value).replace("inf", "Infinity").encode()
    return str(value).encode()


def element(kind: str, value: Any) -> str:
    if value is None:
        return "NULL"
    text = written(kind, value).decode()
    if kind == "text" and (
        not text or text.upper() == "NULL" or set(text) & set('{}",\\') or any(c.isspace() for c in text)
    ):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def csv_of(value: bytes | None) -> bytes:
    if value is None:
        return b""
    if not value or any(c in value for c in b'",\r\n') or value == b"\\.":
        return b'"' + value.replace(b'"', b'""') + b'"'
    return value


@given(data=st.data(), kinds=st.lists(st.sampled_from(sorted(VALUES)), max_size=4), count=st.integers(0, 6))
@settings(deadline=None, max_examples=examples(150))
def test_values_equal_those_that_psycopg_reads(data: st.DataObject, kinds: list[str], count: int) -> None:
    columns = {"id": "int4"} | {f"c{i}": kind for i, kind in enumerate(kinds)}
    stream, first = PgOutputStream(columns).relation(), PgOutputStream(columns).relation()
    loads = [Transformer().get_loader(oid(kind), Format.TEXT).load for kind in columns.values()]
    wanted = []
    for i in range(count):
        values = [i, *(data.draw(st.none() | VALUES[kind]) for kind in kinds)]
        texts = [None if v is None else written(k, v) for k, v in zip(columns.values(), values, strict=True)]
        stream.insert(*texts)
        first.values.append(copied_message(7, b",".join(map(csv_of, texts)) + b"\n"))
        read = [None if t is None else load(t) for t, load in zip(texts, loads, strict=True)]
        wanted.append(dict(zip(columns, read, strict=True)))
    assert [row for _, _, row in decoded(stream)] == wanted
    assert [row for _, _, row in decoded(first)] == wanted


def test_a_single_column_may_be_null_or_empty_in_the_initial_copy() -> None:
    stream = PgOutputStream({"v": "text"}, identity=b"n").relation()
    stream.values += [copied_message(7, line) for line in (b"\n", b'""\n', b"x\n", b'"\\."\n', b"\n")]
    assert [row["v"] for _, _, row in decoded(stream)] == [None, "", "x", "\\.", None]


def test_text_that_is_not_unicode_is_bad() -> None:
    stream = PgOutputStream({"id": "int4", "v": "text"}).relation().insert(b"1", b"\xff").insert(b"2", b"b")
    found = PgOutput(FakeTypeCatalog()).decode(messages_of(stream.values))
    assert [b.index for b in found.bad] == [1]
    assert [np.array(changes.messages).tolist() for changes in found.changes] == [[2]]


@pytest.mark.parametrize("text", [b"{1,2", b'{"a}', b"x"])
def test_a_text_that_is_not_an_array_is_bad(text: bytes) -> None:
    stream = PgOutputStream({"id": "int4", "v": "text[]"}).relation().insert(b"1", b'{"x"}').insert(b"2", text)
    found = PgOutput(FakeTypeCatalog()).decode(messages_of(stream.values))
    assert [b.index for b in found.bad] == [2]
