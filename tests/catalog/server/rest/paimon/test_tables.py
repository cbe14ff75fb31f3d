"""Tables by REST: the same tables as those of Hive's clients; shapes and refusals."""

import uuid
from typing import Any

import pyarrow as pa
import pytest

from interbed.catalog.client.hive.catalog import HiveCatalog
from interbed.catalog.server.rest.paimon.schema_json import refused_change
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.meta.schema.change import SchemaChange
from interbed.storage.meta.schema.table_schema import Schema
from tests.catalog.server.rest.paimon.conftest import RestAnswer, RestClient
from tests.support.servers.metastore import table


def _alter(rest: RestClient, database: str, name: str, *changes: dict[str, Any]) -> RestAnswer:
    path = ("databases", database, "tables", name)
    return rest.call("POST", "hive", *path, body={"changes": list(changes)})


def test_a_table_of_a_hive_catalog_is_there(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    columns: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("name", pa.string())]
    schema = pa.schema(columns)
    made = hive.create_table(f"{database}.t", schema, primary_keys=["id"], options={"bucket": 2}, comment="words")
    found = rest.get("databases", database, "tables", "t")
    assert found["database"] == database
    assert found["name"] == "t"
    assert found["path"] == f"file:{made.location}"
    assert found["isExternal"] is False
    assert found["schemaId"] == 0
    assert found["schema"] == {
        "fields": [{"id": 0, "name": "id", "type": "BIGINT NOT NULL"}, {"id": 1, "name": "name", "type": "STRING"}],
        "partitionKeys": [],
        "primaryKeys": ["id"],
        "options": {"bucket": "2"},
        "comment": "words",
    }
    assert found["owner"]
    assert found["createdAt"] > 0
    assert rest.get("databases", database, "tables") == {"tables": ["t"], "nextPageToken": None}
    assert rest.get("databases", database, "table-details")["tableDetails"] == [found]
    assert rest.get("tables", "id", found["id"]) == found


