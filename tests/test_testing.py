"""Servers of interbed.testing, which live as long as a block."""

import os
import pickle
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import interbed
from interbed import testing
from interbed.catalog.client.errors import CatalogUnavailableError
from interbed.catalog.client.hive.client import HiveMetastoreClient
from interbed.catalog.server.service.errors import MetastoreError
from interbed.storage.base.errors import InvalidInputError, MissingExtraError, StorageAccessError
from tests.support.servers.http_servers import moto_python
from tests.support.servers.metastore import table
from tests.support.servers.postgres import postgres_server
from tests.support.waits import at_most


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for temporary files that no other process uses."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_server_runs_during_the_block_and_is_deleted_after_it(
    temporary: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The settings of the user for another server have no influence here.
    monkeypatch.setenv("INTERBED_SERVER_PORT", "none")
    with testing.metastore() as uri, HiveMetastoreClient(uri) as client:
        client.create_table(table("default", "t"))
        assert client.get_all_tables("default") == ["t"]
        assert client.get_table("default", "t").sd.location.startswith(f"file:{temporary}/")
        # Another process gets the whole address.
        assert pickle.loads(pickle.dumps(uri)).paimon == uri.paimon
    assert list(temporary.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
def test_a_server_is_deleted_when_the_block_fails(temporary: Path) -> None:
    addresses: list[str] = []

    def fail() -> None:
        with testing.metastore() as uri:
            addresses.append(uri)
            raise ValueError("the block fails")

    with pytest.raises(ValueError, match="the block fails"):
        fail()
    assert list(temporary.iterdir()) == []
    with pytest.raises(CatalogUnavailableError, match=addresses[0]), HiveMetastoreClient(addresses[0]) as client:
        client.get_all_databases()


@pytest.mark.long
def test_concurrent_servers_in_threads_are_independent() -> None:
    found: dict[int, list[str]] = {}

    def use(number: int) -> None:
        with testing.metastore() as uri, HiveMetastoreClient(uri) as client:
            client.create_table(table("default", f"t{number}"))
            found[number] = client.get_all_tables("default")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=at_most(120))
    assert found == {number: [f"t{number}"] for number in range(4)}


@pytest.mark.long
def test_a_given_database_and_warehouse_are_kept(tmp_path: Path) -> None:
    with postgres_server() as db:
        for tables in (["t0"], ["t0", "t1"]):
            with testing.metastore(db=db, warehouse=f"file:{tmp_path}") as uri, HiveMetastoreClient(uri) as client:
                client.create_table(table("default", tables[-1]))
                assert client.get_all_tables("default") == tables
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t0", "t1"]


def test_a_server_that_cannot_start_reports_the_reason() -> None:
    with (
        pytest.raises(MetastoreError, match="unable to open database file"),
        testing.metastore(db="sqlite:////no/m.db"),
    ):
        pass


@pytest.mark.long
def test_a_server_starts_quickly() -> None:
    """Under a second on a quiet machine; the test only excludes a start of a minute."""
    started = time.monotonic()
    with testing.metastore():
        assert time.monotonic() - started < 20


@pytest.mark.long
def test_a_server_ends_with_an_interrupted_program(tmp_path: Path) -> None:
    program = (
        "import interbed.testing, os, signal\n"
        "with interbed.testing.metastore() as uri:\n"
        "    print(uri, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    signal.pause()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=at_most(120),
        check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert result.stdout.startswith("thrift://")
    assert "KeyboardInterrupt" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_object_store_runs_during_the_block_and_is_deleted_after_it(capfd: pytest.CaptureFixture[str]) -> None:
    with testing.s3(python=str(moto_python())) as one, testing.s3("other", python=str(moto_python())) as two:
        assert one["s3.endpoint"] != two["s3.endpoint"]
        with interbed.load_catalog("test", warehouse="s3://lake/warehouse", **one) as catalog:
            catalog.create_database("db")
            assert catalog.list_databases() == ["db"]
        with interbed.load_catalog("test", warehouse="s3://other/warehouse", **two) as catalog:
            assert catalog.list_databases() == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(one["s3.endpoint"].rpartition(":")[2])), timeout=at_most(10))
    assert capfd.readouterr() == ("", "")


def test_an_object_store_without_moto_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "moto", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'moto\[s3,server\]'"), testing.s3():
        pass
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\necho there is no moto >&2\nexit 1\n")
    other.chmod(0o755)
    with (
        pytest.raises(StorageAccessError, match=r"pip install .*it said: there is no moto"),
        testing.s3(python=str(other)),
    ):
        pass


@pytest.mark.parametrize("bucket", ["", "ab", "My", "a_b", "a/b", "-ab"])
def test_a_bucket_name_is_valid_in_s3(bucket: str) -> None:
    with pytest.raises(InvalidInputError, match="no name of a bucket"), testing.s3(bucket):
        pass
