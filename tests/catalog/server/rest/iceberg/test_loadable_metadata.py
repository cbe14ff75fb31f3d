"""Updates that Iceberg's library could not load again are refused: the table would be lost for all of its clients."""

from typing import Any

import pytest

from interbed.catalog.server.rest.iceberg.metadata.documents import new_table
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document, InvalidMetadataError
from interbed.catalog.server.rest.iceberg.metadata.views import new_view
from tests.catalog.server.rest.iceberg.documents import LOCATION, NOW, SCHEMA
from tests.catalog.server.rest.iceberg.documents import add as _add
from tests.catalog.server.rest.iceberg.documents import changed as _updated
from tests.catalog.server.rest.iceberg.documents import snapshot as _snapshot
from tests.catalog.server.rest.iceberg.documents import table as _table


@pytest.mark.parametrize(
    ("skew", "message"),
    [
        (-60_001, "is from 60001 ms before the current one"),
        (60_002, "in the future"),
    ],
)
def test_a_snapshot_of_a_wrong_clock_is_refused(skew: int, message: str) -> None:
    table = _updated(_table(), *_add(1))
    late = {"timestamp-ms": NOW + 1 + skew}
    with pytest.raises(InvalidMetadataError, match=message):
        _updated(table, *_add(2, 1, **late))
    # A branch has no log.
    branch = _updated(table, {"action": "add-snapshot", "snapshot": _snapshot(2, 1, **late)})
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2}
    assert _updated(branch, ref)["snapshot-log"][-1] == {"timestamp-ms": NOW + 1, "snapshot-id": 2}


def test_a_log_that_an_earlier_clock_has_spoiled_is_put_in_order() -> None:
    table = _updated(_table(), *_add(1))
    ahead = {"snapshot-id": 1, "timestamp-ms": NOW + 100_000}
    for log in ([ahead], [ahead, {**ahead, "timestamp-ms": NOW - 100_000}]):
        spoiled = {**table, "snapshot-log": log}
        rolled = _updated(spoiled, {"action": "add-snapshot", "snapshot": _snapshot(2, 1)})
        ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 2}
        for made in (_updated(spoiled, *_add(2, 1)), _updated(rolled, ref)):
            times = [entry["timestamp-ms"] for entry in made["snapshot-log"]]
            assert times == [NOW + 100_000] * (len(log) + 1)
            assert made["last-updated-ms"] == NOW + 100_000


def test_the_highest_sequence_number_never_falls() -> None:
    table = _updated(_updated(_table(), *_add(1)), *_add(2, 1))
    replaced = {"action": "add-snapshot", "snapshot": _snapshot(9, **{"sequence-number": 1})}
    assert _updated(table, replaced)["last-sequence-number"] == 2


def test_ids_of_rows_never_overlap() -> None:
    table = _updated(_table(3), *_add(1, **{"first-row-id": 7, "added-rows": 5}))
    assert table["next-row-id"] == 12


def _column(**more: Any) -> Document:
    return {"id": 30, "name": "n", "required": False, "type": "int", **more}


def _schema(*fields: Document, **more: Any) -> Document:
    return {"action": "add-schema", "schema": {"type": "struct", "fields": list(fields), **more}}


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("boolean", True, 1),
        ("int", -(2**31), 2**31),
        ("long", 2**63 - 1, 2**63),
        ("int", 1, True),
        ("float", 1.0, 1),
        ("double", 1.5, "1.5"),
        ("decimal(9, 2)", "12.34", "12.3"),
        ("decimal(9,0)", "-12", "12."),
        ("string", "x", 1),
        ("uuid", "97c9dc31-b6e3-4332-b9e8-7c2497204353", "97c9dc31"),
        ("date", "2020-02-29", "2021-02-29"),
        ("time", "10:00:00.123456", "25:00:00"),
        ("timestamp", "2020-01-01T00:00:00.123456", "2020-01-01T00:00:00+00:00"),
        ("timestamptz", "2020-01-01T00:00:00+00:00", "2020-01-01T00:00:00"),
        ("timestamptz", "2020-01-01T00:00:00.1+00:00", "2020-01-01T00:00:00+02:00"),
        ("fixed[2]", "00fF", "00"),
        ("binary", "", "0"),
        ("unknown", None, 1),
        ({"type": "list", "element-id": 31, "element": "int", "element-required": False}, None, [1]),
    ],
)
def test_a_default_is_a_value_of_its_column(kind: Any, good: Any, bad: Any) -> None:
    for key in ("initial-default", "write-default"):
        made = _updated(_table(3), _schema(_column(type=kind, **{key: good})))
        stored = made["schemas"][-1]["fields"][0]
        assert stored.get(key) == good
        assert (key in stored) == (good is not None)
        with pytest.raises(InvalidMetadataError, match="Cannot parse default"):
            _updated(_table(3), _schema(_column(type=kind, **{key: bad})))


def test_a_new_table_has_no_null_defaults() -> None:
    schema = {"type": "struct", "fields": [_column(**{"write-default": None, "doc": None})]}
    made = new_table(schema, None, None, LOCATION, {"format-version": "3"}, NOW)
    assert made["schemas"][0]["fields"] == [{"id": 1, "name": "n", "required": False, "type": "int"}]


