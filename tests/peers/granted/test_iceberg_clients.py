"""pyiceberg 0.12 by REST, as users with different grants."""

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError
from pyiceberg.types import IntegerType

import interbed
from tests.peers.granted.conftest import ADMIN, NOBODY, OWNER, READER, USERS, WRITER, GrantedPeers
from tests.support.waits import wait_until

pytestmark = pytest.mark.long

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", "b"]})


@pytest.fixture(scope="module")
def iceberg(granted: GrantedPeers) -> Iterator[dict[str, Catalog]]:
    """Return pyiceberg's catalogs by user, with the table `sales.ice` of the owner."""
    uri = f"{granted.server.http}/iceberg"
    catalogs: dict[str, Catalog] = {
        user: load_catalog(user, type="rest", uri=uri, token=granted.tokens[user]) for user in USERS
    }
    catalogs[OWNER].create_table("sales.ice", ROWS.schema).append(ROWS)
    catalogs[ADMIN].create_table("sales.ice_hidden", ROWS.schema).append(ROWS)
    with interbed.load_catalog("lake", **granted.options(OWNER)) as owner:
        owner.grant("SELECT", on="table sales.ice", to=f"user {READER}")
        owner.grant(["SELECT", "INSERT", "DELETE"], on="table sales.ice", to=f"user {WRITER}")
    for user in (READER, WRITER):
        wait_until(lambda user=user: catalogs[user].table_exists("sales.ice"))  # type: ignore[misc]
    yield catalogs
    with ExitStack() as stack:
        for catalog in catalogs.values():
            stack.callback(catalog.close)


def _names(catalog: Catalog) -> list[str]:
    return sorted(name for namespace, name in catalog.list_tables("sales") if namespace == "sales")


def test_pyiceberg_sees_what_its_user_sees(iceberg: dict[str, Catalog]) -> None:
    assert set(_names(iceberg[ADMIN])) >= {"ice", "ice_hidden"}
    for user in (OWNER, WRITER, READER):
        assert [name for name in _names(iceberg[user]) if name.startswith("ice")] == ["ice"]
        assert ("hidden",) not in iceberg[user].list_namespaces()
        with pytest.raises(NoSuchTableError):
            iceberg[user].load_table("sales.ice_hidden")
    assert not {("sales",), ("hidden",)} & set(iceberg[NOBODY].list_namespaces())
    with pytest.raises(NoSuchTableError):
        iceberg[NOBODY].load_table("sales.ice")


def test_pyiceberg_writes_and_alters_as_its_user_may(iceberg: dict[str, Catalog]) -> None:
    more = pa.table({"id": pa.array([3], pa.int64()), "name": ["c"]})
    reader = iceberg[READER].load_table("sales.ice")
    assert reader.scan().to_arrow().num_rows == 2
    with pytest.raises(ForbiddenError, match=r"rita lacks .*sales\.ice"):
        reader.append(more)
    with pytest.raises(ForbiddenError, match=r"lacks the privilege DROP"):
        iceberg[READER].drop_table("sales.ice")
    writer = iceberg[WRITER].load_table("sales.ice")
    writer.append(more)
    writer.delete("id = 3")
    with pytest.raises(ForbiddenError, match="ALTER"), writer.update_schema() as update:
        update.add_column("size", IntegerType())
    with pytest.raises(ForbiddenError, match="lacks the privilege DROP"):
        iceberg[WRITER].drop_table("sales.ice")
    with iceberg[OWNER].load_table("sales.ice").update_schema() as update:
        update.add_column("size", IntegerType())
    assert iceberg[ADMIN].load_table("sales.ice").schema().column_names == ["id", "name", "size"]
    assert iceberg[READER].load_table("sales.ice").scan().to_arrow()["id"].to_pylist() == [1, 2]
