"""Rows before changes that a source sends partially or not at all: a message is bad if its table requires the row.

The rows of the table are always those of the source as far as messages were taken: no row is left over, doubled or
added up twice.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from interbed.catalog.client.api import Catalog
from interbed.ingest.formats.debezium_avro import DebeziumAvro
from interbed.ingest.formats.debezium_json import DebeziumJson
from interbed.ingest.run_settings import BadMessages
from interbed.ingest.tables.computed_columns import ComputedColumn
from interbed.ingest.tables.table_sink import TableSettings
from tests.ingest.every_format import EncodedStream, Row, RowChange, ingested, place_of, written
from tests.ingest.formats.avro.events import FakeRegistry, avro_event, envelope
from tests.ingest.formats.test_debezium_json import payload, with_schema
from tests.ingest.shop import lake
from tests.ingest.test_unsent_values import MemoryDeadLetters, rows_of
from tests.support.tally import Tally

TYPES = {"id": "bigint", "p": "text", "ts": "bigint", "v": "bigint"}
NULLS: Row = {"p": None, "ts": None, "v": None}
FULL = "REPLICA IDENTITY FULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceStep:
    """A change as it was at the source, and as it is sent; an update of a key may be sent as two changes."""

    old: Row | None = None
    new: Row | None = None
    sent: RowChange


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Rows before updates and deletions that a source sends. Debezium `splits` an update of a key."""

    updates: str
    deletions: str
    splits: bool = False

    @property
    def is_whole(self) -> bool:
        return self.deletions == "whole"

    def steps(self) -> list[SourceStep]:
        """Rows that are inserted, then updated, moved to another partition, deleted, and given another key."""
        rows = {i: {"id": i, "p": "a", "ts": 5, "v": i} for i in range(1, 6)}
        steps = [SourceStep(new=row, sent=RowChange(after=row)) for row in rows.values()]
        if self.updates:
            steps.append(self._update(rows[1], {**rows[1], "ts": 6, "v": 10}))
            steps.append(self._update(rows[2], {**rows[2], "p": "b", "ts": 6}))
        steps.append(self._deletion(rows[3]))
        if self.updates:
            new = {**rows[4], "id": 14, "ts": 6}
            if self.splits:
                steps += [self._deletion(rows[4]), SourceStep(new=new, sent=RowChange(after=new))]
            else:
                old = rows[4] if self.updates == "whole" else {**NULLS, "id": 4}
                steps.append(SourceStep(old=rows[4], new=new, sent=RowChange(before=old, after=new)))
        return steps

    def _update(self, old: Row, new: Row) -> SourceStep:
        return SourceStep(old=old, new=new, sent=RowChange(before=_before(old, self.updates), after=new))

    def _deletion(self, old: Row) -> SourceStep:
        return SourceStep(old=old, sent=RowChange(before=_before(old, self.deletions)))


def _before(row: Row, how: str) -> Row:
    return {
        "whole": row,
        "nothing": {},
        "key": {"id": row["id"], **NULLS},
        "lacking": {"id": row["id"]},
        "defaults": {"id": row["id"], "p": "", "ts": 0, "v": 0},
    }[how]