@pytest.mark.parametrize(
    "fields",
    [
        [_column()],
        [_column(required=True, type="double")],
        [_column(required=True, type="float")],
        [_column(required=True, type={"type": "struct", "fields": []})],
        [{"id": 8, "name": "s", "required": False, "type": {"type": "struct", "fields": [_column(required=True)]}}],
        [
            {
                "id": 8,
                "name": "s",
                "required": True,
                "type": {"type": "list", "element-id": 30, "element": "int", "element-required": True},
            }
        ],
    ],
)
def test_an_identifier_is_a_required_primitive_column(fields: list[Document]) -> None:
    with pytest.raises(InvalidMetadataError, match=r"Cannot add field .* as an identifier field"):
        _updated(_table(), _schema(*fields, **{"identifier-field-ids": [30]}))
    inner = {"type": "struct", "fields": [_column(required=True)]}
    good = {"id": 8, "name": "s", "required": True, "type": inner}
    made = _updated(_table(), _schema(good, **{"identifier-field-ids": [30]}))
    assert made["schemas"][-1]["identifier-field-ids"] == [30]


def test_a_column_never_gets_the_name_of_a_partition_field() -> None:
    kept = [{"id": 1, "name": "id", "required": True, "type": "long"}, {**SCHEMA["fields"][2], "id": 3}]
    current = {"action": "set-current-schema", "schema-id": -1}
    clash = _schema(*kept, _column(name="at_day"))
    with pytest.raises(InvalidMetadataError, match="at_day of the spec 0 has the name of a column"):
        _updated(_table(), clash, current)
    # Also if the spec is no longer the default one.
    table = _updated(
        _table(),
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    )
    with pytest.raises(InvalidMetadataError, match="at_day of the spec 0 has the name of a column"):
        _updated(table, clash, current)
    with pytest.raises(InvalidMetadataError, match="at_day of the spec 0 has the name of a column"):
        _updated(table, _schema(kept[0], _column(name="at_day")), current)
    # A field whose column was dropped is no obstacle.
    _updated(table, _schema(kept[0], _column(name="day")), current)
    with pytest.raises(InvalidMetadataError, match="Invalid source type boolean for transform: day"):
        _updated(table, _schema(kept[0], {**kept[1], "type": "boolean"}), current)


def test_a_base_with_such_a_name_may_be_changed() -> None:
    table = _table()
    table["schemas"][0]["fields"].append(_column(name="at_day"))
    assert _updated(table, {"action": "set-properties", "updates": {"a": "1"}})["properties"]["a"] == "1"


@pytest.mark.parametrize(
    "update",
    [
        {"action": "add-snapshot", "snapshot": _snapshot(1, **{"sequence-number": -1})},
        {"action": "add-snapshot", "snapshot": {**_snapshot(1), "timestamp-ms": "now"}},
        {"action": "add-snapshot", "snapshot": _snapshot(1, summary={"operation": "append", "added-records": 1})},
        {"action": "add-snapshot", "snapshot": {**_snapshot(1), "schema-id": "0"}},
        {"action": "add-snapshot", "snapshot": _snapshot(2**63)},
        {"action": "add-snapshot", "snapshot": _snapshot(1, **{"first-row-id": 0, "added-rows": -1})},
        {"action": "set-statistics", "statistics": {"snapshot-id": 1}},
        {"action": "set-partition-statistics", "partition-statistics": {"snapshot-id": 1, "file-size-in-bytes": 1}},
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k"}},
        {
            "action": "set-snapshot-ref",
            "ref-name": "b",
            "type": "branch",
            "snapshot-id": 1,
            "max-ref-age-ms": 0,
        },
        {
            "action": "set-snapshot-ref",
            "ref-name": "b",
            "type": "tag",
            "snapshot-id": 1,
            "min-snapshots-to-keep": 1,
        },
        {"action": "add-spec", "spec": {"fields": [{"source-id": 1, "transform": "bucket[0]", "name": "b"}]}},
        _schema({"id": 30, "name": "n", "type": "int"}),
        _schema(_column(type="decimal(39, 2)")),
        _schema(_column(type="unknown", required=True)),
        _schema(_column(id=2**31)),
    ],
)
def test_what_iceberg_s_library_cannot_load_is_refused(update: Document) -> None:
    with pytest.raises(InvalidMetadataError):
        _updated(_updated(_table(3), *_add(1, **{"first-row-id": 0, "added-rows": 1})), update)


def test_a_table_of_version_1_has_no_sequence_numbers() -> None:
    with pytest.raises(InvalidMetadataError, match="Sequence number must be 0 in v1: 1"):
        _updated(_table(1), *_add(1))
    assert _updated(_table(1), *_add(1, **{"sequence-number": 0}))["current-snapshot-id"] == 1
    field = {"source-id": 1, "transform": "identity", "name": "id"}
    made = _updated(_table(1), {"action": "add-spec", "spec": {"fields": [field]}})
    assert made["partition-specs"][1]["fields"] == [{**field, "field-id": 1000}]


@pytest.mark.parametrize("lacking", ["summary", "default-namespace", "representations"])
def test_a_view_version_has_all_of_its_fields(lacking: str) -> None:
    version: Document = {
        "summary": {},
        "default-namespace": ["shop"],
        "default-catalog": None,
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    }
    schema = {"type": "struct", "fields": [_column(doc=None)]}
    assert "default-catalog" not in new_view(schema, version, LOCATION, {}, NOW)["versions"][0]
    with pytest.raises(InvalidMetadataError, match=f"missing required field `{lacking}`"):
        new_view(schema, {key: value for key, value in version.items() if key != lacking}, LOCATION, {}, NOW)
