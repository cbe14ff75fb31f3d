"""Import, verify and export between interbed's own servers and databases, on SQLite and PostgreSQL,
and their errors.
"""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from interbed.catalog.server.migration.record import RecordKind
from interbed.catalog.server.process.command import stop_server
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.migration.commands import run, run_json
from tests.catalog.server.migration.filled import PARTITIONS, fill, fill_constraints, fill_statistics
from tests.support.hostile_locations import ProtectedTree, hostile_locations
from tests.support.servers.java_metastore import metastore_client
from tests.support.servers.metastore import (
    BACKENDS,
    MetastoreUnderTest,
    foreign_client,
    metastore_under_test,
    migrated_database,
    plain_client,
    started_server,
)
from tests.support.shares import each_run
from tests.support.tally import Tally
from tests.support.waits import at_most


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server with all kinds of objects, in two catalogs."""
    directory = tmp_path_factory.mktemp("filled")
    with metastore_under_test(f"sqlite:///{directory / 'source.db'}", directory) as running:
        with foreign_client(running.port) as client:
            fill(client, directory)
            fill_statistics(client)
            fill_constraints(client)
        yield running


@pytest.fixture(params=BACKENDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'target.db'}"
    return migrated_database(request.getfixturevalue("postgres_url"))


@pytest.fixture(scope="module")
def exported(filled: MetastoreUnderTest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Export the filled server into a file."""
    file = tmp_path_factory.mktemp("exported") / "export.jsonl"
    file.write_text(run("export", "--from", filled.uri))
    return file


@pytest.mark.parametrize("target", each_run(BACKENDS, lambda kind: kind == "postgresql"), indirect=True)
def test_a_server_is_imported_into_another_database(filled: MetastoreUnderTest, target: str, tmp_path: Path) -> None:
    output = run_json("import", "--from", filled.uri, "--db", target)
    assert output["failures"] == []
    assert output["counts"]["partition"] == {"copied": len(PARTITIONS)}
    assert output["counts"]["constraint"] == {"copied": 2}
    assert output["counts"]["table statistics"] == {"copied": 2}
    assert output["counts"]["partition statistics"] == {"copied": 4}
    assert output["notes"] == []
    assert "no differences" in run("verify", "--from", filled.uri, "--to", target)
    made = run_json("history", "--database", "shop", "--db", target, "--warehouse", str(tmp_path))
    assert {each["operation"] for each in made} == {"import"}
    again = run_json("import", "--from", filled.db, "--to", target, "--resume")
    assert {outcome for counts in again["counts"].values() for outcome in counts} == {"unchanged"}


def test_an_imported_export_is_exported_again_line_for_line(exported: Path, target: str) -> None:
    lines = exported.read_text().splitlines()
    assert json.loads(lines[0]) == {"type": "export", "format": 1}
    assert json.loads(lines[-1]) == {"type": "end", "objects": len(lines) - 2}
    kinds = {json.loads(line)["type"] for line in lines}
    # Grants are exported on request alone.
    assert kinds == {"export", "end", *RecordKind} - {RecordKind.ROLE, RecordKind.ROLE_MEMBER, RecordKind.GRANT}
    run("import", "--from", exported, "--db", target)
    assert run("export", "--db", target).splitlines() == lines
    assert "no differences" in run("verify", "--from", exported, "--to", target)


def test_the_target_is_the_servers_database_by_default(exported: Path, tmp_path: Path) -> None:
    env = {"INTERBED_SERVER_DB": f"sqlite:///{tmp_path / 'own.db'}"}
    run("import", "--from", exported, env=env)
    assert "no differences" in run("verify", "--from", exported, env=env)
    assert run("export", env=env) == exported.read_text()


def test_a_database_with_tables_is_not_changed_without_resume(exported: Path, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'm.db'}"
    run("import", "--from", exported, "--db", db, "--include", "shop.few")
    assert "has tables already" in run("import", "--from", exported, "--db", db, code=1)
    output = run_json("import", "--from", exported, "--db", db, "--resume")
    assert output["counts"]["table"]["unchanged"] == 1


