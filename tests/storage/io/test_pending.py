"""Files whose last bytes are uploaded while their writer continues: complete after finish, or named in the error."""

import threading
from pathlib import Path
from typing import Any

import pytest

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import abort_output
from interbed.storage.io.parallel import PendingFiles
from tests.support.paced_files import PacedFiles
from tests.support.waits import at_most

SECONDS_MAX = at_most(60)


class GatedFiles(PacedFiles):
    """Files whose outputs close when the gate opens; `broken` ones fail at that point."""

    def __init__(self, root: Path) -> None:
        super().__init__("s3://lake", root)
        self.gate = threading.Event()
        self.closing = threading.Semaphore(0)
        self.broken: set[str] = set()

    def ending(self, path: str) -> None:
        self.closing.release()
        assert self.gate.wait(SECONDS_MAX)
        if path in self.broken:
            raise OSError(5, "the line is cut")


@pytest.fixture
def files(tmp_path: Path) -> GatedFiles:
    return GatedFiles(tmp_path)


def written(pending: PendingFiles, name: str) -> str:
    path = f"s3://lake/{name}"
    with pending.open_output(path) as output:
        output.write(name.encode())
        assert output.tell() == len(name)
    return path


def test_files_exist_after_finish(files: GatedFiles) -> None:
    pending = PendingFiles(files, 2)
    paths = [written(pending, name) for name in ("a", "b")]
    for _ in paths:
        assert files.closing.acquire(timeout=SECONDS_MAX)
    assert [files.exists(path) for path in paths] == [False, False]
    files.gate.set()
    pending.finish()
    assert [files.read_bytes(path) for path in paths] == [b"a", b"b"]


def test_the_number_of_concurrent_closes_is_limited(files: GatedFiles) -> None:
    pending = PendingFiles(files, 1)
    written(pending, "a")
    third = threading.Thread(target=written, args=(pending, "b"))
    third.start()
    assert files.closing.acquire(timeout=SECONDS_MAX)
    assert not files.closing.acquire(blocking=False)
    files.gate.set()
    third.join(SECONDS_MAX)
    pending.finish()
    assert files.exists("s3://lake/b")


def test_the_error_names_a_file_that_could_not_be_closed_and_the_others_exist(files: GatedFiles) -> None:
    pending = PendingFiles(files, 2)
    files.broken.add("s3://lake/a")
    for name in ("a", "b"):
        written(pending, name)
    files.gate.set()
    with pytest.raises(StorageAccessError, match="Can't write s3://lake/a: the line is cut"):
        pending.finish()
    assert (files.exists("s3://lake/a"), files.exists("s3://lake/b")) == (False, True)


@pytest.mark.parametrize("way", ["delete", "delete_quietly", "read_bytes", "size", "exists", "open_input"])
def test_access_to_a_pending_file_waits_for_it(files: GatedFiles, way: str) -> None:
    pending = PendingFiles(files, 2)
    path = written(pending, "a")
    found: list[Any] = []
    asking = threading.Thread(
        target=lambda: found.append(getattr(pending, way)([path] if way == "delete_quietly" else path))
    )
    asking.start()
    assert files.closing.acquire(timeout=SECONDS_MAX)
    assert found == []
    files.gate.set()
    asking.join(SECONDS_MAX)
    pending.settle()
    assert files.exists(path) == (not way.startswith("delete"))
    assert way == "delete_quietly" or found[0]


def test_an_abandoned_output_never_becomes_visible(files: GatedFiles) -> None:
    files.gate.set()
    pending = PendingFiles(files, 2)
    for name, end in (("a", abort_output), ("b", lambda output: output.__exit__(ValueError, ValueError(), None))):
        output = pending.open_output(f"s3://lake/{name}")
        output.write(b"half")
        end(output)
        abort_output(output)
        output.close()
    pending.finish()
    assert files.list("s3://lake") == []