SOURCES: Mapping[str, Mapping[str, Source]] = {
    "pgoutput": {
        "full": Source(updates="whole", deletions="whole"),
        "default": Source(updates="nothing", deletions="key"),
    },
    "debezium-json": {
        "full": Source(updates="whole", deletions="whole", splits=True),
        "default": Source(updates="nothing", deletions="key", splits=True),
        "default, as names are left out": Source(updates="nothing", deletions="lacking", splits=True),
        "default of NOT NULL columns": Source(updates="nothing", deletions="defaults", splits=True),
        "keys of old versions": Source(updates="key", deletions="key", splits=True),
        "deletions of NOT NULL columns": Source(updates="", deletions="defaults"),
        "deletions": Source(updates="", deletions="key"),
        "deletions as names are left out": Source(updates="", deletions="lacking"),
        "deletions in full": Source(updates="", deletions="whole"),
    },
    "debezium-json-schema": {
        "full": Source(updates="whole", deletions="whole", splits=True),
        "default": Source(updates="nothing", deletions="key", splits=True),
        "deletions": Source(updates="", deletions="key"),
        "deletions in full": Source(updates="", deletions="whole"),
    },
    "debezium-avro": {
        "full": Source(updates="whole", deletions="whole", splits=True),
        "default": Source(updates="nothing", deletions="key", splits=True),
        "deletions": Source(updates="", deletions="key"),
        "deletions in full": Source(updates="", deletions="whole"),
    },
    "canal-json": {
        "full": Source(updates="whole", deletions="whole"),
        "deletions of the key": Source(updates="", deletions="lacking"),
    },
    "maxwell-json": {
        "full": Source(updates="whole", deletions="whole"),
        "deletions of the key": Source(updates="", deletions="lacking"),
    },
    "json": {"tombstones": Source(updates="", deletions="lacking")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table; `bad` are the changes that require more than the key: updates, deletions."""

    options: Mapping[str, str] = field(default_factory=dict)
    keys: Sequence[str] = ("id",)
    partitions: Sequence[str] = ()
    bad: Sequence[str] = ()


_AGGREGATION = {
    "bucket": "1",
    "merge-engine": "aggregation",
    "aggregation.remove-record-on-delete": "true",
    "fields.default-aggregate-function": "last_value",
}
_GROUP = {
    "bucket": "1",
    "merge-engine": "partial-update",
    "fields.ts.sequence-group": "p,v",
    "partial-update.remove-record-on-sequence-group": "ts",
}
KINDS: Mapping[str, Kind] = {
    "plain": Kind(options={"bucket": "1"}),
    "key across partitions": Kind(partitions=["p"]),
    "key with the partition": Kind(
        options={"bucket": "1"}, keys=["id", "p"], partitions=["p"], bad=["update", "deletion"]
    ),
    "sequence": Kind(options={"bucket": "1", "sequence.field": "ts"}, bad=["deletion"]),
    "sequence of two": Kind(options={"bucket": "1", "sequence.field": "ts,v"}, bad=["deletion"]),
    "last_value": Kind(options=_AGGREGATION),
    "sum": Kind(options={**_AGGREGATION, "fields.v.aggregate-function": "sum"}, bad=["update"]),
    "sequence group": Kind(options=_GROUP, bad=["deletion"]),
    "sum in a sequence group": Kind(
        options={**_GROUP, "fields.v.aggregate-function": "sum"}, bad=["update", "deletion"]
    ),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("form", SOURCES)
def test_rows_equal_the_source_or_the_message_is_bad(tmp_path: Path, form: str, tally: Tally) -> None:
    for number, (name, source) in enumerate(SOURCES[form].items()):
        for which, kind in KINDS.items():
            steps = source.steps()
            stream = written(form, [step.sent for step in steps], TYPES)
            tables = TableSettings(primary_keys=kind.keys, partition_keys=kind.partitions, options=kind.options)
            catalog, letters = lake(tmp_path / f"{number}-{which}"), MemoryDeadLetters()
            ingested(catalog, stream, tables=tables, bad_messages=BadMessages.DEAD_LETTER, dead_letters=letters)
            tally("rows before changes: formats x sources x tables x changes", len(steps))
            case = (form, name, which, letters.found)
            expected: dict[int, Row] = {}
            for place, step in enumerate(steps):
                is_bad = place_of(form, [each.sent for each in steps], TYPES, place) in letters.found
                what = "deletion" if step.new is None else "insertion" if step.old is None else "update"
                # An update of a key is a deletion and an insertion.
                changes_key = step.old is not None and step.new is not None and step.old["id"] != step.new["id"]
                if source.is_whole or not changes_key:
                    assert is_bad == (what in kind.bad and not source.is_whole), case
                if not is_bad:
                    if step.old is not None:
                        del expected[step.old["id"]]
                    if step.new is not None:
                        expected[step.new["id"]] = step.new
            assert rows_of(catalog) == sorted(expected.values(), key=lambda row: row["id"]), case


def outcome(path: Path, stream: EncodedStream, tables: TableSettings) -> tuple[Catalog, dict[int, str]]:
    catalog, letters = lake(path), MemoryDeadLetters()
    handling: dict[str, Any] = {"bad_messages": BadMessages.DEAD_LETTER, "dead_letters": letters}
    ingested(catalog, stream, tables=tables, sizes=(2,), **handling)
    return catalog, letters.found


def test_the_reason_names_the_unknown_column_and_the_required_setting(tmp_path: Path) -> None:
    row = {"id": 1, "p": "a", "ts": 5, "v": 1}
    changes = [
        RowChange(after=row),
        RowChange(before={}, after={**row, "p": "b"}),
        RowChange(before={"id": 1, **NULLS}),
    ]
    tables = TableSettings(primary_keys=["id", "p"], partition_keys=["p"], options={"bucket": "1"})
    _, bad = outcome(tmp_path / "key", written("pgoutput", changes, TYPES), tables)
    assert [FULL in reason and "'p'" in reason for reason in bad.values()] == [True, True]
    tables = TableSettings(primary_keys=["id"], options={"bucket": "1", "sequence.field": "ts"})
    _, bad = outcome(tmp_path / "sequence", written("pgoutput", changes, TYPES), tables)
    [reason] = bad.values()
    assert FULL in reason
    assert "'ts'" in reason
    assert "sequence.field" in reason


@pytest.mark.parametrize(
    ("computed", "key", "is_bad"),
    [("dt=substring(p,0,1)", "dt", True), ("dt=truncate(id,10)", "dt", False), ("dt=cast(x,string)", "dt", False)],
)
def test_a_computed_key_column_is_known_if_its_inputs_are_in_the_key(
    tmp_path: Path, computed: str, key: str, is_bad: bool
) -> None:
    row = {"id": 1, "p": "a", "ts": 5, "v": 1}
    changes = [
        RowChange(after=row),
        RowChange(before={}, after={**row, "p": "b"}),
        RowChange(before={"id": 1, **NULLS}),
    ]
    tables = TableSettings(
        primary_keys=["id", key],
        partition_keys=[key],
        options={"bucket": "1"},
        computed=[ComputedColumn.parse(computed)],
    )
    catalog, bad = outcome(tmp_path, written("pgoutput", changes, TYPES), tables)
    assert len(bad) == (2 if is_bad else 0), bad
    assert len(rows_of(catalog)) == is_bad


@pytest.mark.parametrize(
    ("function", "value", "is_bad"),
    [
        ("last_non_null_value", 7, False),
        ("last_non_null_value", None, True),
        ("last_value", None, False),
        ("max", 7, True),
        ("first_value", 7, True),
        ("product", 7, True),
    ],
)
def test_some_aggregate_functions_require_the_row_before(
    tmp_path: Path, function: str, value: int | None, is_bad: bool
) -> None:
    row = {"id": 1, "p": "a", "ts": 5, "v": 3}
    changes = [RowChange(after=row), RowChange(before={}, after={**row, "v": value})]
    for ignored in (False, True):
        options = {**_AGGREGATION, "fields.v.aggregate-function": function}
        if ignored:
            del options["aggregation.remove-record-on-delete"]
            options["fields.v.ignore-retract"] = "true"
        tables = TableSettings(primary_keys=["id"], options=options)
        _, bad = outcome(tmp_path / str(ignored), written("pgoutput", changes, TYPES), tables)
        assert bool(bad) == (is_bad and not ignored), (function, bad)


def test_the_connector_defines_whether_rows_are_complete(tmp_path: Path) -> None:
    """MySQL logs whole rows, so a zero or a null is a value."""
    row, other = {"id": 1, "p": "", "ts": None}, {"id": 2, "p": "x", "ts": 3}
    for connector in ("mysql", "postgresql", None):
        events: list[Any] = [payload("c", None, other), payload("c", None, row), payload("d", row, None)]
        for event in events:
            event["source"] |= {} if connector is None else {"connector": connector}
        keys = [{"id": 2}, {"id": 1}, {"id": 1}]
        stream = EncodedStream(messages=list(zip(keys, events, strict=True)), decoder=DebeziumJson)
        options = {"bucket": "1", "sequence.field": "ts"}
        tables = TableSettings(primary_keys=["id", "p"], partition_keys=["p"], options=options)
        catalog, bad = outcome(tmp_path / str(connector), stream, tables)
        assert bool(bad) == (connector != "mysql"), bad
        assert len(rows_of(catalog)) == 1 + len(bad)


def test_another_update_shows_that_rows_are_complete(tmp_path: Path) -> None:
    """With REPLICA IDENTITY FULL, and a row with nothing but a key, a null and an empty text."""
    row, other = {"id": 1, "p": "", "ts": None}, {"id": 2, "p": "x", "ts": 3}
    changes = [
        RowChange(after=row),
        RowChange(after=other),
        RowChange(before=other, after={**other, "ts": 4}),
        RowChange(before=row),
    ]
    options = {"bucket": "1", "sequence.field": "ts"}
    tables = TableSettings(primary_keys=["id", "p"], partition_keys=["p"], options=options)
    for form in ("debezium-json", "debezium-json-schema", "debezium-avro"):
        catalog, bad = outcome(tmp_path / form, written(form, changes, TYPES), tables)
        assert not bad
        assert rows_of(catalog) == [{**other, "ts": 4}]


@pytest.mark.parametrize(
    ("p", "optional", "default", "is_bad"),
    [
        ("x", False, None, False),
        ("x", False, "x", True),
        ("x", True, "x", True),
        ("", False, None, True),
        ("", True, None, False),
    ],
)
def test_a_default_of_the_schema_may_replace_an_unsent_value(
    tmp_path: Path, p: str, optional: bool, default: str | None, is_bad: bool
) -> None:
    row, key = {"id": 1, "p": p}, {"id": 1}
    events = [payload("c", None, row), payload("d", row, None)]
    given = {} if default is None else {"default": default}
    fields: list[dict[str, Any]] = [
        {"type": "int64", "field": "id"},
        {"type": "string", "optional": optional, "field": "p", **given},
    ]
    json = EncodedStream(messages=[(key, with_schema(event, fields)) for event in events], decoder=DebeziumJson)
    schemas = FakeRegistry()
    text: Any = {"type": "string", **({} if default is None else {"connect.default": default})}
    columns: list[Any] = [
        {"name": "id", "type": "long"},
        {"name": "p", "type": ["null", text] if optional else text},
    ]
    key_schema = {"type": "record", "name": "Key", "fields": [{"name": "id", "type": "long"}]}
    avro = EncodedStream(
        messages=[
            (schemas.encoded(key_schema, key), schemas.encoded(envelope(columns), avro_event(op, before, after)))
            for op, before, after in (("c", None, row), ("d", row, None))
        ],
        decoder=lambda: DebeziumAvro(schemas),
    )
    tables = TableSettings(primary_keys=["id", "p"], partition_keys=["p"], options={"bucket": "1"})
    for name, stream in (("json", json), ("avro", avro)):
        catalog, bad = outcome(tmp_path / name, stream, tables)
        assert bool(bad) == is_bad, (name, bad)
        assert len(rows_of(catalog)) == len(bad)


def test_an_incomplete_changelog_is_warned_about_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    row = {"id": 1, "p": "a", "ts": 5, "v": 1}
    for sent, count in (("whole", 0), ("nothing", 1)):
        changes = [RowChange(after=row), *[RowChange(before=_before(row, sent), after={**row, "v": 7})] * 3]
        tables = TableSettings(primary_keys=["id"], options={"bucket": "1", "changelog-producer": "input"})
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            outcome(tmp_path / sent, written("pgoutput", changes, TYPES), tables)
        found = [each for each in caplog.messages if "changelog" in each]
        assert len(found) == count
        assert all("shop.orders" in each and FULL in each for each in found)
