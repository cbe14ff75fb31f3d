"""Namespaces of several levels: each is one database, which Thrift and Paimon's interface have under its own name."""

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NamespaceNotEmptyError, NoSuchNamespaceError

import interbed
from interbed.catalog.server.rest.iceberg.names import NamespaceMapping
from interbed.catalog.server.rest.iceberg.routes import interface
from interbed.catalog.server.rest.interface import RestError, RouteTable
from interbed.catalog.server.service.model import MetastoreDatabase
from interbed.catalog.server.service.names import normalized
from tests.catalog.server.rest.iceberg.local_requests import LocalRequests, copied
from tests.catalog.server.rest.iceberg.rest_server import SCHEMA, IcebergRest, set_properties
from tests.support.examples import examples
from tests.support.hostile_names import NAMES
from tests.support.servers.metastore import plain_client

SEPARATORS = ["$", ".", "$$", "__", "~-"]
VERSION = {"version-id": 1, "schema-id": 0, "timestamp-ms": 1, "summary": {}, "representations": []}


@pytest.fixture
def local(template: Path, tmp_path: Path) -> Iterator[LocalRequests]:
    """Return requests in this process, to a metastore with the namespaces a, a.b, a.b.c and d."""
    made = copied(template, tmp_path)
    for levels in (["a"], ["a", "b"], ["a", "b", "c"], ["d"]):
        assert made.send("POST", "namespaces", {"namespace": levels})[0] == 200
    yield made
    made.repository.close()


def _below(local: LocalRequests, *levels: str, **query: str) -> Any:
    found = local.send("GET", "namespaces", query={"parent": "\x1f".join(levels), **query})
    return found[1]["namespaces"] if found[0] == 200 else found[0]


_NAMES = st.text(st.sampled_from("ab_$.~-A İΣς\t\x1f/"), max_size=5)


@settings(max_examples=examples(40), deadline=None)
@given(levels=st.lists(_NAMES, max_size=4), separator=st.sampled_from(SEPARATORS))
def test_a_namespace_is_the_one_of_its_database(levels: list[str], separator: str) -> None:
    mapping = NamespaceMapping(separator)
    if not _is_valid(mapping, levels):
        return
    made = mapping.check_new(levels)
    assert mapping.database(levels) == made
    assert mapping.levels(made) == tuple(normalized(each) for each in levels)
    assert normalized(made) == made


@settings(max_examples=examples(40), deadline=None)
@given(name=_NAMES, other=_NAMES, separator=st.sampled_from(["", *SEPARATORS]))
def test_a_database_has_one_namespace_of_its_own(name: str, other: str, separator: str) -> None:
    mapping = NamespaceMapping(separator)
    names = [normalized(each) for each in (name, other) if normalized(each)]
    for each in names:
        assert mapping.database(mapping.levels(each)) == each
    assert len({mapping.levels(each) for each in names}) == len(set(names))


def test_namespaces_are_listed_by_their_parents(local: LocalRequests) -> None:
    assert _below(local) == [["a"], ["d"], ["default"]]
    assert _below(local, "a") == [["a", "b"]]
    assert _below(local, "A", "B") == [["a", "b", "c"]]
    assert _below(local, "a", "b", "c") == _below(local, "d") == []
    assert _below(local, "none") == _below(local, "a", "c") == _below(local, "a$b") == 404
    for name in "xyz":
        local.send("POST", "namespaces", {"namespace": ["d", name]})
    pages = local.send("GET", "namespaces", query={"parent": "d", "pageSize": "2"})[1]
    assert pages == {"namespaces": [["d", "x"], ["d", "y"]], "next-page-token": "y"}
    pages = local.send("GET", "namespaces", query={"parent": "d", "pageSize": "2", "pageToken": "y"})[1]
    assert pages == {"namespaces": [["d", "z"]], "next-page-token": None}
    assert local.services.databases.names("hive") == ["a", "a$b", "a$b$c", "d", "d$x", "d$y", "d$z", "default"]


def test_a_namespace_has_its_own_properties_and_existence(local: LocalRequests) -> None:
    changed = local.send("POST", "namespaces/a%1Fb/properties", {"updates": {"k": "v"}, "removals": ["none"]})
    assert changed == (200, {"updated": ["k"], "removed": [], "missing": ["none"]})
    found = local.send("GET", "namespaces/a%1Fb")[1]
    assert (found["namespace"], found["properties"]["k"]) == (["a", "b"], "v")
    assert "k" not in local.send("GET", "namespaces/a")[1]["properties"]
    assert local.send("HEAD", "namespaces/a%1Fb%1Fc")[0] == 204
    for missing in ("b", "a%1Fc", "a%24b", "a%1F", "%1Fa", "a%1Fb%1Fc%1Fd"):
        assert local.send("GET", f"namespaces/{missing}")[0] == 404
        assert local.send("POST", f"namespaces/{missing}/properties", {"updates": {"k": "v"}})[0] == 404
    assert local.send("POST", "namespaces", {"namespace": ["A", "B"]})[0] == 409


