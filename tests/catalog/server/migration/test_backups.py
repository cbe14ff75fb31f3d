"""Backups of a server's database: whole, verified, consistent beside writers, and restored in one step."""

import gzip
import json
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import Engine, inspect, text

from interbed.catalog.server.database.engine import open_engine
from interbed.catalog.server.database.schema import current_revision, latest_revision
from interbed.catalog.server.migration.backup import (
    MANIFEST,
    BackedTable,
    BackupError,
    BackupManifest,
    RowsDigest,
    back_up,
    read_backup,
    restore,
)
from tests.catalog.server.migration.commands import run, run_json
from tests.catalog.server.migration.filled import fill, fill_constraints, fill_statistics
from tests.support.databases import prepare
from tests.support.servers.metastore import (
    BACKENDS,
    MetastoreUnderTest,
    foreign_client,
    metastore_under_test,
    new_database,
)

GRANT = ("SELECT", "on", "database", "shop", "to", "role", "analysts")


class KilledError(Exception):
    """Error that ends an operation in the middle."""


@contextmanager
def engine_of(url: str) -> Iterator[Engine]:
    """Yield the engine of a database."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


def rows_of(manifest: BackupManifest) -> dict[str, tuple[int, str, int | None]]:
    """Return rows, digest and last id of each table."""
    return {each.name: (each.rows, each.digest, each.last_id) for each in manifest.tables}


@pytest.fixture(scope="module", params=BACKENDS)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetastoreUnderTest]:
    """Run a server with all kinds of objects, dropped ones among them, roles, grants and tokens."""
    directory = tmp_path_factory.mktemp("filled")
    url = f"sqlite:///{directory / 'source.db'}"
    if request.param != "sqlite":
        url = new_database(request.getfixturevalue("postgres_url"))
    with metastore_under_test(url, directory) as running:
        with foreign_client(running.port) as client:
            fill(client, directory)
            fill_statistics(client)
            fill_constraints(client)
            client.drop_table("Shop", client.get_all_tables("Shop")[0], deleteData=False)
        run("token", "create", "ann", "--db", running.db)
        run("roles", "create", "analysts", "--db", running.db)
        run("grant", *GRANT, "--db", running.db)
        yield running


@pytest.fixture(params=BACKENDS)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'target.db'}"
    return new_database(request.getfixturevalue("postgres_url"))


@pytest.fixture
def database(tmp_path: Path) -> str:
    """Return the address of a database on SQLite with the rows of a new metastore."""
    url = f"sqlite:///{tmp_path / 'source.db'}"
    prepare(url)
    return url


def test_a_database_is_backed_up_beside_its_server_and_restored_on_either_kind(
    filled: MetastoreUnderTest, empty: str, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    assert run("backup", "create", backup, "--db", filled.db).startswith(f"backed up into {backup}: ")
    assert stat.S_IMODE(backup.stat().st_mode) == 0o700
    made = msgspec.convert(run_json("backup", "verify", backup), BackupManifest)
    assert {each.name for each in made.tables if each.rows} > {"tables", "partitions", "history", "access_tokens"}
    run("backup", "restore", backup, "--db", empty)
    with engine_of(empty) as engine:
        again = back_up(engine, str(tmp_path / "again"))
    # Databases on SQLite have no numbers of their own where rows of PostgreSQL have.
    assert {name: rows[:2] for name, rows in rows_of(again).items()} == {
        name: rows[:2] for name, rows in rows_of(made).items()
    }
    assert "no difference" in run("verify", "--from", filled.db, "--to", empty)
    with metastore_under_test(empty, tmp_path) as served, foreign_client(served.port) as client:
        client.create_database(type(client.get_database("empty_2024"))(name="later", parameters={}))
    assert _numbers(empty)[:-1] == _numbers(filled.db)
    assert _numbers(empty)[-1] > _numbers(filled.db)[-1]


def _numbers(url: str) -> list[int]:
    """Return the ids of the databases of a metastore."""
    with engine_of(url) as engine, engine.connect() as connection:
        return list(connection.execute(text("SELECT id FROM databases ORDER BY id")).scalars())


def test_a_backup_beside_writers_is_one_state(filled: MetastoreUnderTest, tmp_path: Path) -> None:
    ended = threading.Event()

    def write(number: int) -> None:
        with foreign_client(filled.port) as client:
            kind = type(client.get_database("empty_2024"))
            while not ended.is_set():
                client.create_database(kind(name=f"busy{number}", parameters={}))
                client.drop_database(f"busy{number}", deleteData=True, cascade=False)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for each in writers:
        each.start()
    seen = set()
    try:
        with engine_of(filled.db) as engine:
            for turn in range(5):
                directory = tmp_path / str(turn)
                back_up(engine, str(directory))
                events = [row[0] for row in _rows(directory, "events")]
                numbers: dict[str, int] = dict(_rows(directory, "sequences"))
                # An event and its number are written by one transaction.
                assert max(events) == numbers["event"]
                assert len(events) == len(set(events))
                seen.add(numbers["event"])
    finally:
        ended.set()
        for each in writers:
            each.join()
    assert len(seen) > 1


def _rows(directory: Path, table: str) -> list[list[Any]]:
    with gzip.open(directory / f"{table}.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


def test_a_backup_that_was_not_finished_is_refused(database: str, empty: str, tmp_path: Path) -> None:
    backup = tmp_path / "backup"

    def killed(table: str, _count: int) -> None:
        if table == "sequences":
            raise KilledError

    with engine_of(database) as engine, pytest.raises(KilledError):
        back_up(engine, str(backup), progress=killed)
    assert list(backup.iterdir())
    with pytest.raises(BackupError, match=r"no backup\.json: it is no backup, or one that was not finished"):
        read_backup(str(backup))
    with engine_of(empty) as engine:
        with pytest.raises(BackupError, match="was not finished"):
            restore(engine, str(backup))
        assert inspect(engine).get_table_names() == []
    with engine_of(database) as engine, pytest.raises(BackupError, match="has files already"):
        back_up(engine, str(backup))


def test_a_restoration_that_is_ended_leaves_the_database_empty(database: str, empty: str, tmp_path: Path) -> None:
    backup = str(tmp_path / "backup")
    with engine_of(database) as engine:
        made = back_up(engine, backup)
    for name in [each.name for each in made.tables if each.rows]:

        def killed(table: str, _count: int, ends_at: str = name) -> None:
            if table == ends_at:
                raise KilledError

        with engine_of(empty) as engine:
            with pytest.raises(KilledError):
                restore(engine, backup, progress=killed)
            assert inspect(engine).get_table_names() == []
    with engine_of(empty) as engine:
        assert rows_of(restore(engine, backup)) == rows_of(made)
        with pytest.raises(BackupError, match="has tables of interbed already"):
            restore(engine, backup)


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0x10
    file.write_bytes(content)


def _lose_a_row(file: Path) -> None:
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    file.write_bytes(gzip.compress(b"".join(lines[1:])))


def _change_a_row(file: Path) -> None:
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()).replace(b"event", b"evens")))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a bit": _flip,
    "a lost end": lambda file: file.write_bytes(file.read_bytes()[:-9]),
    "no bytes": lambda file: file.write_bytes(b""),
    "no gzip": lambda file: file.write_bytes(b"[1]\n"),
    "no file": lambda file: file.unlink(),
    "a lost row": _lose_a_row,
    "a changed row": _change_a_row,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_backup_is_refused_and_changes_nothing(database: str, tmp_path: Path, damage: str) -> None:
    backup, target = tmp_path / "backup", f"sqlite:///{tmp_path / 'target.db'}"
    with engine_of(database) as engine:
        back_up(engine, str(backup))
    DAMAGE[damage](backup / "sequences.jsonl.gz")
    with pytest.raises(BackupError, match=r"damaged|not whole"):
        read_backup(str(backup))
    with engine_of(target) as engine:
        with pytest.raises(BackupError, match=r"damaged|not whole"):
            restore(engine, str(backup))
        assert inspect(engine).get_table_names() == []
    assert "sequences" in run("backup", "verify", backup, code=1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "has version 2"),
        ({"revision": "9999"}, "use that version, or a newer one"),
        ({"tables": None}, "is damaged"),
    ],
)
def test_a_manifest_that_does_not_fit_is_refused(
    database: str, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    backup = tmp_path / "backup"
    with engine_of(database) as engine:
        back_up(engine, str(backup))
    file = backup / MANIFEST
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(BackupError, match=message):
        read_backup(str(backup))


def test_a_backup_of_an_older_version_is_migrated(filled: MetastoreUnderTest, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    with engine_of(filled.db) as engine:
        made = back_up(engine, str(backup))
    # Revision 0022 has added the last column of this table.
    (table,) = (each for each in made.tables if each.name == "delegation_tokens")
    assert table.columns[-1] == "asks_groups"
    digest, lines = RowsDigest(), [json.dumps(row[:-1]).encode() + b"\n" for row in _rows(backup, table.name)]
    for line in lines:
        digest.add(line)
    (backup / "delegation_tokens.jsonl.gz").write_bytes(gzip.compress(b"".join(lines)))
    older = BackedTable(name=table.name, columns=table.columns[:-1], rows=digest.rows, digest=digest.digest)
    # Revision 0023 has added the sessions of the console.
    (sessions,) = (each for each in made.tables if each.name == "console_sessions")
    (backup / "console_sessions.jsonl.gz").unlink()
    tables = [older if each is table else each for each in made.tables if each is not sessions]
    manifest = msgspec.structs.replace(made, revision="0021", tables=tables)
    (backup / MANIFEST).write_bytes(msgspec.json.encode(manifest))
    target = f"sqlite:///{tmp_path / 'target.db'}"
    with engine_of(target) as engine:
        restore(engine, str(backup))
        assert current_revision(engine) == latest_revision()
    assert "no difference" in run("verify", "--from", filled.db, "--to", target)


def test_databases_that_are_not_there_or_not_interbeds_are_refused(tmp_path: Path) -> None:
    missing = f"sqlite:///{tmp_path / 'missing.db'}"
    assert "there is no database" in run("backup", "create", tmp_path / "backup", "--db", missing, code=1)
    assert not (tmp_path / "missing.db").exists()
    assert not (tmp_path / "backup").exists()
    with engine_of(f"sqlite:///{tmp_path / 'other.db'}") as engine, engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (a INTEGER)")
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert "no interbed metastore's" in run("backup", "create", tmp_path / "backup", "--db", other, code=1)


def test_a_backup_is_on_any_file_system(database: str, tmp_path: Path) -> None:
    location = f"memory://backups/{tmp_path.name}"
    with engine_of(database) as engine:
        made = back_up(engine, location)
    with engine_of(f"sqlite:///{tmp_path / 'target.db'}") as engine:
        assert rows_of(restore(engine, location)) == rows_of(made)
