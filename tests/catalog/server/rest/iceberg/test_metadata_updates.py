"""Updates of metadata documents, compared with what pyiceberg makes of the result."""

from typing import Any

import msgspec
import pytest

from interbed.catalog.server.rest.iceberg.metadata.builder import created
from interbed.catalog.server.rest.iceberg.metadata.documents import completed, new_table, written
from interbed.catalog.server.rest.iceberg.metadata.parts import OutdatedSnapshotError
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document, InvalidMetadataError
from tests.catalog.server.rest.iceberg.documents import LOCATION, NOW, ORDER, SCHEMA, SPEC
from tests.catalog.server.rest.iceberg.documents import add as _add
from tests.catalog.server.rest.iceberg.documents import changed as _updated
from tests.catalog.server.rest.iceberg.documents import check as _check
from tests.catalog.server.rest.iceberg.documents import of as _of
from tests.catalog.server.rest.iceberg.documents import table as _table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_new_table_has_fresh_ids(version: int) -> None:
    table = _table(version)
    fields = table["schemas"][0]["fields"]
    assert [field["id"] for field in fields] == [1, 2, 3]
    assert fields[1]["type"]["fields"][0]["id"] == 4
    assert table["last-column-id"] == 4
    assert table["partition-specs"][0]["fields"][0] == {
        "source-id": 3,
        "transform": "day",
        "name": "at_day",
        "field-id": 1000,
    }
    assert table["sort-orders"][0]["fields"][0]["source-id"] == 1
    _check(table)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_each_version_is_read_as_it_was_written(version: int) -> None:
    table = _table(version)
    assert completed(msgspec.json.decode(msgspec.json.encode(written(table)))) == table


def test_the_oldest_files_have_one_schema_and_one_spec() -> None:
    table = written(_table(1))
    for key in ("schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id", "refs"):
        del table[key]
    read = completed({**table, "schema": table["schema"]})
    assert read["schemas"][0]["schema-id"] == read["current-schema-id"] == 0
    assert read["last-partition-id"] == 1000
    _check(read)


def test_what_the_table_has_already_keeps_its_id() -> None:
    table = _table()
    made = _updated(
        table,
        {"action": "add-schema", "schema": {**table["schemas"][0], "schema-id": 5}},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": [{"source-id": 3, "transform": "day", "name": "at_day"}]}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {**table["sort-orders"][0], "order-id": 9}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-properties", "updates": {"a": "1"}},
    )
    for key in ("schemas", "partition-specs", "sort-orders", "current-schema-id", "default-spec-id"):
        assert made[key] == table[key]
    assert [entry["metadata-file"] for entry in made["metadata-log"]] == [f"{LOCATION}/metadata/00000-a.metadata.json"]


def test_a_new_spec_uses_the_ids_of_earlier_fields() -> None:
    fields = [
        {"source-id": 1, "transform": "bucket[4]", "name": "id_bucket"},
        {"source-id": 3, "transform": "day", "name": "day"},
    ]
    made = _updated(_table(), {"action": "add-spec", "spec": {"fields": fields}})
    assert [field["field-id"] for field in made["partition-specs"][1]["fields"]] == [1001, 1000]
    assert (made["partition-specs"][1]["spec-id"], made["last-partition-id"]) == (1, 1001)


def test_the_log_has_no_snapshot_that_was_current_only_within_a_commit() -> None:
    made = _updated(_table(), *_add(1), *_add(2, 1))
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [2]
    assert (made["current-snapshot-id"], made["last-sequence-number"]) == (2, 2)


def test_the_history_before_a_removed_snapshot_is_cut() -> None:
    table = _table()
    for number in (1, 2, 3):
        table = _updated(table, *_add(number, number - 1 or None))
    made = _updated(table, {"action": "remove-snapshots", "snapshot-ids": [2]})
    assert [entry["snapshot-id"] for entry in made["snapshot-log"]] == [3]
    main = {"action": "remove-snapshot-ref", "ref-name": "main"}
    gone = _updated(made, main, {"action": "remove-snapshots", "snapshot-ids": [3]})
    assert (gone["refs"], gone["current-snapshot-id"]) == ({}, None)