def test_a_namespace_with_others_below_it_is_not_dropped(local: LocalRequests) -> None:
    status, message = local.send("DELETE", "namespaces/a%1Fb")
    assert status == 409
    assert "a.b.c" in message
    assert local.send("DELETE", "namespaces/a%1Fb%1Fc")[0] == 204
    assert local.send("POST", "namespaces/a%1Fb/tables", {"name": "t", "schema": SCHEMA})[0] == 200
    assert local.send("DELETE", "namespaces/a%1Fb")[0] == 409
    assert local.send("DELETE", "namespaces/a%1Fb/tables/t")[0] == 204
    assert local.send("DELETE", "namespaces/a%1Fb")[0] == 204
    assert local.send("DELETE", "namespaces/a%1Fb")[0] == 404
    assert _below(local, "a") == []


def test_a_namespace_without_a_database_is_that_of_those_below_it(local: LocalRequests) -> None:
    assert local.send("POST", "namespaces", {"namespace": ["x", "y", "z"]})[0] == 200
    assert ["x"] in _below(local)
    assert _below(local, "x") == [["x", "y"]]
    assert local.send("GET", "namespaces/x%1Fy") == (200, {"namespace": ["x", "y"], "properties": {}})
    assert local.send("HEAD", "namespaces/x")[0] == 204
    for what in ("tables", "views", "functions"):
        assert local.send("GET", f"namespaces/x/{what}")[1]["identifiers"] == []
    assert local.send("DELETE", "namespaces/x")[0] == 409
    assert local.send("POST", "namespaces/x/tables", {"name": "t", "schema": SCHEMA})[0] == 404
    assert local.send("POST", "namespaces/x/properties", {"updates": {"k": "v"}})[0] == 404
    assert local.send("POST", "namespaces", {"namespace": ["x"]})[0] == 200
    assert local.send("POST", "namespaces/x/properties", {"updates": {"k": "v"}})[0] == 200
    # A client of Thrift does not know of what is below a database.
    local.services.databases.drop("hive", "x", delete_data=False, cascade=False)
    assert _below(local, "x") == [["x", "y"]]


def test_tables_and_views_are_made_changed_and_moved_in_any_namespace(local: LocalRequests) -> None:
    deep: dict[str, Any] = {"namespace": ["a", "b", "c"]}
    flat: dict[str, Any] = {"namespace": ["d"]}
    path = "namespaces/a%1Fb%1Fc"
    created = local.send("POST", f"{path}/tables", {"name": "t", "schema": SCHEMA})[1]
    assert "/a$b$c.db/t" in created["metadata"]["location"]
    update: dict[str, Any] = {"requirements": [], "updates": [set_properties(k="v")]}
    assert local.send("POST", f"{path}/tables/t", update)[0] == 200
    change: dict[str, Any] = {**update, "identifier": {**deep, "name": "t"}, "updates": [set_properties(k="w")]}
    assert local.send("POST", "transactions/commit", {"table-changes": [change]})[0] == 204
    assert local.send("GET", f"{path}/tables")[1]["identifiers"] == [{**deep, "name": "t"}]
    assert local.send("GET", "namespaces/a%1Fb/tables")[1]["identifiers"] == []
    view: dict[str, Any] = {"name": "v", "schema": SCHEMA, "view-version": {**VERSION, "default-namespace": ["a", "b"]}}
    assert local.send("POST", f"{path}/views", view)[0] == 200
    for kind, name in (("tables", "t"), ("views", "v")):
        there = {"source": {**deep, "name": name}, "destination": {**flat, "name": name}}
        back = {"source": {**flat, "name": name}, "destination": {"namespace": ["a"], "name": name}}
        assert local.send("POST", f"{kind}/rename", there)[0] == 204
        assert local.send("POST", f"{kind}/rename", back)[0] == 204
        assert local.send("GET", f"namespaces/a/{kind}/{name}")[0] == 200
        missing = {"source": {"namespace": ["a"], "name": name}, "destination": {"namespace": ["a", "x"], "name": name}}
        assert local.send("POST", f"{kind}/rename", missing)[0] == 404
    found = local.send("GET", "namespaces/a/tables/t")[1]["metadata"]
    assert (found["properties"]["k"], found["location"]) == ("w", created["metadata"]["location"])
    taken = local.send("POST", f"{path}/register", {"name": "u", "metadata-location": created["metadata-location"]})
    assert taken[0] == 200


@pytest.mark.parametrize("levels", [["a$b"], ["a", "b$c"], ["$"], ["a", ""], ["", "a"], [], ["a", "x" * 127]])
def test_a_level_with_the_separator_in_it_and_an_empty_one_are_refused(local: LocalRequests, levels: list[str]) -> None:
    before = local.services.databases.names("hive")
    assert local.send("POST", "namespaces", {"namespace": levels})[0] == 400
    assert local.services.databases.names("hive") == before


