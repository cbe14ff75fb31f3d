"""Import of roles and grants: from Hive's own metastores, and from interbed's database."""

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interbed.thrift_idl.hive_metastore import ThriftHiveMetastore, ttypes
from tests.catalog.server.migration.commands import run, run_json
from tests.catalog.server.service.access.conftest import AccessLake, lake_on_sqlite
from tests.support.peers.hive_client import client_classpath
from tests.support.servers.java_metastore import QUICK_START, metastore_client, running_java_metastore
from tests.support.waits import at_most

ROLES = ("readers", "lake", "bad role")
MEMBERS = (("readers", "USER", "ann", True), ("lake", "ROLE", "readers", False), ("admin", "USER", "root", False))


@dataclass(frozen=True)
class SourceGrant:
    """A grant as a client of Hive's makes it; an empty name is none."""

    privilege: str
    kind: str
    database: str = ""
    table: str = ""
    column: str = ""
    partition: str = ""
    to: tuple[str, str] = ("USER", "ann")
    grantor: str = "root"
    option: bool = False
    authorizer: str = "SQL"


GRANTS = (
    SourceGrant("CREATE", "GLOBAL", to=("USER", "boss")),
    SourceGrant("SELECT", "DATABASE", "shop", to=("ROLE", "readers")),
    SourceGrant("All", "DATABASE", "shop", to=("GROUP", "a group"), grantor="other"),
    SourceGrant("INSERT", "TABLE", "shop", "orders", option=True),
    SourceGrant("SELECT", "COLUMN", "shop", "orders", "city"),
    SourceGrant("SELECT", "COLUMN", "shop", "orders", "city", to=("ROLE", "lake")),
    SourceGrant("Alter", "TABLE", "shop", "orders", to=("USER", "Müller")),
)
UNFIT = (
    SourceGrant("SELECT", "PARTITION", "shop", "orders", partition="1"),
    SourceGrant("SELECT", "COLUMN", "shop", "orders", "city", partition="1"),
    SourceGrant("LOCK", "TABLE", "shop", "orders"),
    SourceGrant("DELETE", "TABLE", "shop", "orders", authorizer="RANGER"),
    SourceGrant("INSERT", "COLUMN", "shop", "orders", "city"),
    SourceGrant("SELECT", "TABLE", "shop", "orders", to=("ROLE", "bad role")),
)
REASONS = {
    "grant shop.orders/1 (SELECT to user ann)": "no privileges on partitions: grant it on the table",
    "grant shop.orders/1 (city) (SELECT to user ann)": "no privileges on partitions: grant it on the table",
    "grant shop.orders (LOCK to user ann)": "interbed has no privilege LOCK",
    "grant shop.orders (DELETE to user ann)": "a copy of a grant of the authorizer RANGER",
    "grant shop.orders (city) (INSERT to user ann)": "columns have SELECT alone",
    "grant shop.orders (SELECT to role bad role)": "bad role is not a valid role name",
    "role bad role": "bad role is not a valid role name",
}
EXPECTED = [
    # Hive makes it when it starts.
    ("server", None, None, None, "ALL", "role admin", True, "admin"),
    ("server", None, None, None, "CREATE", "user boss", False, "root"),
    ("database", "shop", None, None, "SELECT", "role readers", False, "root"),
    ("database", "shop", None, None, "ALL", "group a group", False, "other"),
    ("table", "shop", "orders", None, "INSERT", "user ann", True, "root"),
    ("table", "shop", "orders", None, "ALTER", "user Müller", False, "root"),
    ("column", "shop", "orders", "city", "SELECT", "user ann", False, "root"),
    ("column", "shop", "orders", "city", "SELECT", "role lake", False, "root"),
]


def fill_table(client: ThriftHiveMetastore.Client, directory: Path) -> None:
    """Create the database `shop` with the partitioned table `orders`."""
    client.create_database(ttypes.Database(name="shop", locationUri=f"file:{directory / 'shop'}", parameters={}))
    storage = ttypes.StorageDescriptor(
        cols=[ttypes.FieldSchema(name="id", type="int"), ttypes.FieldSchema(name="city", type="string")],
        serdeInfo=ttypes.SerDeInfo(serializationLib="x", parameters={}),
        parameters={},
        bucketCols=[],
        sortCols=[],
    )
    keys = [ttypes.FieldSchema(name="dt", type="string")]
    client.create_table(
        ttypes.Table(dbName="shop", tableName="orders", sd=storage, partitionKeys=keys, parameters={}, owner="root")
    )
    client.append_partition("shop", "orders", ["1"])


