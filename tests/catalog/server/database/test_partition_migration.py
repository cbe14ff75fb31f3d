"""Partitions in a database of an earlier version of interbed are migrated, and are the same after a downgrade."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from interbed.catalog.server.database import schema
from interbed.catalog.server.database.documents import table_from
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.names import partition_name
from interbed.catalog.server.service.service import Metastore

ROOT = "file:/warehouse/t"
STORAGE = {"present": True, "columns": [["id", "int", None]], "input_format": "i", "serde": {"present": True}}
TABLE = {
    "storage": {**STORAGE, "location": ROOT},
    "partition_keys": [[name, kind, None] for name, kind in (("dt", "string"), ("n", "int"))],
    "parameters": {},
}


@pytest.fixture
def store(empty_database_url: str) -> Iterator[SqlRepository]:
    """Open a repository on an empty database."""
    opened = SqlRepository(empty_database_url)
    yield opened
    opened.close()


def old_partitions() -> list[dict[str, Any]]:
    """Return documents as revision 0002 stored them."""
    many = [["d" + str(number % 7), str(number)] for number in range(4500)]
    odd = [["a/b", "7"], ["", "8"], ["ä'\"%", "007"], ["__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"]]
    documents: list[dict[str, Any]] = []
    keys = table_from("", "", "", "", json.dumps(TABLE)).partition_keys
    for values in many + odd:
        storage = {**STORAGE, "location": f"{ROOT}/{partition_name(keys, values)}"}
        documents.append({"values": values, "create_time": 5, "last_access_time": 0, "storage": storage})
    documents[0]["storage"]["location"] = "s3://elsewhere/x"
    documents[1]["storage"]["location"] = f"{ROOT}/odd"
    documents[2]["parameters"] = {"k": "v\u0000\u2028"}
    documents[3]["storage"]["columns"] = [["id", "bigint", "wider"]]
    documents[4].pop("storage")
    return documents


def written(store: SqlRepository) -> dict[str, Any]:
    """Return the documents in the database's rows, by name."""
    with store.engine.connect() as connection:
        rows = connection.execute(text("SELECT name, document FROM partitions")).all()
    return {row.name: json.loads(row.document) for row in rows}


def test_partitions_survive_an_upgrade_and_a_downgrade(store: SqlRepository) -> None:
    schema.upgrade(store.engine, "0002")
    keys = table_from("", "", "", "", json.dumps(TABLE)).partition_keys
    documents = {partition_name(keys, each["values"]): each for each in old_partitions()}
    with store.engine.execution_options(interbed_write=True).connect() as connection, connection.begin():
        connection.execute(text("INSERT INTO catalogs (name, location, create_time) VALUES ('hive', 'file:/w', 0)"))
        connection.execute(text("INSERT INTO databases (id, catalog, name, document) VALUES (1, 'hive', 'd', '{}')"))
        for number, name in ((1, "t"), (2, "empty")):
            connection.execute(
                text(
                    "INSERT INTO tables (id, database_id, name, table_type, document) "
                    "VALUES (:id, 1, :name, 'MANAGED_TABLE', :document)"
                ),
                {"id": number, "name": name, "document": json.dumps(TABLE)},
            )
        connection.execute(
            text("INSERT INTO partitions (table_id, name, document) VALUES (1, :name, :document)"),
            [{"name": name, "document": json.dumps(document)} for name, document in documents.items()],
        )
    before = written(store)
    assert before == documents

    schema.upgrade(store.engine)
    partitions = Metastore(store, "file:/warehouse").partitions
    key = ("hive", "d", "t")
    assert partitions.names(key) == sorted(documents)
    found = {partition_name(keys, each.values): each for each in partitions.select(key)[1]}
    for name, document in documents.items():
        each = found[name]
        assert list(each.values) == document["values"]
        assert each.parameters == document.get("parameters", {})
        assert each.create_time == 5
        if "storage" in document:
            assert each.storage is not None
            assert each.storage.location == document["storage"]["location"]
            assert [[c.name, c.type, c.comment] for c in each.storage.columns] == document["storage"]["columns"]
        else:
            assert each.storage is None
    assert partitions.names_filter(key, "n = 7 and dt != 'd0'") == ["dt=a%2Fb/n=7", "dt=ä%27%22%25/n=007"]
    with store.engine.connect() as connection:
        # All but one share a storage descriptor.
        assert connection.execute(text("SELECT count(*) FROM partition_storages")).scalar() == 2
        assert connection.execute(text("SELECT count(*) FROM partition_sets")).scalar() == 1
    partitions.drop(key, ["d5", "5"], delete_data=False)

    schema.downgrade(store.engine, "0002")
    del documents["dt=d5/n=5"]
    assert written(store) == documents
    schema.upgrade(store.engine)
    assert partitions.names(key) == sorted(documents)
    schema.downgrade(store.engine, "base")