def test_hostile_levels_make_no_directory_outside_of_the_warehouse(local: LocalRequests, tmp_path: Path) -> None:
    mapping = NamespaceMapping()
    for name in NAMES:
        assert _is_valid(mapping, [name]) >= (_is_valid(mapping, ["a", name]) or _is_valid(mapping, [name, "a"]))
    for name in NAMES[::9]:
        levels = ["d", name]
        status, _ = local.send("POST", "namespaces", {"namespace": levels})
        assert status == (200 if _is_valid(mapping, levels) else 400), levels
        if status == 200:
            location = local.services.databases.get("hive", mapping.check_new(levels)).location
            assert location is not None
            assert Path(location.removeprefix("file:")).parent == tmp_path / "warehouse"
    assert {each.name for each in tmp_path.iterdir()} <= {"warehouse", *_FILES}


def _is_valid(mapping: NamespaceMapping, levels: list[str]) -> bool:
    try:
        mapping.check_new(levels)
    except RestError:
        return False
    return True


_FILES = ("metastore.db", "metastore.db-wal", "metastore.db-shm")


def test_databases_of_before_keep_their_names(local: LocalRequests) -> None:
    for name in ("$a", "b$$c", "e$"):
        local.services.databases.create(MetastoreDatabase(catalog="hive", name=name), has_any_name=True)
        assert [name] in _below(local)
        assert local.send("HEAD", f"namespaces/{name}")[0] == 204
        assert local.send("POST", f"namespaces/{name}/tables", {"name": "t", "schema": SCHEMA})[0] == 200


def test_without_a_separator_namespaces_have_one_level(local: LocalRequests) -> None:
    local.routes = RouteTable(interface(local.services, mapping=NamespaceMapping("")).routes)
    assert _below(local) == [["a"], ["a$b"], ["a$b$c"], ["d"], ["default"]]
    assert _below(local, "a") == []
    status, message = local.send("POST", "namespaces", {"namespace": ["a", "b"]})
    assert (status, "iceberg_namespace_separator" in message) == (400, True)
    assert local.send("POST", "namespaces", {"namespace": ["x$y"]})[0] == 200
    assert local.send("GET", "namespaces/a%1Fb")[0] == 404


def test_pyiceberg_thrift_and_paimon_see_one_database(rest_on_sqlite: IcebergRest) -> None:
    rows = pa.table({"id": [1, 2]})
    with load_catalog("rest", type="rest", uri=rest_on_sqlite.uri) as catalog:
        for levels in (("n1",), ("n1", "n2"), ("n1", "n2", "n3")):
            catalog.create_namespace(levels, {"depth": str(len(levels))})
        assert catalog.list_namespaces(("n1",)) == [("n1", "n2")]
        assert catalog.load_namespace_properties("n1.n2.n3")["depth"] == "3"
        table = catalog.create_table("n1.n2.n3.t", rows.schema)
        table.append(rows)
        assert catalog.load_table("n1.n2.n3.t").scan().to_arrow() == rows
        assert catalog.list_tables("n1.n2.n3") == [("n1", "n2", "n3", "t")]
        catalog.rename_table("n1.n2.n3.t", "n1.n2.u")
        assert catalog.load_table("n1.n2.u").scan().to_arrow().num_rows == 2
        with pytest.raises(NamespaceNotEmptyError):
            catalog.drop_namespace("n1.n2")
        with pytest.raises(NoSuchNamespaceError):
            catalog.list_tables("n1.none")
        with plain_client(rest_on_sqlite.metastore.port) as client:
            assert client.get_database("n1$n2").parameters["depth"] == "2"
            assert client.get_all_tables("n1$n2") == ["u"]
            assert client.get_table("n1$n2", "u").parameters["table_type"] == "ICEBERG"
        with interbed.load_catalog("lake", metastore="hive", uri=rest_on_sqlite.metastore.uri) as lake:
            lake.create_table_as("n1$n2.own", rows)
            assert lake.get_table("n1$n2.own").scan().count() == 2
        assert set(catalog.list_tables("n1.n2")) == {("n1", "n2", "own"), ("n1", "n2", "u")}
        assert catalog.load_table("n1.n2.own").scan().to_arrow().num_rows == 2
        with interbed.load_catalog("lake", metastore="hive", uri=rest_on_sqlite.metastore.uri) as lake:
            lake.drop_table("n1$n2.own")
        at = f"http://127.0.0.1:{rest_on_sqlite.port}/paimon/v1/hive/databases/n1%24n2"
        with urllib.request.urlopen(at) as answer:
            assert b'"n1$n2"' in answer.read()
        catalog.drop_table("n1.n2.u")
        for namespace in ("n1.n2.n3", "n1.n2", "n1"):
            catalog.drop_namespace(namespace)
        assert ("n1",) not in catalog.list_namespaces()