def fill_grants(client: ThriftHiveMetastore.Client, grants: Sequence[SourceGrant]) -> None:
    """Make the roles and grants by Thrift's own client."""
    for name in ROLES:
        client.create_role(ttypes.Role(roleName=name, ownerName="root"))
    for role, kind, name, option in MEMBERS:
        number = ttypes.PrincipalType._NAMES_TO_VALUES[kind]
        client.grant_role(role, name, number, "root", ttypes.PrincipalType.USER, option)
    for each in grants:
        ref = ttypes.HiveObjectRef(
            objectType=ttypes.HiveObjectType._NAMES_TO_VALUES[each.kind],
            dbName=each.database or None,
            objectName=each.table or None,
            # Of a column a list, even an empty one, means a column of a partition.
            partValues=[each.partition] if each.partition else None if each.kind == "COLUMN" else [],
            columnName=each.column or None,
        )
        info = ttypes.PrivilegeGrantInfo(
            privilege=each.privilege,
            createTime=0,
            grantor=each.grantor,
            grantorType=ttypes.PrincipalType.USER,
            grantOption=each.option,
        )
        kind, name = each.to
        privilege = ttypes.HiveObjectPrivilege(
            hiveObject=ref,
            principalName=name,
            principalType=ttypes.PrincipalType._NAMES_TO_VALUES[kind],
            grantInfo=info,
            authorizer=each.authorizer,
        )
        assert client.grant_privileges(ttypes.PrivilegeBag(privileges=[privilege]))