@pytest.mark.parametrize(("name", "kind"), [("main", "branch"), ("dev", "branch"), ("keep", "tag")])
def test_a_snapshot_that_a_branch_or_tag_names_is_not_removed(name: str, kind: str) -> None:
    table = _updated(_updated(_table(), *_add(1)), *_add(2, 1))
    ref = {"action": "set-snapshot-ref", "ref-name": name, "type": kind, "snapshot-id": 1}
    table = _updated(table, ref)
    removal = {"action": "remove-snapshots", "snapshot-ids": [1]}
    with pytest.raises(OutdatedSnapshotError, match=rf"Cannot remove snapshot 1: the {kind} '{name}' names it"):
        _updated(table, removal)
    gone = {"action": "remove-snapshot-ref", "ref-name": name}
    for updates in ([gone, removal], [removal, gone]):
        made = _updated(table, *updates)
        assert name not in made["refs"]
        assert [each["snapshot-id"] for each in made["snapshots"]] == [2]
    moved = _updated(table, removal, {**ref, "snapshot-id": 2})
    assert moved["refs"][name]["snapshot-id"] == 2


def test_a_rollback_is_logged_with_its_time() -> None:
    table = _updated(_updated(_table(), *_add(1)), *_add(2, 1))
    ref = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 1}
    assert _updated(table, ref)["snapshot-log"][-1] == {"timestamp-ms": NOW + 1, "snapshot-id": 1}


def test_rows_get_ids_since_version_3() -> None:
    table = _updated(_table(3), *_add(1, **{"first-row-id": 0, "added-rows": 5}))
    assert table["next-row-id"] == 5
    with pytest.raises(OutdatedSnapshotError, match="first-row-id is behind table next-row-id: 4 < 5"):
        _updated(table, *_add(2, 1, **{"first-row-id": 4, "added-rows": 1}))
    with pytest.raises(InvalidMetadataError, match="first-row-id is null"):
        _updated(table, *_add(2, 1))


def test_an_older_version_refuses_what_it_lacks() -> None:
    nanos = {"type": "struct", "fields": [{"id": 9, "name": "at", "required": False, "type": "timestamp_ns"}]}
    default = {
        "type": "struct",
        "fields": [{"id": 9, "name": "n", "required": False, "type": "int", "initial-default": 1}],
    }
    for schema in (nanos, default):
        with pytest.raises(InvalidMetadataError, match="not supported until v3"):
            _updated(_table(2), {"action": "add-schema", "schema": schema})
        # The source of the spec must remain: the schema is added and is not the current one.
        _updated(_table(3), {"action": "add-schema", "schema": schema})
    with pytest.raises(InvalidMetadataError, match="Cannot downgrade v2 table to v1"):
        _updated(_table(2), {"action": "upgrade-format-version", "format-version": 1})
    assert _updated(_table(2), {"action": "upgrade-format-version", "format-version": 3})["next-row-id"] == 0


@pytest.mark.parametrize(
    ("update", "message"),
    [
        ({"action": "set-current-schema", "schema-id": -1}, "no schema has been added"),
        ({"action": "set-current-schema", "schema-id": 7}, "unknown schema: 7"),
        ({"action": "set-default-spec", "spec-id": 7}, "no spec-id 7"),
        ({"action": "remove-schemas", "schema-ids": [0]}, "Cannot remove the current schema"),
        ({"action": "remove-partition-specs", "spec-ids": [0]}, "Cannot remove the default partition spec"),
        (
            {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 5},
            "Cannot set main to unknown snapshot: 5",
        ),
        (
            {"action": "add-spec", "spec": {"fields": [{"source-id": 2, "transform": "day", "name": "d"}]}},
            "Cannot partition by non-primitive source field: struct",
        ),
        (
            {"action": "add-spec", "spec": {"fields": [{"source-id": 1, "transform": "day", "name": "d"}]}},
            "Invalid source type long for transform: day",
        ),
        (
            {"action": "add-spec", "spec": {"fields": [{"source-id": 1, "transform": "bucket[2]", "name": "at"}]}},
            "Cannot create partition from name that exists in schema: at",
        ),
    ],
)
def test_an_update_that_does_not_fit_is_refused(update: Any, message: str) -> None:
    with pytest.raises(InvalidMetadataError, match=message.replace("(", r"\(").replace("[", r"\[")):
        _updated(_table(), update)


