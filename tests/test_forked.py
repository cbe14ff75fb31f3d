"""Programs that start from a prepared process behave as programs of a new interpreter."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers.forked import start_python
from tests.support.waits import at_most

PROGRAM = """
import atexit, json, os, resource, sys, threading
atexit.register(print, "at exit")
def work():
    threading.main_thread().join()
    print("thread")
threading.Thread(target=work, daemon=sys.argv[1] == "wait").start()
print(json.dumps({
    "name": __name__, "arguments": sys.argv[1:], "directory": os.getcwd(), "is_leader": os.getsid(0) == os.getpid(),
    "environment": {name: os.environ[name] for name in os.environ if name.startswith("INTERBED_SHOWN")},
    "files_max": resource.getrlimit(resource.RLIMIT_NOFILE)[0], "umask": os.umask(0),
    "descriptors": len(os.listdir("/proc/self/fd")),
}), flush=True)
print("a warning", file=sys.stderr)
what = sys.argv[1]
if what == "raise":
    raise ValueError("wrong")
if what == "wait":
    while True:
        threading.Event().wait()
sys.exit(int(what) if what.isdigit() else what)
"""


@pytest.fixture(params=[False, True], ids=["prepared", "new interpreter"])
def is_new(request: pytest.FixtureRequest) -> bool:
    """Return whether the program gets a new interpreter, which behaves as the prepared process has to."""
    return bool(request.param)


def started(directory: Path, is_new: bool, *arguments: str) -> "subprocess.Popen[str]":
    """Start the program, its errors in a file; a variable of the interpreter asks for a new one."""
    (directory / "program_of_test.py").write_text(PROGRAM)
    environment = {**os.environ, "INTERBED_SHOWN": "ü"} | ({"PYTHONSAFEPATH": ""} if is_new else {})
    with (directory / "errors").open("wb") as errors:
        return start_python(
            [sys.executable, "-m", "program_of_test", *arguments],
            stdout=subprocess.PIPE,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            text=True,
            env=environment,
            start_new_session=True,
        )


@pytest.mark.parametrize(
    ("argument", "code", "error"), [("0", 0, ""), ("7", 7, ""), ("no", 1, "no\n"), ("raise", 1, "ValueError: wrong\n")]
)
def test_a_program_has_its_arguments_streams_and_exit_code(
    argument: str, code: int, error: str, is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard))
    umask = os.umask(0o027)
    try:
        process = started(tmp_path, is_new, argument, "two words")
    finally:
        os.umask(umask)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert process.stdout is not None
    with process.stdout as output:
        lines = output.read().splitlines()
    assert process.wait(timeout=at_most(60)) == code
    assert process.poll() == process.returncode == code
    shown = json.loads(next(line for line in lines if line.startswith("{")))
    assert shown.pop("descriptors") == 4, "the standard streams, and the directory that is listed"
    assert shown == {
        "name": "__main__",
        "arguments": [argument, "two words"],
        "directory": str(tmp_path),
        "is_leader": True,
        "files_max": 500,
        "umask": 0o027,
        "environment": {"INTERBED_SHOWN": "ü"},
    }
    assert lines[-2:] == ["thread", "at exit"]
    errors = (tmp_path / "errors").read_text()
    assert errors.startswith("a warning\n")
    assert errors.endswith(error)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_running_program_is_ended_by_signals(
    number: signal.Signals, is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    process = started(tmp_path, is_new, "wait")
    assert process.stdout is not None
    with process.stdout as output:
        while not output.readline().startswith("{"):
            pass
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.01)
        process.send_signal(number)
        code = process.wait(timeout=at_most(60))
    assert code == -number
    process.kill()
