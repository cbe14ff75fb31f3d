"""pyiceberg 0.12 and Iceberg's Spark runtime 1.12 by REST, as users with different grants."""

from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import ForbiddenError, NoSuchTableError
from pyiceberg.types import IntegerType

import interbed
from tests.peers.granted.conftest import ADMIN, NOBODY, OWNER, READER, USERS, WRITER, GrantedPeers
from tests.support.peers.process import PeerError
from tests.support.peers.spark import SparkPeer, iceberg_settings
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


@pytest.fixture(scope="module")
def spark(granted: GrantedPeers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkPeer]:
    """Start a session with one catalog of Iceberg for each user."""
    settings = dict(iceberg_settings(granted.server.uri, tmp_path_factory.mktemp("unused"), "hms"))
    for user in USERS:
        key = f"spark.sql.catalog.{user}"
        settings |= {
            key: "org.apache.iceberg.spark.SparkCatalog",
            f"{key}.type": "rest",
            f"{key}.uri": f"{granted.server.http}/iceberg",
            f"{key}.token": granted.tokens[user],
            f"{key}.cache-enabled": "false",
        }
    with SparkPeer(settings) as peer:
        yield peer


def _refused(spark: SparkPeer, statement: str, text: str) -> None:
    with pytest.raises(PeerError) as error:
        spark.run(statement)
    assert text in str(error.value)


def test_icebergs_spark_runtime_does_what_its_user_may(iceberg: dict[str, Catalog], spark: SparkPeer) -> None:
    for user in (OWNER, WRITER, READER):
        shown = {row[1] for row in spark.run(f"SHOW TABLES IN {user}.sales")}
        assert "ice" in shown
        assert "ice_hidden" not in shown
        assert ["1"] in spark.run(f"SELECT id FROM {user}.sales.ice")
        _refused(spark, f"SELECT * FROM {user}.sales.ice_hidden", "TABLE_OR_VIEW_NOT_FOUND")
    _refused(spark, f"SELECT * FROM {NOBODY}.sales.ice", "TABLE_OR_VIEW_NOT_FOUND")
    assert not {"sales", "hidden"} & {row[0] for row in spark.run(f"SHOW NAMESPACES IN {NOBODY}")}
    columns = "(id, name)"
    _refused(spark, f"INSERT INTO {READER}.sales.ice {columns} VALUES (9, 'x')", "rita lacks")
    spark.run(f"INSERT INTO {WRITER}.sales.ice {columns} VALUES (9, 'x')")
    _refused(spark, f"ALTER TABLE {WRITER}.sales.ice SET TBLPROPERTIES ('a' = 'b')", "ALTER")
    _refused(spark, f"DROP TABLE {WRITER}.sales.ice", "lacks the privilege DROP")
    spark.run(f"DELETE FROM {WRITER}.sales.ice WHERE id = 9")
    spark.run(f"ALTER TABLE {OWNER}.sales.ice SET TBLPROPERTIES ('a' = 'b')")
    _refused(spark, f"CREATE TABLE {WRITER}.sales.made (id INT) USING iceberg", "lacks the privilege CREATE")
    assert spark.run(f"SELECT count(*) FROM {READER}.sales.ice WHERE id = 9") == [["0"]]
