"""Tables with row filters and column masks, read by interbed's REST client: each way keeps to them or is refused."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest

from interbed.catalog.client.api import system_table
from interbed.catalog.client.cli.forms.duckdb_sources import CatalogTables
from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.options import CatalogOptions
from interbed.catalog.client.rest.catalog import RestCatalog
from interbed.catalog.client.rest.client import RestClient
from interbed.catalog.client.rest.http import RestRefusedError
from interbed.catalog.client.rest.tables import RestTables, rules_from_json
from interbed.catalog.server.service.access.objects import Privilege, column_object, database_object
from interbed.catalog.server.service.access.policies import PolicyAdministration
from interbed.storage.base.errors import CorruptFileError, InvalidInputError, NotSupportedError
from interbed.storage.base.predicate.conditions import col
from interbed.storage.meta.schema.change import AddColumn, DropColumn, RenameColumn
from interbed.storage.table.guarded_table import GuardedTable
from interbed.storage.table.table import Table
from interbed.storage.views.system.table import SYSTEM_TABLES
from tests.catalog.server.access.guarded import OWNER, READER
from tests.catalog.server.access.policed import LAKE as LAKE_OBJECT
from tests.catalog.server.access.policed import PolicedMetastore, policed_metastore

LAKE = Identifier("sales", "lake")
ROWS = pa.table(
    {
        "id": [1, 2, 3, 4, 5, 6],
        "city": ["Bonn", "Köln", "Bonn", None, "Ulm", "Bonn"],
        "phone": ["11", "22", "33", "44", None, "66"],
    }
)
SHOWN = [
    {"id": 3, "city": "Bonn", "phone": "*Bonn"},
    {"id": 5, "city": "Ulm", "phone": "*Ulm"},
    {"id": 6, "city": "Bonn", "phone": "*Bonn"},
]


class _RuleRequests:
    """Requests of a principal to the interface in this process, in place of HTTP."""

    uri = "http://here"

    def __init__(self, policed: PolicedMetastore, principal: str) -> None:
        self._policed = policed
        self._principal = principal

    def get(self, path: str, _query: Mapping[str, str] | None = None) -> Any:
        return self._sent("GET", path)

    def post(self, path: str, body: object, *, repeatable: bool = False) -> Any:
        return self._sent("POST", path, body)

    def close(self) -> None:
        """Close nothing at all."""

    def _sent(self, method: str, path: str, body: object = None) -> Any:
        status, answer = self._policed.send(self._principal, method, path.lstrip("/").replace("%24", "$"), body)
        if status >= 300:
            raise RestRefusedError(answer["message"], status=status, resource_type=answer.get("resourceType") or "")
        return answer


def _opened(policed: PolicedMetastore, principal: str = READER) -> Table:
    client = RestClient(cast(Any, _RuleRequests(policed, principal)), "hive")
    return RestTables(client, CatalogOptions({"metastore": "rest"})).open(LAKE)


def _guarded(policed: PolicedMetastore) -> GuardedTable:
    found: object = _opened(policed)
    assert isinstance(found, GuardedTable)
    return found


@pytest.fixture(params=[False, True], ids=["append", "keyed"])
def policed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PolicedMetastore]:
    """Return a metastore whose table `lake` has rows, a filter and a mask for the reader."""
    options = {"bucket": "1"} if request.param else {}
    with policed_metastore(tmp_path, keyed=request.param, options=options) as made:
        table = _opened(made, OWNER)
        table.append(ROWS.slice(0, 3)) if not request.param else table.upsert(ROWS.slice(0, 3))
        table.append(ROWS.slice(3)) if not request.param else table.upsert(ROWS.slice(3))
        made.set_filter("id > 2 AND city IS NOT NULL")
        made.set_mask("phone", "CONCAT('*', city)")
        yield made


def _rows(table: Any) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


WAYS: Mapping[str, Callable[[Any], Any]] = {
    "to_arrow": lambda table: table.to_arrow(),
    "scan": lambda table: table.scan().to_arrow(),
    "batches": lambda table: pa.Table.from_batches(list(table.scan().to_arrow_batch_reader())),
    "arrow_stream": lambda table: pa.table(table),
    "pandas": lambda table: pa.Table.from_pandas(table.to_pandas(), preserve_index=False),
    "polars": lambda table: table.to_polars().to_arrow(),
    "lazy polars": lambda table: table.to_polars(lazy=True).collect().to_arrow(),
    "duckdb": lambda table: table.to_duckdb().to_arrow_table(),
    "time travel": lambda table: table.scan(snapshot_id=2).to_arrow(),
    "time travel by options": lambda table: table.copy({"scan.snapshot-id": "2"}).to_arrow(),
    "options": lambda table: table.copy({"query-auth.enabled": "false"}).to_arrow(),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_read_shows_the_rows_and_values_of_the_policies(policed: PolicedMetastore, way: str) -> None:
    assert _rows(WAYS[way](_guarded(policed))) == SHOWN


def test_a_table_that_a_caller_does_not_see_is_not_shown_by_its_files(policed: PolicedMetastore) -> None:
    sales = database_object("hive", "sales")
    policed.guarded.grant("guest", sales, Privilege.USAGE)
    policed.guarded.grant("creator", sales, Privilege.USAGE, Privilege.CREATE)
    for name in ("guest", "creator"):
        texts = set()
        for table in ("lake", "none"):
            status, answer = policed.send(name, "GET", f"v1/hive/databases/sales/tables/{table}")
            assert status == 404
            texts.add(answer["message"].replace(table, "T"))
        assert len(texts) == 1, texts


def test_the_owner_reads_all_rows_and_values(policed: PolicedMetastore) -> None:
    assert _rows(_opened(policed, OWNER).to_arrow()) == ROWS.to_pylist()


def test_counts_are_those_of_shown_rows(policed: PolicedMetastore) -> None:
    table = _guarded(policed)
    assert table.count() == 3
    assert table.scan(limit=2).count() == 2
    assert table.scan(filter="id > 5").count() == 1
    assert table.scan(filter="phone = '*Bonn'").count() == 2
    assert table.scan([]).count() == 3
    assert table.to_duckdb().aggregate("count(*)").fetchall() == [(3,)]


def test_conditions_on_masked_columns_see_the_mask(policed: PolicedMetastore) -> None:
    table = _guarded(policed)
    assert table.scan(filter="phone = '33'").to_arrow().num_rows == 0
    assert [row["id"] for row in _rows(table.scan(["id"], "phone LIKE '*U%'").to_arrow())] == [5]
    assert [row["id"] for row in _rows(table.scan(["id"], col("phone").is_not_null()).to_arrow())] == [3, 5, 6]
    relation = table.to_duckdb().filter("phone = '66' OR phone = '*Ulm'").project("id")
    assert relation.fetchall() == [(5,)]
    polars = pytest.importorskip("polars")
    found = table.to_polars(lazy=True).filter(polars.col("phone") == "66").select("id").collect()
    assert found.height == 0


@pytest.fixture
def catalog(policed: PolicedMetastore, monkeypatch: pytest.MonkeyPatch) -> Iterator[RestCatalog]:
    """Return a catalog of the reader."""
    client = RestClient(cast(Any, _RuleRequests(policed, READER)), "hive")
    monkeypatch.setattr("interbed.catalog.client.rest.catalog.open_client", lambda options: (client, options))
    with RestCatalog("rest", CatalogOptions({"metastore": "rest"})) as made:
        yield made


def test_the_catalog_opens_guarded_tables_and_lists_them_without_figures(catalog: RestCatalog) -> None:
    assert _rows(catalog.get_table("sales.lake").to_arrow()) == SHOWN
    with pytest.raises(NotSupportedError, match=r"'\$files' would not keep to them"):
        catalog.get_table("sales.lake$files")
    listing = catalog.get_table("sys.tables").scan().to_arrow().to_pylist()
    (listed,) = [row for row in listing if row["table_name"] == "lake"]
    assert listed["record_count"] is None
    with pytest.raises(NotSupportedError, match="'store' would not keep to them"):
        catalog.alter_table("sales.lake", DropColumn("city"))


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT id, phone FROM sales.lake ORDER BY id", [(3, "*Bonn"), (5, "*Ulm"), (6, "*Bonn")]),
        ("SELECT count(*) FROM sales.lake", [(3,)]),
        ("SELECT id FROM sales.lake WHERE phone = '33' OR phone = '*Ulm'", [(5,)]),
        ("SELECT max(phone) FROM sales.lake WHERE id < 5", [("*Bonn",)]),
    ],
)
def test_queries_in_sql_see_shown_rows_and_values(
    catalog: RestCatalog, query: str, rows: list[tuple[object, ...]]
) -> None:
    duckdb = pytest.importorskip("duckdb")
    tables = CatalogTables(catalog, duckdb.connect())
    tables.define(query)
    assert tables.connection.execute(query).fetchall() == rows


def test_columns_limits_and_filters_combine(policed: PolicedMetastore) -> None:
    table = _guarded(policed)
    assert table.scan(["phone"]).to_arrow().column_names == ["phone"]
    phones = [str(phone) for phone in table.scan(["phone"]).to_arrow()["phone"].to_pylist()]
    assert sorted(phones) == ["*Bonn", "*Bonn", "*Ulm"]
    assert table.scan(limit=1, filter="phone = '*Ulm'").to_arrow().to_pylist() == [SHOWN[1]]
    assert table.scan(["id"], "id IN (1, 2, 3)").to_arrow().to_pylist() == [{"id": 3}]
    with pytest.raises(InvalidInputError, match="no column 'x'"):
        table.scan(["x"])


def test_lookups_find_shown_rows_only(policed: PolicedMetastore) -> None:
    table = _guarded(policed)
    if not table.primary_keys:
        with pytest.raises(NotSupportedError, match="no primary key"):
            table.get(3)
        return
    assert table.get(3) == SHOWN[0]
    assert table.get({"id": 3}, ["phone"]) == {"phone": "*Bonn"}
    assert table.get(1) is None
    assert table.get((4,)) is None
    with pytest.raises(InvalidInputError, match="values of id"):
        table.get({"city": "Bonn"})


READS = frozenset(
    (
        *("name", "schema", "location", "options", "fields", "field_names", "arrow_schema", "primary_keys"),
        *("partition_keys", "copy", "branch", "refused", "change_view"),
        *("scan", "get", "changes", "stream", "count", "to_arrow", "to_pandas", "to_polars", "to_duckdb"),
    )
)
"""Members that keep to the policies; the others of a table are refused."""


def test_no_further_member_of_a_table_keeps_to_the_policies() -> None:
    assert {name for name in dir(GuardedTable) if not name.startswith("_")} == READS


@pytest.mark.parametrize(
    "name", sorted({"store", *(name for name, _ in inspect.getmembers(Table) if not name.startswith("_"))} - READS)
)
def test_every_other_member_of_a_table_is_refused_by_name(refusing: GuardedTable, name: str) -> None:
    with pytest.raises(NotSupportedError, match=f"'sales.lake' has row filters or column masks for you, and '{name}'"):
        getattr(refusing, name)


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedTable]:
    """Return a table with a filter."""
    with policed_metastore(tmp_path_factory.mktemp("refusing")) as made:
        made.set_filter("id > 2")
        yield _guarded(made)


@pytest.mark.parametrize("kind", [*SYSTEM_TABLES, "ro", "none"])
def test_every_system_table_but_those_of_changes_is_refused_by_name(refusing: GuardedTable, kind: str) -> None:
    with pytest.raises(NotSupportedError, match=rf"'\${kind}' would not keep to them"):
        system_table(cast(Table, refusing), kind)


@pytest.mark.parametrize("kind", ["audit_log", "binlog"])
def test_system_tables_of_changes_show_shown_rows(policed: PolicedMetastore, kind: str) -> None:
    view: Any = system_table(cast(Table, _guarded(policed)), kind)
    if _guarded(policed).primary_keys:
        with pytest.raises(NotSupportedError, match="lack the rows before updates"):
            view.scan().to_arrow()
        return
    phones = view.scan().to_arrow()["phone"].to_pylist()
    packed = [[phone] for phone in ("*Bonn", "*Bonn", "*Ulm")]
    assert sorted(phones, key=repr) == (packed if kind == "binlog" else ["*Bonn", "*Bonn", "*Ulm"])


def test_a_policy_is_in_force_at_the_next_scan(policed: PolicedMetastore) -> None:
    table = _guarded(policed)
    policed.set_filter("id > 5", name="more")
    assert _rows(table.to_arrow()) == SHOWN[2:]


def test_rows_of_a_branch_are_filtered(policed: PolicedMetastore) -> None:
    versions = _opened(policed, OWNER).versions
    versions.create_tag("t")
    versions.create_branch("b", "t")
    assert _rows(_guarded(policed).branch("b").to_arrow()) == SHOWN


def test_an_older_version_whose_columns_were_others_is_refused(policed: PolicedMetastore) -> None:
    owner = _opened(policed, OWNER)
    changes = [RenameColumn("phone", "old"), AddColumn("phone", owner.schema.by_name["city"].type)]
    with pytest.raises(InvalidInputError, match="would bind another column"):
        owner.store.alter(changes)
    administration = PolicyAdministration(policed.guarded.store, policed.guarded.grants)
    administration.drop(LAKE_OBJECT, "hide-phone", None)
    owner.store.alter(changes)
    policed.set_mask("phone", "CONCAT('*', city)")
    table = _guarded(policed)
    assert [row["phone"] for row in _rows(table.to_arrow())] == ["*Bonn", "*Ulm", "*Bonn"]
    with pytest.raises(NotSupportedError, match="the column 'phone' of its row filter or column mask was another one"):
        table.scan(snapshot_id=2)


def test_a_policy_of_a_missing_column_refuses_reads_by_name(policed: PolicedMetastore) -> None:
    _opened(policed, OWNER).store.alter([DropColumn("city")])
    with pytest.raises(CatalogAccessError, match="row filter rows does not fit its columns any more"):
        _guarded(policed).to_arrow()


@pytest.mark.parametrize(
    "answer", [{"filter": "x"}, {"filter": [1]}, {"columnMasking": []}, {"columnMasking": {"a": 1}}]
)
def test_an_answer_that_is_not_understood_refuses_reads(answer: dict[str, Any]) -> None:
    with pytest.raises(CorruptFileError, match="the server has no valid row filters"):
        rules_from_json(answer, "the server")


# -- privileges on columns ---------------------------------------------------------------------------------------------


@pytest.fixture
def columned(tmp_path: Path) -> Iterator[PolicedMetastore]:
    """Return a metastore with a filled table of which `clerk` may read two columns."""
    with policed_metastore(tmp_path, keyed=True, options={"bucket": "1"}) as made:
        _opened(made, OWNER).upsert(ROWS)
        for name in ("id", "city"):
            made.guarded.grant("clerk", column_object(LAKE_OBJECT, name), Privilege.SELECT)
        yield made


def test_readers_of_some_columns_read_these_and_are_refused_others_by_name(columned: PolicedMetastore) -> None:
    table: Any = _opened(columned, "clerk")
    assert isinstance(table, GuardedTable)
    assert table.schema.names == ("id", "city", "phone")
    assert table.scan(["city", "id"], "id < 3").to_arrow().to_pylist() == [
        {"city": "Bonn", "id": 1},
        {"city": "Köln", "id": 2},
    ]
    assert table.scan(["id"]).count() == table.count() == len(ROWS)
    assert table.get(1, ["city"]) == {"city": "Bonn"}
    for read in (
        lambda: table.to_arrow(),
        lambda: table.scan(["id", "phone"]),
        lambda: table.scan(["id"], "phone = '11'"),
        lambda: table.scan(["id"], (col("city") == "Bonn") | (col("phone") == "11")),
        lambda: table.get(1),
        lambda: table.branch("main").scan(),
    ):
        with pytest.raises(
            CatalogAccessError, match="clerk lacks the privilege SELECT on the column phone of the table"
        ):
            read()
    shown = table.changes(columns=["city", "id"]).to_arrow().select(["city", "id"]).to_pylist()
    assert sorted(row["id"] for row in shown) == sorted(row["id"] for row in ROWS.to_pylist())
    with pytest.raises(CatalogAccessError, match="on the column phone of the table"):
        table.changes().to_arrow()
    with pytest.raises(NotSupportedError, match="or you may read some of its columns only"):
        table.delete("id = 1")


def test_older_versions_are_read_by_the_present_names_of_their_columns(columned: PolicedMetastore) -> None:
    owner = _opened(columned, OWNER)
    owner.store.alter([RenameColumn("city", "town"), RenameColumn("phone", "city")])
    _opened(columned, OWNER).upsert(pa.table({"id": [7], "town": ["Kiel"], "city": ["77"]}))
    table: Any = _opened(columned, "clerk")
    # In the first version the name is that of another column, which the reader may not read.
    assert table.scan(["id"], snapshot_id=1).count() == len(ROWS)
    with pytest.raises(CatalogAccessError, match="on the column town of the table"):
        table.scan(["city"], snapshot_id=1)