def test_a_commit_keeps_fields_that_it_does_not_know() -> None:
    table = {**_table(3), "future-field": {"a": [1]}}
    table["schemas"][0]["fields"][0]["future"] = True
    made = _updated(
        table,
        {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "YQ=="}},
        {"action": "set-statistics", "statistics": _statistics(1)},
    )
    assert made["future-field"] == {"a": [1]}
    assert made["schemas"][0]["fields"][0]["future"] is True
    assert [key["key-id"] for key in made["encryption-keys"]] == ["k"]
    assert [each["snapshot-id"] for each in made["statistics"]] == [1]
    gone = _updated(
        made,
        {"action": "remove-encryption-key", "key-id": "k"},
        {"action": "remove-statistics", "snapshot-id": 1},
    )
    assert (gone["encryption-keys"], gone["statistics"]) == ([], [])


def _statistics(snapshot: int) -> Document:
    return {
        "snapshot-id": snapshot,
        "statistics-path": f"{LOCATION}/s.puffin",
        "file-size-in-bytes": 1,
        "file-footer-size-in-bytes": 1,
        "blob-metadata": [],
    }


def test_a_new_table_may_set_its_current_schema_last() -> None:
    made = created(
        _of(
            {"action": "assign-uuid", "uuid": "97c9dc31-b6e3-4332-b9e8-7c2497204353"},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": SCHEMA, "last-column-id": 20},
            {"action": "add-spec", "spec": SPEC},
            {"action": "set-default-spec", "spec-id": 0},
            {"action": "add-sort-order", "sort-order": ORDER},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": LOCATION},
            {"action": "set-current-schema", "schema-id": 0},
        ),
        NOW,
    )
    _check(made)
    assert made["current-schema-id"] == 0
    assert made["last-partition-id"] == 1000
    with pytest.raises(InvalidMetadataError):
        created(_of({"action": "add-spec", "spec": SPEC}), NOW)


@pytest.mark.parametrize("source", [[[1]], {"a": 1}, "1", True, 1.5, 2**40], ids=str)
@pytest.mark.parametrize("key", ["source-id", "source-ids"])
def test_a_source_column_that_is_no_id_is_refused(key: str, source: object) -> None:
    given = [source] if key == "source-ids" else source
    spec = {"fields": [{key: given, "transform": "day", "name": "a"}]}
    order = {
        "order-id": 1,
        "fields": [{key: given, "transform": "day", "direction": "asc", "null-order": "nulls-first"}],
    }
    for further in ({"spec": spec, "order": None}, {"spec": None, "order": order}):
        with pytest.raises(InvalidMetadataError):
            new_table(SCHEMA, further["spec"], further["order"], LOCATION, {"format-version": "2"}, NOW)
    for update in ({"action": "add-spec", "spec": spec}, {"action": "add-sort-order", "sort-order": order}):
        with pytest.raises(InvalidMetadataError):
            _updated(_table(), update)


@pytest.mark.parametrize("digits", [11, 5000])
def test_an_argument_with_too_many_digits_is_refused(digits: int) -> None:
    spec = {"fields": [{"source-id": 1, "transform": f"bucket[{'9' * digits}]", "name": "a"}]}
    with pytest.raises(InvalidMetadataError, match="Invalid argument"):
        _updated(_table(), {"action": "add-spec", "spec": spec})


@pytest.mark.parametrize(
    "kind",
    [[], [1], 5, f"decimal(9, {'9' * 5000})", f"fixed[{'9' * 5000}]"],
    ids=["empty", "list", "number", "decimal", "fixed"],
)
def test_a_default_of_no_type_is_refused(kind: object) -> None:
    column = {"id": 1, "name": "x", "required": False, "type": kind, "initial-default": "1"}
    with pytest.raises(InvalidMetadataError):
        new_table({"type": "struct", "fields": [column]}, None, None, LOCATION, {"format-version": "3"}, NOW)
