"""The Java client of Hive 3.1.3 on interbed's server: databases, tables, partitions, statistics, constraints,
functions, locks, catalogs, settings and events. Each call has the answer of Java's own metastore 3.1.3.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.peers.hive_3_client import answers_of, answers_of_java, reference
from tests.support.servers.metastore import BACKENDS, metastore_under_test, new_database
from tests.support.servers.postgres import postgres_server
from tests.support.shares import each_run

DIFFERENT = {
    "renamed table": "the files of a table are not counted at each change (numFiles, totalSize)",
    "renamed partition": "the same for a partition",
    "events": "Java's metastore keeps none unless a listener of HCatalog is set up",
}

EVENTS = {
    *("CREATE_DATABASE", "ALTER_DATABASE", "CREATE_TABLE", "ALTER_TABLE", "ADD_PARTITION", "ALTER_PARTITION"),
    *("DROP_PARTITION", "UPDATE_TABLE_COLUMN_STAT", "DELETE_TABLE_COLUMN_STAT", "ADD_PRIMARYKEY", "ADD_FOREIGNKEY"),
    *("DROP_CONSTRAINT", "CREATE_FUNCTION", "DROP_FUNCTION", "CREATE_CATALOG", "DROP_CATALOG"),
}


@pytest.mark.parametrize("backend", each_run(BACKENDS, lambda backend: backend == "sqlite"))
def test_each_call_has_the_answer_of_hives_own_server(tmp_path: Path, backend: str) -> None:
    with ExitStack() as stack:
        url = f"sqlite:///{tmp_path / 'metastore.db'}"
        if backend == "postgresql":
            url = new_database(stack.enter_context(postgres_server()))
        running = stack.enter_context(metastore_under_test(url, tmp_path))
        found = answers_of(running.uri, running.warehouse)
    known = reference()
    assert list(found) == list(known)
    assert {name: answer for name, answer in found.items() if answer != known[name]}.keys() == DIFFERENT.keys()
    kinds = set(found["events"].strip("[]").replace(",", "").split()[::2])
    assert kinds >= EVENTS


@pytest.mark.long
def test_the_reference_has_the_answers_of_hives_own_server() -> None:
    assert answers_of_java() == reference()
