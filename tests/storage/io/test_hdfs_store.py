"""HDFS as storage of tables: the guarantees that a commit needs, and the errors."""

import os
import pickle
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.io.api import PrefetchingInput, whole_file
from interbed.storage.io.hdfs.files import WRITE_BYTES, translated
from interbed.storage.io.hdfs.store import HdfsFileIO
from interbed.storage.io.prefetch.content import WHOLE_BYTES
from interbed.storage.io.resolve import file_io_for
from tests.support.servers.hdfs import NAMESERVICE, HdfsServer
from tests.support.waits import at_most

RACERS = 16
QUICK = {"dfs.client.failover.max.attempts": "2", "dfs.client.failover.sleep.base.millis": "10"}
"""Short retries, for requests that are to fail."""


@pytest.fixture
def root(hdfs: HdfsServer) -> str:
    """A directory of the test's own, which does not exist yet."""
    return f"{hdfs.uri}/{uuid.uuid4()}"


def names(io: HdfsFileIO, path: str) -> list[str]:
    return sorted(status.name for status in io.list(path))


def opened(path: str, options: dict[str, str] | None = None) -> HdfsFileIO:
    io = file_io_for(path, options)[0]
    assert isinstance(io, HdfsFileIO)
    return io


# -- one winner ----------------------------------------------------------------------------------------------------


def test_one_of_several_writers_of_a_name_wins_and_no_temporary_file_is_left(root: str) -> None:
    io = opened(root)
    assert io.exclusive_create
    for number in range(5):
        start = threading.Barrier(RACERS)
        path = f"{root}/snapshot/snapshot-{number}"

        def race(racer: int, start: threading.Barrier = start, path: str = path) -> bool:
            start.wait(timeout=at_most(30))
            return io.create_exclusive(path, b"%d" % racer)

        with ThreadPoolExecutor(RACERS) as pool:
            won = list(pool.map(race, range(RACERS)))
        assert won.count(True) == 1
        assert io.read_bytes(path) == b"%d" % won.index(True)
    assert names(io, f"{root}/snapshot") == [f"snapshot-{number}" for number in range(5)]


class LosesAnswers:
    """A client whose next rename is carried out and then fails, as if the request had been sent twice."""

    def __init__(self, client: object, error: Exception, *, carried_out: bool = True) -> None:
        self._client = client
        self._error: Exception | None = error
        self._carried_out = carried_out

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        error, self._error = self._error, None
        if error is None or self._carried_out:
            self._client.rename(source, target, overwrite)  # type: ignore[attr-defined]
        if error is not None:
            raise error


REPEATED = [
    FileNotFoundError("rename source /t/.snapshot-1.tmp is not found."),
    FileExistsError("rename destination /t/snapshot-1 already exists"),
    OSError("Connection reset by peer"),
]


