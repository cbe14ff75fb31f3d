"""The scratch directory of a process: it is removed with the process, however that ends, and no other process removes
it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io import scratch
from interbed.storage.io.scratch import PREFIX, ScratchDirectory, new_scratch_directory
from tests.support.waits import at_most

DEADLINE_SECONDS = at_most(60)


def run(program: str, temporary: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={"PYTHONPATH": ":".join(p for p in sys.path if p), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )


def left(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


def test_a_process_has_one_directory_and_removes_it_on_exit(tmp_path: Path) -> None:
    program = """
        from interbed.storage.io.scratch import new_scratch_directory
        first, second = new_scratch_directory("spill"), new_scratch_directory("lookup")
        (first / "file").write_text("x")
        assert first.parent == second.parent and first != second
        print(first)
    """
    process = run(program, tmp_path)
    output, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    assert Path(output.strip()).parent.parent == tmp_path
    assert left(tmp_path) == []


def test_the_directory_of_a_killed_process_is_removed_by_the_next_process(tmp_path: Path) -> None:
    program = """
        import sys
        from interbed.storage.io.scratch import new_scratch_directory
        (new_scratch_directory("spill") / "file").write_text("x" * 1000)
        print("ready", flush=True)
        sys.stdin.read()
    """
    killed, living = run(program, tmp_path), run(program, tmp_path)
    try:
        for process in (killed, living):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        assert len(left(tmp_path)) == 4
        killed.send_signal(signal.SIGKILL)
        killed.communicate(timeout=DEADLINE_SECONDS)
        next_one = ScratchDirectory(tmp_path)
        # The lock and the directory of the running process, and the lock of the new one, which has made no directory
        # yet.
        assert len(left(tmp_path)) == 3
        next_one.close()
        assert len(left(tmp_path)) == 2
        assert [len(list(p.rglob("file"))) for p in tmp_path.iterdir() if p.is_dir()] == [1]
    finally:
        for process in (killed, living):
            process.communicate("", timeout=DEADLINE_SECONDS)
    assert left(tmp_path) == []


def test_a_forked_process_has_a_directory_of_its_own(tmp_path: Path) -> None:
    program = """
        import os
        from interbed.storage.io.scratch import new_scratch_directory
        parent = new_scratch_directory("spill")
        child = os.fork()
        if not child:
            assert new_scratch_directory("spill").parent != parent.parent
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert parent.exists()
    """
    process = run(program, tmp_path)
    process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    # The child ended without cleanup, as forked workers do.
    assert all(name.startswith(PREFIX) for name in left(tmp_path))
    ScratchDirectory(tmp_path).close()
    assert left(tmp_path) == []


def test_the_error_names_a_missing_directory_for_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scratch, "_own", None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageAccessError, match=r"gone.*TMPDIR"):
        new_scratch_directory("spill")


def test_a_directory_that_was_cleaned_up_is_created_again(tmp_path: Path) -> None:
    own = ScratchDirectory(tmp_path)
    own.new_directory("spill").rmdir()
    os.rmdir(own.path)
    assert own.new_directory("spill").exists()
    own.close()


def test_a_directory_whose_parent_is_gone_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch, "_own", None)
    before = tmp_path / "before"
    before.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(before))
    assert new_scratch_directory("spill").is_relative_to(before)
    shutil.rmtree(before)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    made = new_scratch_directory("spill")
    assert made.is_dir()
    assert made.parent.parent == tmp_path