def test_a_table_made_by_rest_is_one_of_hive_catalogs(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    rest.create_table(database, "t")
    opened = hive.get_table(f"{database}.t")
    opened.append(pa.table({"dt": ["a"], "id": [1]}))
    assert opened.to_arrow().to_pylist() == [{"dt": "a", "id": 1}]
    found = rest.get("databases", database, "tables", "t", "snapshot")["snapshot"]
    assert (found["snapshot"]["id"], found["recordCount"], found["fileCount"]) == (1, 1, 1)
    assert found["fileSizeInBytes"] > 0


def test_the_id_of_a_table_stays_with_a_rename_and_ends_with_a_drop(rest: RestClient, database: str) -> None:
    rest.create_table(database, "t")
    path = ("databases", database, "tables")
    first = rest.get(*path, "t")["id"]
    names = {
        "source": {"database": database, "object": "t"},
        "destination": {"database": database, "object": "u"},
    }
    rest.post("tables", "rename", body=names)
    assert rest.get(*path, "u")["id"] == first
    rest.delete(*path, "u")
    rest.create_table(database, "u")
    assert rest.get(*path, "u")["id"] != first
    answer = rest.call("GET", "hive", "tables", "id", first)
    assert (answer.status, answer.body["resourceType"]) == (404, "TABLE")


def test_tables_are_listed_by_pages_patterns_and_types(rest: RestClient, database: str) -> None:
    for name in ("c", "a", "b"):
        rest.create_table(database, name)
    path = ("databases", database, "tables")
    assert rest.get(*path, maxResults="2") == {"tables": ["a", "b"], "nextPageToken": "b"}
    assert rest.get(*path, maxResults="2", pageToken="b") == {"tables": ["c"], "nextPageToken": None}
    assert rest.get(*path, tableNamePattern="b%")["tables"] == ["b"]
    for name in ("ba", "bb"):
        rest.create_table(database, name)
    assert rest.get(*path, tableNamePattern="b%", maxResults="2") == {"tables": ["b", "ba"], "nextPageToken": "ba"}
    paged = rest.get(*path, tableNamePattern="b%", maxResults="2", pageToken="ba")
    assert paged == {"tables": ["bb"], "nextPageToken": None}
    assert rest.get(*path, tableNamePattern="b")["tables"] == ["b"]
    assert rest.get(*path, tableNamePattern="b", pageToken="b")["tables"] == []
    assert rest.get(*path, tableNamePattern="b%", tableType="table")["tables"] == ["b", "ba", "bb"]
    assert [
        name["object"] for name in rest.get("tables", tableNamePattern="b%", databaseNamePattern=database)["tables"]
    ] == [
        "b",
        "ba",
        "bb",
    ]
    for name in ("ba", "bb"):
        rest.delete(*path, name)
    assert rest.get(*path, tableType="table")["tables"] == ["a", "b", "c"]
    assert rest.get(*path, tableType="format-table")["tables"] == []
    everywhere = rest.get("tables", databaseNamePattern=database, maxResults="2")
    assert everywhere["tables"] == [{"database": database, "object": "a"}, {"database": database, "object": "b"}]
    assert everywhere["nextPageToken"] == f"{database}.b"


def test_tables_of_other_formats_are_no_tables_of_paimon(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    hive.client.create_table(table(database, "foreign"))
    assert rest.get("databases", database, "tables")["tables"] == []
    answer = rest.call("GET", "hive", "databases", database, "tables", "foreign")
    assert (answer.status, answer.body["resourceType"]) == (404, "TABLE")


def test_a_missing_table_and_a_missing_database_are_distinct_errors(rest: RestClient, database: str) -> None:
    answer = rest.call("GET", "hive", "databases", database, "tables", "none")
    assert (answer.status, answer.body["resourceType"], answer.body["resourceName"]) == (404, "TABLE", "none")
    answer = rest.call("GET", "hive", "databases", "none", "tables")
    assert (answer.status, answer.body["resourceType"]) == (404, "DATABASE")
    answer = rest.call("GET", "hive", "databases", database, "tables", "t$snapshots")
    assert (answer.status, answer.body["resourceType"]) == (404, "TABLE")


@pytest.mark.parametrize("name", ["../t", "a/b", "", "a.b", ".."])
def test_a_table_name_that_leads_elsewhere_is_refused(rest: RestClient, database: str, name: str) -> None:
    body = {"identifier": {"database": database, "object": name}, "schema": {"fields": []}}
    assert rest.call("POST", "hive", "databases", database, "tables", body=body).status == 400


def test_a_table_that_exists_is_a_conflict(rest: RestClient, database: str) -> None:
    rest.create_table(database, "t")
    body = {"identifier": {"database": database, "object": "t"}, "schema": {"fields": []}}
    answer = rest.call("POST", "hive", "databases", database, "tables", body=body)
    assert (answer.status, answer.body["resourceType"], answer.body["resourceName"]) == (409, "TABLE", "t")


def test_all_changes_of_a_schema_reach_the_file_and_the_entry(
    rest: RestClient, hive: HiveCatalog, database: str
) -> None:
    rest.create_table(database, "t")
    answer = _alter(
        rest,
        database,
        "t",
        {"action": "setOption", "key": "snapshot.num-retained.max", "value": "70"},
        {"action": "updateComment", "comment": "words"},
        {"action": "addColumn", "fieldNames": ["x"], "dataType": "INT", "comment": "an x", "move": None},
        {
            "action": "addColumn",
            "fieldNames": ["row"],
            "dataType": {"type": "ROW", "fields": [{"id": 0, "name": "inner", "type": "INT"}]},
            "move": {"fieldName": "row", "referenceFieldName": None, "type": "FIRST"},
        },
        {"action": "addColumn", "fieldNames": ["row", "second"], "dataType": "STRING"},
        {"action": "renameColumn", "fieldNames": ["x"], "newName": "y"},
        {"action": "updateColumnType", "fieldNames": ["y"], "newDataType": "BIGINT", "keepNullability": True},
        {"action": "updateColumnComment", "fieldNames": ["id"], "newComment": "the id"},
        {"action": "updateColumnDefaultValue", "fieldNames": ["y"], "newDefaultValue": "5"},
        {"action": "dropColumn", "fieldNames": ["dt"]},
        {
            "action": "updateColumnPosition",
            "move": {"fieldName": "id", "referenceFieldName": "y", "type": "AFTER"},
        },
        {"action": "updateColumnNullability", "fieldNames": ["id"], "newNullability": True},
    )
    assert answer.status == 200, answer
    fields = {field.name: field for field in hive.get_table(f"{database}.t").fields}
    assert list(fields) == ["row", "y", "id"]
    assert str(fields["row"].type) == "ROW<inner INT, second STRING>"
    assert (str(fields["y"].type), fields["y"].description, fields["y"].default_value) == ("BIGINT", "an x", "5")
    assert fields["id"].description == "the id"
    found = rest.get("databases", database, "tables", "t")
    assert found["schemaId"] == 1
    assert found["schema"]["options"]["snapshot.num-retained.max"] == "70"
    entry = hive.client.get_table(database, "t")
    assert [column.name for column in entry.sd.cols] == ["row", "y", "id"]

    for wrong in (
        {"action": "updateColumnNullability", "fieldNames": ["id"], "newNullability": "false"},
        {"action": "updateColumnType", "fieldNames": ["y"], "newDataType": "BIGINT", "keepNullability": "false"},
        {"action": "updateColumnComment", "fieldNames": ["id"], "newComment": {"a": 1}},
        {"action": "updateComment", "comment": 5},
        {"action": "renameColumn", "fieldNames": ["id"], "newName": 5},
        {"action": "setOption", "key": 5, "value": "x"},
    ):
        assert _alter(rest, database, "t", wrong).status == 400, wrong
    assert rest.get("databases", database, "tables", "t") == found

    assert _alter(rest, database, "t", {"action": "removeOption", "key": "snapshot.num-retained.max"}).status == 200
    assert rest.get("databases", database, "tables", "t")["schema"]["options"] == {}


@pytest.mark.parametrize(
    ("changes", "status", "resource", "name"),
    [
        ([{"action": "dropColumn", "fieldNames": ["none"]}], 404, "COLUMN", "none"),
        ([{"action": "renameColumn", "fieldNames": ["none"], "newName": "x"}], 404, "COLUMN", "none"),
        ([{"action": "renameColumn", "fieldNames": ["id"], "newName": "dt"}], 409, "COLUMN", "dt"),
        ([{"action": "addColumn", "fieldNames": ["id"], "dataType": "INT"}], 409, "COLUMN", "id"),
        ([{"action": "updateColumnType", "fieldNames": ["id"], "newDataType": "DATE"}], 500, None, None),
        ([{"action": "addColumn", "fieldNames": ["x"], "dataType": "NONE"}], 400, None, None),
        ([{"action": "addColumn"}], 400, None, None),
        ([{"action": "fly"}], 501, None, None),
        ([{"action": "dropColumn", "fieldNames": [n]} for n in ("id", "dt")], 400, None, None),
    ],
)
def test_a_refused_change_names_its_column(
    rest: RestClient, database: str, changes: list[dict[str, Any]], status: int, resource: str | None, name: str | None
) -> None:
    rest.create_table(database, "t")
    answer = _alter(rest, database, "t", *changes)
    assert (answer.status, answer.body["resourceType"], answer.body["resourceName"]) == (status, resource, name)
    assert rest.get("databases", database, "tables", "t")["schemaId"] == 0


def test_a_refusal_follows_the_changes_before_it() -> None:
    schema = Schema.from_pyarrow_schema(pa.schema([("a", pa.int64()), ("b", pa.int64())])).to_table_schema()
    error = InvalidInputError("refused")
    changes = [SchemaChange.rename_column("a", "c"), SchemaChange.drop_column("a")]
    found = refused_change(schema, changes, error)
    assert found is not None
    assert found.fields["name"] == "a"
    assert refused_change(schema, [SchemaChange.rename_column("a", "c"), SchemaChange.drop_column("c")], error) is None


def test_a_path_makes_an_external_table_and_register_finds_its_files(
    rest: RestClient, hive: HiveCatalog, database: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    place = tmp_path_factory.mktemp("elsewhere") / "t"
    rest.create_table(database, "t", path=str(place))
    hive.get_table(f"{database}.t").append(pa.table({"dt": ["a"], "id": [1]}))
    found = rest.get("databases", database, "tables", "t")
    assert (found["isExternal"], found["path"]) == (True, f"file:{place}")
    rest.delete("databases", database, "tables", "t")
    body = {"identifier": {"database": database, "object": "u"}, "path": str(place)}
    rest.post("databases", database, "register", body=body)
    assert hive.get_table(f"{database}.u").count() == 1
    body["identifier"] = {"database": database, "object": "v"}
    body["path"] = str(place.parent / "nothing")
    assert rest.call("POST", "hive", "databases", database, "register", body=body).status == 400
    body = {**body, "path": f"{body['path']}\0"}
    assert rest.call("POST", "hive", "databases", database, "register", body=body).status == 400


def test_the_audit_log_and_locks_name_the_client(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    """A change by REST takes the lock of the table, and leaves none."""
    rest.create_table(database, "t")
    _alter(rest, database, "t", {"action": "updateComment", "comment": "words"})
    assert hive.client.show_locks(database, "t") == []


def _replace(rest: RestClient, database: str, columns: list[tuple[str, str]], **more: Any) -> RestAnswer:
    fields = [{"id": index, "name": name, "type": of} for index, (name, of) in enumerate(columns)]
    schema = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": {}, "comment": None, **more}
    return rest.call("POST", "hive", "databases", database, "tables", "t", "replace", body={"schema": schema})


def test_a_replaced_table_has_other_columns_and_its_history(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    rest.create_table(database, "t")
    hive.get_table(f"{database}.t").append(pa.table({"dt": ["a"], "id": [1]}))
    before = rest.get("databases", database, "tables", "t")
    assert _replace(rest, database, [("x", "INT"), ("id", "BIGINT")], comment="other").status == 200
    found = rest.get("databases", database, "tables", "t")
    assert (found["id"], found["path"], found["schemaId"]) == (before["id"], before["path"], 1)
    assert [(field["id"], field["name"]) for field in found["schema"]["fields"]] == [(2, "x"), (1, "id")]
    assert found["schema"]["comment"] == "other"
    opened = hive.get_table(f"{database}.t")
    assert opened.count() == 0
    assert opened.scan(snapshot_id=1).to_arrow().to_pylist() == [{"dt": "a", "id": 1}]
    assert [column.name for column in hive.client.get_table(database, "t").sd.cols] == ["x", "id"]


def test_a_replacement_that_moves_or_repartitions_a_table_is_refused(rest: RestClient, database: str) -> None:
    rest.create_table(database, "t")
    assert _replace(rest, database, [("x", "INT")], partitionKeys=["x"]).status == 400
    moved = _replace(rest, database, [("x", "INT")], options={"path": "file:/tmp/elsewhere"})
    assert moved.status == 400
    assert "keeps its location" in moved.body["message"]
    rest.delete("databases", database, "tables", "t")
    assert _replace(rest, database, [("x", "INT")]).status == 404


def test_a_schema_is_rolled_back_unless_it_is_in_use(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    rest.create_table(database, "t")
    path = ("databases", database, "tables", "t")
    add = {"action": "addColumn", "fieldNames": ["x"], "dataType": "INT"}
    assert _alter(rest, database, "t", add).status == 200
    rest.post(*path, "rollback-schema", body={"schemaId": 0})
    assert rest.get(*path)["schemaId"] == 0
    # The entry of the metastore follows.
    assert [column.name for column in hive.client.get_table(database, "t").sd.cols] == ["dt", "id"]
    assert _alter(rest, database, "t", add).status == 200
    hive.get_table(f"{database}.t").append(pa.table({"dt": ["a"], "id": [1]}))
    refused = rest.call("POST", "hive", *path, "rollback-schema", body={"schemaId": 0})
    assert refused.status == 400
    assert "schema 1 is still referenced by snapshots" in refused.body["message"]
    assert rest.call("POST", "hive", *path, "rollback-schema", body={"schemaId": 9}).status == 400


def test_the_primary_key_of_an_empty_table_is_dropped(rest: RestClient, hive: HiveCatalog, database: str) -> None:
    hive.create_table(f"{database}.t", pa.schema([("id", pa.int64())]), primary_keys=["id"])
    drop = {"action": "dropPrimaryKey"}
    assert _alter(rest, database, "t", drop).status == 200
    assert rest.get("databases", database, "tables", "t")["schema"]["primaryKeys"] == []
    hive.create_table(f"{database}.u", pa.schema([("id", pa.int64())]), primary_keys=["id"]).upsert([{"id": 1}])
    assert _alter(rest, database, "u", drop).status == 501


def test_without_identities_all_rows_and_columns_may_be_read(rest: RestClient, database: str) -> None:
    rest.create_table(database, "t")
    path = ("databases", database, "tables")
    assert rest.post(*path, "t", "auth", body={"select": ["id"]}) == {"filter": [], "columnMasking": {}}
    assert rest.call("POST", "hive", *path, "u", "auth", body={}).status == 404


def test_an_id_that_no_table_has_is_not_found(rest: RestClient, database: str) -> None:
    rest.create_table(database, "t")
    known = uuid.UUID(rest.get("databases", database, "tables", "t")["id"])
    for given in (
        str(uuid.UUID(int=known.int + 1)),
        str(uuid.UUID(int=known.int ^ (1 << 100))),
        "none",
        str(uuid.uuid4()),
    ):
        answer = rest.call("GET", "hive", "tables", "id", given)
        assert (answer.status, answer.body["resourceType"]) == (404, "TABLE"), given
    assert rest.get("tables", "id", str(known).upper())["name"] == "t"
