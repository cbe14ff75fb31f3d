"""Paimon's tests of REST catalogs in Java, RESTCatalogTest of 1.4.2, on a server of this package.

Tests that do not pass are listed with the reason. The lists are exact: a listed test that passes fails this one.
"""

from pathlib import Path

import pytest

from tests.catalog.server.rest.paimon.conftest import RestClient
from tests.support.peers.paimon_rest_kit import run_kit

pytestmark = pytest.mark.long

_NO_RIGHTS = "without identities of clients the server has no rights, so 'query-auth.enabled' is refused"
_FORMAT = "the test alters a format table, or gives it an option without effect"

FAILED = {
    "testAllTablesAndAllPartitionsTable": "the mock calls the owner of every table 'owner'",
    "testReadPartitionsTable": "the mock calls the creator of every partition 'created'",
    "testRollbackSchemaFromTable": "the mock gives every table the schema 1, also after a rollback to 0",
    "testBranchBatchRecordsWrite": "the mock begins a branch without a tag with rows, of which the branch has no files",
    "testListTablesPagedGlobally": "names of databases of a Hive metastore have no blanks",
    "testColumnMaskingAndRowFilter": _NO_RIGHTS,
    "testColumnMaskingApplyOnRead": _NO_RIGHTS,
    "testRowFilter": _NO_RIGHTS,
    "testTableAuth": _NO_RIGHTS,
    "testAlterMaterializedTable": "materialized tables are refused",
    "testFormatTable": _FORMAT,
    "testFormatTableSplitRead": _FORMAT,
    "testObjectTable": "the directory of the table has its schema, too, which Java lists",
}
"""Tests that fail, with the reasons."""

FAILED_IN_HIVE = {
    "testListDatabases": "the catalog 'hive' always has the database 'default'",
    "testListDatabasesPaged": "the same",
    "testListDatabasesWhenNoDatabases": "the same",
}
"""Tests that fail in the default catalog alone."""

ABORTED = {
    "testApiWhenTableNoPermission": "rights",
    "testCreateIcebergTable": "data tokens",
    "testCreateLanceTable": "data tokens",
    "testDataTokenExpired": "data tokens",
    "testDataTokenUnExistInServer": "data tokens",
    "testDatabaseApiWhenNoPermission": "rights",
    "testRefreshFileIO": "data tokens",
    "testRefreshFileIOWhenExpired": "data tokens",
    "testSnapshotFromREST": "snapshots without files",
    "testValidToken": "data tokens",
    "testValidTokenWithIOCacheEnabled": "data tokens",
}
"""Tests that change the state of the mock server itself; the values are parts of it that only the mock has."""

PASSED = 66


@pytest.mark.parametrize("warehouse", ["hive", "lake"])
def test_all_tests_pass_but_those_with_a_reason(
    rest: RestClient, lake: RestClient, tmp_path: Path, warehouse: str
) -> None:
    expected = {**FAILED, **(FAILED_IN_HIVE if warehouse == rest.prefix else {})}
    result = run_kit(f"http://127.0.0.1:{lake.port}/paimon", warehouse, tmp_path)
    unexpected = {name: text for name, text in result.failed.items() if name not in expected}
    assert unexpected == {}
    assert sorted(set(result.failed) ^ set(expected)) == []
    aborted = {
        name: text.partition("only the mock server has ")[2].split("\n")[0] for name, text in result.aborted.items()
    }
    assert aborted == ABORTED
    assert len(result.passed) == PASSED + len(FAILED) - len(expected), sorted(result.passed)
