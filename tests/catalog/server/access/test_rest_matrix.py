"""Every route of the REST interfaces, called by callers with more and more privileges, held to one table."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.catalog.server.access.guarded import CALLERS, CLERK, READER
from tests.catalog.server.access.matrix import restore, rows_of
from tests.catalog.server.access.rest_interfaces import guarded_rest
from tests.catalog.server.access.rest_matrix import RestMatrix, request_on_file

# The letters of a caller without rights, a reader, a writer, the owner of the database, and an administrator;
# matrix.py explains them.
# Its authorizer keeps no roles and grants: tests/catalog/server/rest/access has what callers may do to these.
EXPECTED = {
    "maaaa": """
        iceberg.listNamespaces iceberg.loadNamespaceMetadata iceberg.namespaceExists iceberg.listTables
        iceberg.loadTable iceberg.tableExists iceberg.loadCredentials iceberg.listViews iceberg.loadView
        iceberg.viewExists iceberg.listFunctions iceberg.planTableScan iceberg.fetchPlanningResult
        iceberg.cancelPlanning iceberg.fetchScanTasks iceberg.signRequest paimon.listDatabases paimon.getDatabase
        paimon.listTables paimon.listTableDetails paimon.ListTablesGlobally paimon.getTableById
        paimon.getTable paimon.authTableQuery paimon.getTableSnapshot paimon.listSnapshots
        paimon.getVersionSnapshot paimon.listPartitions paimon.listPartitionsByNames
        paimon.listPartitionsByFilter paimon.listTags paimon.getTag paimon.listBranches paimon.listConsumers
        paimon.listViews paimon.listViewDetails paimon.listViewsGlobally paimon.getView paimon.listFunctions
        paimon.listFunctionDetails paimon.listFunctionsGlobally paimon.getFunction interbed.listDropped
        interbed.databaseHistory interbed.tableHistory interbed.tableEntry interbed.readRows
    """,
    "mdaaa": """
        iceberg.updateTable paimon.commitTable paimon.createPartitions paimon.dropPartitions
        paimon.markDonePartitions
    """,
    "mddaa": """
        iceberg.dropNamespace iceberg.updateProperties iceberg.createTable iceberg.registerTable
        iceberg.unregisterTable iceberg.dropTable iceberg.renameTable iceberg.commitTransaction
        iceberg.createView iceberg.replaceView
        iceberg.registerView iceberg.dropView iceberg.renameView paimon.alterDatabase paimon.dropDatabase
        paimon.createTable
        paimon.RegisterTable paimon.renameTable paimon.alterTable paimon.dropTable paimon.rollbackSchema
        paimon.rollbackTable paimon.createTag paimon.deleteTag paimon.createBranch paimon.dropBranch
        paimon.renameBranch paimon.forwardBranch paimon.resetConsumer paimon.createView paimon.renameView
        paimon.alterView paimon.dropView paimon.createFunction paimon.alterFunction paimon.dropFunction
        interbed.undropDatabase interbed.purgeDatabase interbed.restoreTable
    """,
    "mddda": """
        iceberg.createNamespace paimon.createDatabase
    """,
    "mddmm": """
        paimon.replaceTable interbed.undropTable interbed.purgeTable
    """,
    "mmmmm": """
        iceberg.getConfig iceberg.reportMetrics iceberg.loadFunction paimon.getConfig paimon.getTableToken
        interbed.listRoles interbed.createRole interbed.dropRole interbed.listMembers interbed.addMember
        interbed.removeMember interbed.listMemberships interbed.currentCaller interbed.listGrants
        interbed.grant interbed.revoke interbed.effectivePrivileges interbed.whyDenied interbed.listPolicies
        interbed.setPolicy interbed.dropPolicy
    """,
}

ROWS = rows_of(EXPECTED)

OF_WHOLE_TABLES = frozenset(
    rows_of(
        {
            "d": """
        iceberg.cancelPlanning iceberg.fetchPlanningResult iceberg.fetchScanTasks iceberg.planTableScan
        iceberg.signRequest
        interbed.tableEntry interbed.tableHistory paimon.listConsumers paimon.listPartitions
        paimon.listPartitionsByFilter paimon.listPartitionsByNames
    """
        }
    )
)
"""Operations that a reader of a table may call, and a reader of some of its columns may not."""

OF_FUNCTIONS = frozenset(["paimon.getFunction", "paimon.alterFunction", "paimon.dropFunction"])
"""Operations on a function that `reader` may read."""


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestMatrix]:
    """Return the requests to a metastore that is put back to what it was before each."""
    directory = tmp_path_factory.mktemp("matrix")
    root = directory / "metastore"
    root.mkdir()
    with guarded_rest(root):
        pass
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ACCESS_KEY_ID", "id")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield RestMatrix(Path(shutil.copytree(root, directory / "pristine")), root)


@pytest.mark.parametrize("name", sorted(ROWS))
def test_each_caller_may_do_what_the_table_says(matrix: RestMatrix, name: str) -> None:
    assert matrix.letters(*name.split(".")) == ROWS[name]


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_reader_of_columns_may_do_what_a_reader_may_but_for_what_shows_the_table(
    matrix: RestMatrix, name: str
) -> None:
    expected = "d" if name in OF_WHOLE_TABLES else "m" if name in OF_FUNCTIONS else ROWS[name][CALLERS.index(READER)]
    interface, operation = name.split(".")
    assert matrix.letter(interface, operation, CLERK) == expected


@pytest.mark.parametrize(
    ("method", "letters"), [("GET", "maaaa"), ("HEAD", "maaaa"), ("PUT", "mdaaa"), ("DELETE", "mdaaa")]
)
def test_requests_on_files_are_signed_for_callers_with_the_privileges(
    matrix: RestMatrix, method: str, letters: str
) -> None:
    restore(matrix.pristine, matrix.root)
    path = "v1/hive/namespaces/sales/tables/cloud/sign"
    with guarded_rest(matrix.root, filled=False) as rest:
        for name, letter in zip((*CALLERS, CLERK), f"{letters}d", strict=True):
            status, answer = rest.send(name, "iceberg", "POST", path, request_on_file(method, "cloud"))
            assert {200: "a", 403: "d", 404: "m"}[status] == letter, (name, answer)
            if status == 200:
                assert "Signature=" in answer["headers"]["Authorization"][0]
            # Files of another table are those of no caller here.
            other = rest.send(name, "iceberg", "POST", path, request_on_file(method, "secret"))
            assert other[0] == (404 if letter == "m" else 403), (name, other)


def test_every_route_has_a_row(matrix: RestMatrix) -> None:
    with guarded_rest(matrix.root, filled=False) as rest:
        served = {f"{name}.{each.operation}" for name, made in rest.interfaces.items() for each in made.routes}
    assert served == set(ROWS)