def test_objects_that_are_missing_on_either_side_are_reported(exported: Path, tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'm.db'}"
    run("import", "--from", exported, "--db", db, "--exclude", "shop.few", "--exclude", "empty_2024")
    output = run("verify", "--from", exported, "--to", db, code=1)
    assert f"table shop.few is missing from {db}" in output
    assert f"database empty_2024 is missing from {db}" in output
    assert "2 differences in " in output
    output = run("verify", "--from", db, "--to", exported, code=1)
    assert f"table shop.few is missing from {db}" in output


def test_an_object_that_cannot_be_stored_does_not_stop_the_import(
    exported: Path, tmp_path: Path, postgres_url: str
) -> None:
    """The columns of PostgreSQL have at most 256 characters for table names, as in Hive; a file may
    have longer names.
    """
    long_name = "t" * 300
    lines = exported.read_text().splitlines()
    table = next(json.loads(line) for line in lines if '"name": "few"' in line)
    lines[-1] = json.dumps({**table, "name": long_name})
    file = tmp_path / "long.jsonl"
    file.write_text("\n".join([*lines, json.dumps({"type": "end", "objects": len(lines) - 1})]))
    db = migrated_database(postgres_url)
    output = run_json("import", "--from", file, "--db", db, code=1)
    assert output["counts"]["table"]["failed"] == 1
    assert output["counts"]["table"]["copied"] == 7
    assert [long_name in failure["object"] for failure in output["failures"]] == [True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "has no end: the export that wrote it was interrupted"),
        (lambda lines: [*lines[:-1], '{"type": "end", "objects": 1}'], "1 objects are announced"),
        (lambda lines: lines[1:], "line 1: an export begins with"),
        (lambda lines: ['{"type": "export", "format": 9}', *lines[1:]], "format 9 is not known"),
        (lambda lines: [lines[0], lines[1][:-5], *lines[2:]], "line 2: "),
        (lambda lines: [lines[0], '{"type": "index"}', *lines[1:]], "unknown type 'index'"),
        (lambda lines: [lines[0], lines[1], *lines[1:]], "line 3: UNIQUE"),
        (
            lambda lines: [lines[0], '{"type": "table", "catalog": "hive"}'],
            "a table has to have catalog, database, name",
        ),
        (lambda lines: [*lines[:1], lines[1].replace('"createTime"', '"birthday"'), *lines[2:]], "no field 'birthday'"),
        (lambda lines: ["\x00\xff"], "line 1: "),
    ],
)
def test_a_damaged_export_file_is_refused_with_its_line(
    exported: Path, tmp_path: Path, change: object, message: str
) -> None:
    assert callable(change)
    file = tmp_path / "broken.jsonl"
    file.write_text("\n".join(change(exported.read_text().splitlines())) + "\n")
    output = run("import", "--from", file, "--db", f"sqlite:///{tmp_path / 'm.db'}", code=1)
    assert message in output
    assert str(file) in output


def test_an_unreachable_source_is_reported_with_a_hint(tmp_path: Path) -> None:
    db = f"sqlite:///{tmp_path / 'm.db'}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    output = run("import", "--from", f"thrift://127.0.0.1:{port}", "--db", db, code=1)
    assert f"no metastore answers at thrift://127.0.0.1:{port}" in output
    assert "Connection refused" in output
    assert "hive.metastore.sasl.enabled" in output
    assert not list(tmp_path.iterdir())


def test_a_source_that_is_not_a_metastore_is_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=_answer_http, args=(listener,))
        answering.start()
        uri = f"thrift://127.0.0.1:{listener.getsockname()[1]}"
        output = run("verify", "--from", uri, "--to", f"sqlite:///{tmp_path / 'm.db'}", code=1)
        answering.join(timeout=at_most(60))
    assert f"no metastore answers at {uri}" in output
    assert "does not speak as a metastore does" in output or "hung up on the first call" in output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("import", "--from", "{file}", "--db", "thrift://host:9083"), 2, "is a server, which would make directories"),
        (("import", "--from", "nowhere.jsonl", "--db", "sqlite:///{tmp}/m.db"), 2, "neither a file nor an address"),
        (("import", "--from", "{file}", "--db", "mysql://x/y"), 1, "mysql is not supported"),
        (("import", "--from", "{file}", "--db", "sqlite:////no/such/m.db"), 1, "unable to open database file"),
        (("import", "--from", "http://host/x", "--db", "sqlite:///{tmp}/m.db"), 1, "http is not supported"),
        (("import", "--from", "{file}", "--db", "sqlite:///{tmp}/m.db", "--include", "a.b.c.d"), 1, "no pattern"),
        (("import", "--from", "thrift://host:port", "--db", "sqlite:///{tmp}/m.db"), 1, "no address of a metastore"),
        (("export", "--from", "sqlite:///{tmp}/missing.db"), 1, "there is no database"),
        (("verify", "--from", "{file}", "--to", "postgresql://nobody@127.0.0.1:1/x"), 1, "refused"),
    ],
)
def test_invalid_arguments_are_refused_with_the_reason(
    exported: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str
) -> None:
    filled_in = [argument.format(file=exported, tmp=tmp_path) for argument in arguments]
    assert message in run(*filled_in, code=code)