@pytest.mark.parametrize("error", REPEATED, ids=lambda error: type(error).__name__)
def test_a_creation_whose_response_was_lost_is_recognized_as_our_own(
    root: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = opened(root)
    io.make_directories(root)
    monkeypatch.setattr(io, "_client", LosesAnswers(io._client, error))
    assert io.create_exclusive(f"{root}/snapshot-1", b"ours")
    assert names(io, root) == ["snapshot-1"]


def test_a_creation_that_did_not_arrive_is_an_error_and_leaves_no_file(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    io = opened(root)
    io.make_directories(root)
    lost = LosesAnswers(io._client, OSError("Connection reset by peer"), carried_out=False)
    monkeypatch.setattr(io, "_client", lost)
    with pytest.raises(StorageAccessError, match=r"Can't create .*/snapshot-1: the name node of .* does not answer"):
        io.create_exclusive(f"{root}/snapshot-1", b"ours")
    assert names(io, root) == []


def test_an_overwrite_whose_response_was_lost_succeeds(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    io = opened(root)
    io.overwrite(f"{root}/LATEST", b"1")
    monkeypatch.setattr(io, "_client", LosesAnswers(io._client, REPEATED[0]))
    io.overwrite(f"{root}/LATEST", b"2")
    assert io.read_bytes(f"{root}/LATEST") == b"2"
    assert names(io, root) == ["LATEST"]


# -- files ---------------------------------------------------------------------------------------------------------


def test_a_file_becomes_visible_as_a_whole_on_close(root: str) -> None:
    io = opened(root)
    content = os.urandom(2 * WRITE_BYTES + 12345)
    output = io.open_output(f"{root}/data.bin")
    output.write(content)
    assert not io.exists(f"{root}/data.bin")
    (hidden,) = names(io, root)
    assert hidden.startswith(".data.bin.")
    assert hidden.endswith(".tmp")
    assert output.tell() == len(content)
    output.close()
    output.close()
    assert names(io, root) == ["data.bin"]
    assert io.read_bytes(f"{root}/data.bin") == content


def test_an_unfinished_file_leaves_nothing(root: str) -> None:
    io = opened(root)
    output = io.open_output(f"{root}/a")
    output.write(b"x" * 10)
    output.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    dropped = io.open_output(f"{root}/b")
    dropped.write(b"x")
    del dropped
    assert names(io, root) == []


def test_reads_of_ranges_and_beyond_the_end_are_those_of_a_local_file(root: str) -> None:
    io = opened(root)
    content = os.urandom(4 * WHOLE_BYTES + 99)
    with io.open_output(f"{root}/f") as output:
        output.write(content)
    with io.open_input(f"{root}/f") as source:
        assert source.size() == len(content)
        for start, count in [(0, 4), (len(content) - 8, 8), (5, 3), (WHOLE_BYTES - 2, 2), (7, 3 * WHOLE_BYTES // 4)]:
            source.seek(start)
            assert source.read(count) == content[start : start + count]
            assert source.tell() == start + count
        source.seek(len(content) + 50)
        assert source.read(10) == b""
        source.seek(len(content) - 3)
        assert source.read(10) == content[-3:]
        source.seek(0)
        assert source.read() == content


def test_parquet_is_written_and_read(root: str) -> None:
    io = opened(root)
    rows = pa.table({"id": range(200_000), "name": [f"n{i % 1000}" for i in range(200_000)]})
    with io.open_output(f"{root}/t.parquet") as output:
        pq.write_table(rows, output, row_group_size=20_000)
    with io.open_input(f"{root}/t.parquet") as source:
        file = pq.ParquetFile(source, pre_buffer=True)
        assert file.metadata.num_row_groups == 10
        assert file.read_row_group(3, columns=["id"])["id"].to_pylist() == list(range(60_000, 80_000))
        assert file.read().equals(rows)


def test_a_file_is_prefetched_by_concurrent_requests(root: str) -> None:
    io = opened(root)
    content = os.urandom(20 * WHOLE_BYTES)
    with io.open_output(f"{root}/f") as output:
        output.write(content)
    with io.open_input(f"{root}/f") as source:
        assert isinstance(source, PrefetchingInput)
        source.prefetch(whole_file(len(content)))
        assert source.read() == content
    limits = {"store.read-ahead": "0"}
    with opened(root, limits).open_input(f"{root}/f") as source:
        source.seek(3)
        assert source.read(7 * WHOLE_BYTES) == content[3 : 3 + 7 * WHOLE_BYTES]


def test_a_file_deleted_while_it_is_read_is_reported_as_missing(root: str) -> None:
    io = opened(root)
    with io.open_output(f"{root}/f") as output:
        output.write(b"x")
    io.delete(f"{root}/f")
    assert isinstance(io.read_error(f"{root}/f", RuntimeError('DataTransferError("gone")')), FileNotFoundError)


def test_a_file_can_be_read_completely_right_after_close(root: str) -> None:
    # This HDFS closes files before the data nodes have reported their last block.
    io = opened(root)
    for number in range(60):
        content = bytes([number]) * 512 * (number % 3)
        io.overwrite(f"{root}/f", content)
        assert io.read_bytes(f"{root}/f") == content
        with io.open_input(f"{root}/f") as source:
            assert source.size() == len(content)


def test_names_are_taken_literally(root: str) -> None:
    io = opened(root)
    path = f"{root}/dt=a%2Fb c/ü#?.orc"
    with io.open_output(path) as output:
        output.write(b"1")
    assert [status.path for status in io.list(f"{root}/dt=a%2Fb c")] == [path]
    assert io.read_bytes(path) == b"1"


def test_a_forked_process_and_an_unpickled_file_io_have_clients_of_their_own(root: str) -> None:
    io = opened(root)
    io.overwrite(f"{root}/f", b"before")
    child = os.fork()
    if child == 0:
        try:
            io.overwrite(f"{root}/f", b"of the child")
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert pickle.loads(pickle.dumps(io)).read_bytes(f"{root}/f") == b"of the child"


# -- refusals ------------------------------------------------------------------------------------------------------


def test_reading_a_directory_and_listing_a_file_are_refused(root: str) -> None:
    io = opened(root)
    io.overwrite(f"{root}/f", b"1")
    with pytest.raises(StorageAccessError, match=f"Can't read {root}: it is a directory"):
        io.read_bytes(root)
    with pytest.raises(StorageAccessError, match="it is a file"):
        io.list(f"{root}/f")
    with pytest.raises(StorageAccessError, match="the directory is not empty"):
        io.delete(root)
    with pytest.raises(StorageAccessError, match="is not a path of this file system"):
        io.exists("hdfs://elsewhere:1/x")


def test_the_error_names_an_unreachable_name_node(hdfs: HdfsServer) -> None:
    io = opened("hdfs://127.0.0.1:9/lake", QUICK)
    with pytest.raises(StorageAccessError, match=r"Can't look up hdfs://127\.0\.0\.1:9/lake.* does not answer"):
        io.exists("hdfs://127.0.0.1:9/lake")


def test_the_error_names_a_standby_and_how_to_reach_the_active_name_node(hdfs: HdfsServer) -> None:
    io = opened(f"{hdfs.standby_uri}/lake", QUICK)
    with pytest.raises(StorageAccessError, match=r"is a standby\. Name the nameservice"):
        io.list(f"{hdfs.standby_uri}/lake")


def test_the_error_names_an_unknown_nameservice() -> None:
    io = opened("hdfs://nowhere/lake")
    with pytest.raises(StorageAccessError, match=r"no name node of the nameservice 'nowhere' is known\. Set hadoop"):
        io.exists("hdfs://nowhere/lake")


PROGRAM = """
import sys
from interbed.storage.io.resolve import file_io_for
io, path = file_io_for(sys.argv[1])
try:
    io.create_exclusive(path + "/by-alice", b"")
except OSError as error:
    print(error)
"""


def test_the_error_of_a_missing_permission_names_the_user(root: str) -> None:
    opened(root).make_directories(root)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, root],
        env={**os.environ, "HADOOP_USER_NAME": "alice"},
        capture_output=True,
        text=True,
        check=True,
        timeout=at_most(60),
    )
    assert f"Can't write {root}/by-alice: permission denied: user=alice, access=WRITE" in done.stdout
    assert "HADOOP_USER_NAME" in done.stdout
    assert done.stdout.count("\n") == 1


def test_the_error_mentions_safe_mode(hdfs: HdfsServer, root: str) -> None:
    io = opened(root)
    io.overwrite(f"{root}/f", b"1")
    hdfs.send("safe mode")
    try:
        with pytest.raises(StorageAccessError, match="is in safe mode"):
            io.overwrite(f"{root}/f", b"2")
    finally:
        hdfs.send("leave safe mode")
    assert io.read_bytes(f"{root}/f") == b"1"


# -- settings ------------------------------------------------------------------------------------------------------


def site(directory: Path, settings: dict[str, str]) -> str:
    properties = "".join(
        f"<property><name>{k}</name><value>{escape(v)}</value></property>" for k, v in settings.items()
    )
    directory.mkdir(parents=True)
    (directory / "hdfs-site.xml").write_text(f"<configuration>{properties}</configuration>")
    return str(directory)


@pytest.fixture
def without_hadoop(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("without_hadoop")
@pytest.mark.parametrize("way", ["hadoop-conf-dir", "hive-conf-dir", "HADOOP_CONF_DIR", "HADOOP_HOME", "hadoop.", ""])
def test_a_nameservice_is_found_by_each_location_of_the_configuration(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    options: dict[str, str] = {}
    match way:
        case "hadoop-conf-dir" | "hive-conf-dir":
            options = {way: site(tmp_path / "conf", hdfs.settings)}
        case "HADOOP_CONF_DIR":
            monkeypatch.setenv(way, site(tmp_path / "conf", hdfs.settings))
        case "HADOOP_HOME":
            site(tmp_path / "etc" / "hadoop", hdfs.settings)
            monkeypatch.setenv(way, str(tmp_path))
        case _:
            options = {f"{way}{key}": value for key, value in hdfs.settings.items()}
    path = f"hdfs://{NAMESERVICE}/{uuid.uuid4()}"
    io = opened(path, options)
    assert io.create_exclusive(f"{path}/f", b"1")
    assert io.read_bytes(f"{path}/f") == b"1"


def test_a_missing_configuration_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match=r"hadoop-conf-dir='.*/no': there is no such directory"):
        opened("hdfs://lake/x", {"hadoop-conf-dir": f"{tmp_path}/no"})


@pytest.mark.long
def test_the_client_follows_a_fail_over(hdfs: HdfsServer) -> None:
    path = f"hdfs://{NAMESERVICE}/{uuid.uuid4()}"
    io = opened(path, hdfs.settings)
    for number in range(4):
        assert io.create_exclusive(f"{path}/snapshot-{number}", b"%d" % number)
        hdfs.send("fail over")
        assert not io.create_exclusive(f"{path}/snapshot-{number}", b"other")
        assert io.read_bytes(f"{path}/snapshot-{number}") == b"%d" % number
    assert names(io, path) == [f"snapshot-{number}" for number in range(4)]


def test_new_files_respect_hadoops_umask(hdfs: HdfsServer, root: str) -> None:
    io = opened(root, {"hadoop.fs.permissions.umask-mode": "077"})
    io.overwrite(f"{root}/f", b"1")
    inner = root.removeprefix(hdfs.uri)
    assert io._client is not None
    assert oct(io._client.get_file_info(f"{inner}/f").permission) == "0o600"
    with pytest.raises(InvalidOptionError, match="octal"):
        opened(root, {"hadoop.fs.permissions.umask-mode": "u=rwx"})


# -- logins by Kerberos --------------------------------------------------------------------------------------------


def test_an_incomplete_login_is_refused_by_name(tmp_path: Path) -> None:
    keytab, principal = "security.kerberos.login.keytab", "security.kerberos.login.principal"
    (tmp_path / "keys").write_bytes(b"")
    for options, message in (
        ({keytab: str(tmp_path / "keys")}, rf"'{keytab}' needs '{principal}'"),
        ({keytab: str(tmp_path / "absent"), principal: "ann@EXAMPLE.ORG"}, "names a file that can't be read"),
        ({"security.kerberos.login.use-ticket-cache": "false"}, r"use-ticket-cache' is false; give the options"),
    ):
        with pytest.raises(InvalidOptionError, match=message):
            opened("hdfs://absent:8020/lake", options)


def test_errors_of_kerberos_name_the_way_out() -> None:
    ticket = RuntimeError('GSSAPIError(GssMajorCodes { raw: "0x7" }, 2529639053, "No credentials: No cache found")')
    refused = RuntimeError('FatalRPCError("javax.security.sasl.SaslException", "GSS initiate failed")')
    hung_up = OSError("RPC listener disconnected")
    texts = [str(translated(error, "read", "hdfs://nn/a", "nn")) for error in (ticket, refused, hung_up)]
    assert "there is no ticket of Kerberos for the name node (No cache found). Run kinit" in texts[0]
    assert "does not accept the ticket of Kerberos (GSS initiate failed)" in texts[1]
    assert "closes the connection. See that it runs; if it asks for Kerberos, set hadoop.security" in texts[2]
