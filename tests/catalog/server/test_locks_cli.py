"""`interbed locks` on a real server, through its port and its database, on SQLite and PostgreSQL."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.cli import main
from interbed.thrift_idl.hive_metastore.ttypes import LockState, LockType
from tests.support.servers.metastore import MetastoreUnderTest, lock_component, lock_request, metastore_under_test
from tests.support.waits import at_most

READ, WRITE, EXCLUSIVE = LockType.SHARED_READ, LockType.SHARED_WRITE, LockType.EXCLUSIVE


@pytest.fixture(params=["uri", "db"])
def source(request: pytest.FixtureRequest, metastore: MetastoreUnderTest) -> list[str]:
    """Return the options that name the metastore."""
    return ["--uri", metastore.uri] if request.param == "uri" else ["--db", metastore.db]


@pytest.fixture
def queue(client: HiveMetastoreClient, database: str) -> Iterator[list[int]]:
    """Return ids of locks: ann holds a table, ben and cat wait for it in this order; dan holds another table."""
    ids = [
        client.lock(lock_request(lock_component(kind, database, name), user=user, host=f"{user}s-host")).lockid
        for user, kind, name in [
            ("ann", READ, "t"),
            ("ben", EXCLUSIVE, "t"),
            ("cat", READ, "t"),
            ("dan", WRITE, "u"),
        ]
    ]
    yield ids
    for lock_id in ids:
        client.unlock(lock_id)


def run(*arguments: str, code: int = 0) -> str:
    """Return the output of a command."""
    result = CliRunner().invoke(main, ["locks", *arguments])
    assert (result.exit_code, "Traceback" in result.output) == (code, False), result.output
    return result.output


def test_the_list_has_holders_and_waiters(source: list[str], queue: list[int], database: str) -> None:
    ann, ben, cat, dan = queue
    lines = [line.split() for line in run("list", *source, database).splitlines()]
    assert lines[0][:4] == ["ID", "STATE", "LOCK", "USER"]
    assert [line[:6] for line in lines[1:]] == [
        [str(ann), "acquired", "shared_read", f"{database}.t", "ann", "anns-host"],
        [str(ben), "waiting", "exclusive", f"{database}.t", "ben", "bens-host"],
        [str(cat), "waiting", "shared_read", f"{database}.t", "cat", "cats-host"],
        [str(dan), "acquired", "shared_write", f"{database}.u", "dan", "dans-host"],
    ]
    assert [line[-1] for line in lines[2:4]] == [str(ann), str(ben)]
    waiting = [line.split()[0] for line in run("list", *source, "--waiting", database.upper()).splitlines()[1:]]
    assert waiting == [str(ann), str(ben), str(cat)]
    assert run("list", *source, f"{database}.nothing") == "No locks.\n"


def test_the_list_as_json_has_ages_and_the_rest_of_the_lease(
    source: list[str], queue: list[int], database: str
) -> None:
    found = json.loads(run("list", *source, "--json", f"{database}.t"))
    assert [each["id"] for each in found] == queue[:3]
    assert found[0]["components"] == [{"type": "shared_read", "database": database, "table": "t", "partition": None}]
    assert [each["waits_for"] for each in found] == [None, *queue[:2]]
    # The server has no setting for the lease, so that it has Hive's default of 300 s.
    assert all(200 < each["lease_left_seconds"] <= 300 for each in found)
    assert 0 <= found[0]["age_seconds"] < 100
    short = json.loads(run("list", *source, "--json", "--lease-seconds", "10min", f"{database}.t"))
    assert all(400 < each["lease_left_seconds"] <= 600 for each in short)


def test_explain_draws_the_chain_and_proposes_a_solution(source: list[str], queue: list[int], database: str) -> None:
    ann, ben, cat, _ = queue
    text = run("explain", *source, str(cat))
    first, second, third, *rest = text.splitlines()
    assert first.startswith(f"lock {cat} (waiting): shared_read {database}.t; cat on cats-host")
    assert second.startswith(f"└─ waits for lock {ben} (waiting): exclusive {database}.t; ben on bens-host")
    assert third.startswith(f"   └─ waits for lock {ann} (acquired): shared_read {database}.t; ann on anns-host")
    assert "held by ann on anns-host (Unknown). Let that client end, or wait: it runs out in" in rest[-1]
    assert rest[-1].endswith(f"interbed locks release {ann} {' '.join(source)}")
    held = run("explain", *source, str(ann))
    assert f"Waited for by lock {ben}." in held
    assert "It does not wait: it is held." in held
    view = json.loads(run("explain", *source, "--json", str(cat)))
    assert [each["id"] for each in view["chain"]] == [cat, ben, ann]
    assert (view["waits_for_all"], view["waited_for_by"]) == ([ben], [])


def test_a_lock_of_a_disconnected_client_is_listed_with_the_time_of_its_drop(database_url: str, tmp_path: Path) -> None:
    settings = ("--lock-disconnect-seconds", "250")
    with (
        metastore_under_test(database_url, tmp_path, *settings) as running,
        HiveMetastoreClient(running.uri, timeout_seconds=at_most(30)) as waiting,
    ):
        with HiveMetastoreClient(running.uri, timeout_seconds=at_most(30)) as gone:
            held = gone.lock(lock_request(lock_component(EXCLUSIVE, "d", "t"), user="ann", host="far")).lockid
            assert json.loads(run("list", "--uri", running.uri, "--json"))[0]["orphaned_seconds"] is None
        waits = waiting.lock(lock_request(lock_component(EXCLUSIVE, "d", "t"), user="ben")).lockid
        for source in (["--uri", running.uri], ["--db", running.db, "--disconnect-seconds", "250"]):
            deadline = time.monotonic() + at_most(60)
            while (found := json.loads(run("list", *source, "--json")))[0]["orphaned_seconds"] is None:
                assert time.monotonic() < deadline
            assert [each["id"] for each in found] == [held, waits]
            assert 150 < found[0]["dropped_in_seconds"] <= 250 < found[0]["lease_left_seconds"] <= 300
            assert found[1]["orphaned_seconds"] is None
            assert found[1]["dropped_in_seconds"] == found[1]["lease_left_seconds"]
            header, first, second = run("list", *source).splitlines()
            assert header.split()[-3:] == ["CLIENT", "WAITS", "FOR"]
            assert re.search(r"4m\d\ds +gone for \d+s$", first)
            assert "gone" not in second
            text = run("explain", *source, str(waits))
            assert re.search(rf"lock {held} \(acquired\): .*, client gone for \d+s\n", text)
            assert re.search(
                rf"In the way is lock {held}\. The last connection of its client \(ann on far\) broke \d+s ago: the "
                rf"metastore drops it in 4m\d\ds unless that client connects again\. To drop it now: interbed locks "
                rf"release {held} ",
                text,
            )
            assert "The last connection of its client" in run("explain", *source, str(held))
        run("release", "--uri", running.uri, str(held))
        assert waiting.check_lock(waits).state == LockState.ACQUIRED


def test_release_drops_a_lock_and_the_next_one_is_granted(
    source: list[str], queue: list[int], client: HiveMetastoreClient
) -> None:
    ann, ben, cat, _ = queue
    text = run("release", *source, str(ann))
    assert text.startswith(f"Released lock {ann} (acquired)")
    assert f"Lock {ben} was waiting for it" in text
    assert client.check_lock(ben).state == LockState.ACQUIRED
    assert json.loads(run("release", *source, "--json", str(ben)))["waited_for_by"] == [cat]
    assert client.check_lock(cat).state == LockState.ACQUIRED
    assert "there is no lock" in run("release", *source, str(ann), code=1)


def test_missing_locks_and_wrong_options_are_reported(source: list[str], tmp_path: Path) -> None:
    assert "there is no lock 999999999: it was released" in run("explain", *source, "999999999", code=1)
    assert "exclude each other" in run("list", "--uri", "thrift://h:1", "--db", "sqlite:///x", code=2)
    assert "127.0.0.1:1" in run("list", "--uri", "thrift://127.0.0.1:1", code=1)
    assert "there is no database" in run("list", "--db", f"sqlite:///{tmp_path}/none.db", code=1)
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "empty.db").write_bytes(b"")
    assert "no interbed metastore's" in run("list", "--db", f"sqlite:///{tmp_path}/empty.db", code=1)
    assert "is no time" in run("list", *source, "--lease-seconds", "soon", code=2)


def test_every_command_has_help() -> None:
    group = main.get_command(click.Context(main), "locks")
    assert isinstance(group, click.Group)
    assert sorted(group.commands) == ["explain", "list", "release"]
    assert all("--json" in run(name, "--help") for name in group.commands)