@pytest.mark.parametrize("target", each_run(BACKENDS, lambda kind: kind == "sqlite"), indirect=True)
def test_several_catalogs_are_imported(target: str, tmp_path: Path) -> None:
    with metastore_under_test(f"sqlite:///{tmp_path / 'source.db'}", tmp_path) as running:
        with foreign_client(running.port) as foreign:
            fill(foreign, tmp_path)
        spark = ttypes.Catalog(name="spark", description="another", locationUri=f"file:{tmp_path / 'spark'}")
        with metastore_client(running.uri) as raw:
            raw.create_catalog(ttypes.CreateCatalogRequest(catalog=spark))
            raw.create_database(ttypes.Database(name="d", catalogName="spark", parameters={"a": "b"}))
            raw.create_table(
                ttypes.Table(
                    dbName="d",
                    catName="spark",
                    tableName="t",
                    sd=ttypes.StorageDescriptor(
                        cols=[ttypes.FieldSchema(name="id", type="int")], serdeInfo=ttypes.SerDeInfo()
                    ),
                    parameters={},
                )
            )
        output = run_json("import", "--from", running.uri, "--db", target)
        assert output["counts"]["catalog"] == {"copied": 2}
        compared = run_json("verify", "--from", running.uri, "--to", target)
        assert compared["differences"] == []
        assert compared["compared"]["catalog"] == 2
        assert '"catalog": "spark", "database": "d", "name": "t"' in run("export", "--db", target)


def _answer_http(listener: socket.socket) -> None:
    listener.settimeout(at_most(60))
    connection, _ = listener.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


def test_hostile_locations_of_an_import_delete_nothing_of_others(exported: Path, tmp_path: Path, tally: Tally) -> None:
    """An import writes metadata alone. A server that drops the tables checks their locations again."""
    tree = ProtectedTree(root=tmp_path / "tree")
    tree.make()
    lines = exported.read_text().splitlines()
    found = next(json.loads(line) for line in lines if '"name": "bucketed"' in line and '"type": "table"' in line)
    locations = hostile_locations(tree, ())
    tables = []
    for number, location in enumerate(locations):
        fields = {**found["fields"], "sd": {**found["fields"]["sd"], "location": location}}
        tables.append(json.dumps({**found, "name": f"t{number}", "fields": fields}))
    file, before = tmp_path / "hostile.jsonl", tree.entries()
    end = json.dumps({"type": "end", "objects": len(lines) - 2 + len(tables)})
    file.write_text("\n".join([*lines[:-1], *tables, end]))
    output = run_json("import", "--from", file, "--db", f"sqlite:///{tree.database}", code=1)
    failures = json.dumps(output["failures"])
    assert "Traceback" not in failures
    assert "SECRET" not in failures
    server = started_server(f"sqlite:///{tree.database}", f"file:{tree.warehouse}", log=tmp_path / "server.log")
    try:
        with plain_client(urlsplit(server.uri).port or 0) as client:
            names = [name for name in client.get_all_tables("shop") if name[1:].isdigit()]
            for name in names:
                with suppress(ttypes.MetaException):
                    client.drop_table("shop", name, True)
    finally:
        stop_server(server)
    assert 0 < output["counts"]["table"]["failed"] < len(locations)
    after = tree.entries()
    assert {path: after.get(path) for path in before} == before
    assert "Traceback" not in (tmp_path / "server.log").read_text()
    tally("hostile locations imported", len(locations))
    tally("of these dropped later", len(names))