def fill_grants_by_java(uri: str, grants: Sequence[SourceGrant]) -> None:
    """Make the roles and grants by Hive's own client."""
    lines = [f"role\t{name}" for name in ROLES]
    lines += [
        "\t".join(("member", role, kind, name, "option" if option else "-")) for role, kind, name, option in MEMBERS
    ]
    for each in grants:
        on = (each.database or "-", each.table or "-", each.column or "-", each.partition or "-")
        option = "option" if each.option else "-"
        lines.append(
            "\t".join(("grant", each.privilege, each.kind, *on, *each.to, each.grantor, option, each.authorizer))
        )
    command = ["java", *QUICK_START, "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8", "-cp", client_classpath()]
    done = subprocess.run(
        [*command, "GrantClient", uri, *lines], capture_output=True, text=True, timeout=at_most(180), check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def granted(db: str) -> list[tuple[Any, ...]]:
    """Return the grants of a database."""
    names = ("kind", "database", "name", "column", "privilege")
    return [
        (
            *(each.get(name) for name in names),
            f"{each['grantee_kind']} {each['grantee']}",
            each["grant_option"],
            each["grantor"],
        )
        for each in run_json("grants", "--db", db)
    ]


def check_import(uri: str, tmp_path: Path, unfit: Sequence[SourceGrant]) -> None:
    """Import from a metastore with these roles and grants, and compare."""
    db = f"sqlite:///{tmp_path / 'm.db'}"
    dry = run_json("import", "--from", uri, "--db", db, "--grants", "--dry-run", code=1)
    assert not (tmp_path / "m.db").exists()
    found = run_json("import", "--from", uri, "--db", db, "--grants", code=1)
    assert found["counts"]["role"] == {"copied": 2, "unchanged": 2, "failed": 1}
    assert found["counts"]["role member"] == {"copied": 3}
    assert found["counts"]["grant"]["copied"] == len(EXPECTED)
    assert (dry["counts"]["grant"], dry["failures"]) == (found["counts"]["grant"], found["failures"])
    reasons = {each["object"]: each["reason"] for each in found["failures"]}
    assert len(reasons) == len(unfit) + 1
    for name, reason in reasons.items():
        assert REASONS[name] in reason
    assert any("members of the role admin may do everything at once" in note for note in found["notes"])
    assert sorted(granted(db), key=str) == sorted(EXPECTED, key=str)
    again = run_json("import", "--from", uri, "--db", db, "--grants", "--resume", code=1)
    assert again["counts"]["grant"] == {"unchanged": len(EXPECTED), "failed": len(unfit)}
    differences = run_json("verify", "--from", uri, "--to", db, "--grants", code=1)["differences"]
    assert {f"{each['type']} {each['object']}" for each in differences} == set(reasons)
    run("revoke", "SELECT", "--columns", "city", "on", "table", "shop.orders", "from", "role", "lake", "--db", db)
    differences = run_json("verify", "--from", uri, "--to", db, "--grants", code=1)["differences"]
    assert "shop.orders (city) (SELECT to role lake by root)" in {each["object"] for each in differences}
    assert run_json("verify", "--from", uri, "--to", db)["differences"] == []


@pytest.mark.long
@pytest.mark.parametrize("version", ["2.3.10", "3.1.3", "4.0.1"])
def test_roles_and_grants_of_java_metastores_are_imported(version: str, tmp_path: Path) -> None:
    with running_java_metastore(version, java_options=QUICK_START) as java:
        # Authorizers are recorded since Hive 3.
        unfit = [each for each in UNFIT if version != "2.3.10" or each.authorizer == "SQL"]
        with metastore_client(java.uri) as client:
            fill_table(client, tmp_path)
            fill_grants(client, [*GRANTS, *unfit])
        check_import(java.uri, tmp_path, unfit)


@pytest.mark.long
def test_grants_that_hives_own_client_has_made_are_imported(tmp_path: Path) -> None:
    with running_java_metastore("4.0.1", java_options=QUICK_START) as java:
        with metastore_client(java.uri) as client:
            fill_table(client, tmp_path)
        fill_grants_by_java(java.uri, [*GRANTS, *UNFIT])
        check_import(java.uri, tmp_path, UNFIT)


def filled(tmp_path: Path, fill: Callable[[AccessLake], None]) -> str:
    """Return the url of an interbed database with roles and grants."""
    for lake in lake_on_sqlite(tmp_path):
        lake.add_table("orders")
        fill(lake)
        return lake.store.engine.url.render_as_string(hide_password=False)
    raise AssertionError("there is a lake")


def _fill(lake: AccessLake) -> None:
    lake.access.create_role("readers", None)
    db = lake.store.engine.url.render_as_string(hide_password=False)
    for words in (
        ("INSERT", "on", "table", "sales.orders", "to", "user", "ann", "--grant-option"),
        ("SELECT", "--columns", "id", "on", "table", "sales.orders", "to", "role", "readers"),
        ("USAGE", "on", "server", "to", "role", "public"),
    ):
        run("grant", *words, "--db", db)


def test_roles_and_grants_of_interbeds_database_are_imported(tmp_path: Path) -> None:
    source = filled(tmp_path, _fill)
    db = f"sqlite:///{tmp_path / 'm.db'}"
    found = run_json("import", "--from", source, "--db", db, "--grants")
    assert found["counts"]["role"] == {"copied": 1, "unchanged": 2}
    assert found["counts"]["grant"] == {"copied": 3}
    assert granted(db) == granted(source)
    assert run_json("verify", "--from", source, "--to", db, "--grants")["differences"] == []
    assert "grant" not in run_json("import", "--from", source, "--db", db, "--resume")["counts"]


def test_a_part_of_the_metadata_has_its_own_grants_alone(tmp_path: Path) -> None:
    source = filled(tmp_path, _fill)
    db = f"sqlite:///{tmp_path / 'm.db'}"
    found = run_json("import", "--from", source, "--db", db, "--grants", "--include", "sales.orders")
    assert found["counts"]["grant"] == {"copied": 2}
    assert [each[0] for each in granted(db)] == ["table", "column"]
    empty = f"sqlite:///{tmp_path / 'empty.db'}"
    found = run_json(
        "import", "--from", source, "--db", empty, "--grants", "--include", "sales", "--exclude", "sales.*"
    )
    assert "grant" not in found["counts"]


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    source = filled(tmp_path, _fill)
    db = f"sqlite:///{tmp_path / 'm.db'}"
    run("import", "--from", source, "--db", db)
    found = run_json("import", "--from", source, "--db", db, "--grants", "--resume", "--dry-run")
    assert found["counts"]["grant"] == {"copied": 3}
    assert granted(db) == []


def test_an_option_that_the_source_does_not_give_is_reported(tmp_path: Path) -> None:
    source = filled(tmp_path, _fill)
    db = f"sqlite:///{tmp_path / 'm.db'}"
    run("import", "--from", source, "--db", db, "--grants")
    run("revoke", "INSERT", "on", "table", "sales.orders", "from", "user", "ann", "--grant-option-only", "--db", source)
    found = run_json("import", "--from", source, "--db", db, "--grants", "--resume")
    assert found["counts"]["grant"] == {"unchanged": 2, "different": 1}
    [difference] = run_json("verify", "--from", source, "--to", db, "--grants", code=1)["differences"]
    assert (difference["field"], difference["left"], difference["right"]) == ("grantOption", False, True)


def test_an_export_has_no_grants_and_says_so(tmp_path: Path) -> None:
    source = filled(tmp_path, _fill)
    file = tmp_path / "export.jsonl"
    file.write_text(run("export", "--from", source))
    db = f"sqlite:///{tmp_path / 'm.db'}"
    found = run_json("import", "--from", file, "--db", db, "--grants", code=1)
    [reason] = [each["reason"] for each in found["failures"] if each["object"].startswith("role")]
    assert "is an export, which has no roles and grants" in reason
    assert found["counts"]["database"] == {"copied": 2}
