"""Python programs that start from a prepared process, in a tenth of the time of a new interpreter.

A new interpreter needs more than a second for the imports of a server. A starter is a process that imports
them once for each test worker. It forks a child for each program. Arguments, environment, directory, limits and
streams are those of the caller. The module runs as `python -m` runs it, and the process ends as an interpreter does.
Other processes see the command line and the first environment of the starter.

Tests about the start itself, about command lines or about the environment of an interpreter use `subprocess.Popen`.
"""

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

ROOT = Path(__file__).resolve().parents[3]

SERVER = "interbed.catalog.server.process.main"

PREPARED = {
    "server": (
        SERVER,
        "interbed.catalog.server.process.command",
        "interbed.catalog.server.ops.logs",
        "interbed.catalog.server.ops.vital_signs",
        "interbed.catalog.server.ops.health",
        "interbed.catalog.server.http.application",
        "interbed.catalog.server.http.thrift",
        "interbed.catalog.server.rest.mounted",
    ),
    "command": (
        "interbed.cli",
        "interbed.optimizer.service.service",
        "interbed.ingest.job",
        "interbed.ingest.cli.sources",
        "interbed.catalog.server.database.schema",
    ),
}
"""Modules that the starter of servers imports, and that of other programs, with all that they import. Servers start
without Arrow and its threads.
"""

_INTERPRETER_PREFIXES = ("PYTHON", "LD_", "COVERAGE", "MALLOC_", "ARROW_", "OMP_", "OPENBLAS_", "INTERBED_TEST_")
"""Beginnings of the names of variables that act when an interpreter starts, or when a module is imported."""


def _is_early(name: str) -> bool:
    return name.startswith(_INTERPRETER_PREFIXES)


def _interpreter_variables(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if _is_early(name)}


_USUAL = _interpreter_variables(os.environ)
"""The variables with which the starters start, whatever a test has set when it needs the first program."""

_MESSAGE_BYTES_MAX = 1 << 17

_LIMITS = [value for name, value in vars(resource).items() if name.startswith("RLIMIT_")]


def start_python(
    command: Sequence[str],
    *,
    stdout: int | IO[Any] | None = None,
    stderr: int | IO[Any] | None = None,
    stdin: int | IO[Any] | None = None,
    text: bool = False,
    bufsize: int = -1,
    env: Mapping[str, str] | None = None,
    start_new_session: bool = False,
) -> "subprocess.Popen[Any]":
    """Start `python -m module arguments` as `subprocess.Popen` does, from the prepared process where that is possible;
    it then has a session of its own and no input.

    A command that is not `sys.executable -m`, that has an input, or whose environment acts on the interpreter gets an
    interpreter of its own.
    """
    environment = dict(os.environ if env is None else env)
    arguments = list(command)
    is_plain = stdin in (None, subprocess.DEVNULL) and arguments[:2] == [sys.executable, "-m"]
    if sys.platform == "linux" and is_plain and _interpreter_variables(environment) == _USUAL:
        return _ForkedProcess(_starter(_kind(arguments)), arguments, environment, stdout, stderr, text, bufsize)
    return subprocess.Popen(
        arguments,
        stdout=stdout,
        stderr=stderr,
        stdin=stdin,
        text=text,
        bufsize=bufsize,
        env=environment,
        start_new_session=start_new_session,
    )


def _kind(command: Sequence[str]) -> str:
    return "server" if command[2] == SERVER else "command"


class _ProgramStarter:
    """The prepared process, and the socket over which it gets the programs to start."""

    def __init__(self, kind: str) -> None:
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, kind, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd=ROOT,
                env=_USUAL | {name: value for name, value in os.environ.items() if not _is_early(name)},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        atexit.register(self._end)

    def start(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        """Start a program with these descriptors, and return the id of its process."""
        message = json.dumps(request).encode()
        assert len(message) < _MESSAGE_BYTES_MAX
        with self._lock:
            socket.send_fds(self._socket, [message], descriptors)
            answer = self._socket.recv(64)
        if not answer:
            raise RuntimeError("the process that starts the programs of the tests has ended")
        return int(answer)

    def _end(self) -> None:
        self._socket.close()
        self._process.wait()


@cache
def _starter(kind: str) -> _ProgramStarter:
    return _ProgramStarter(kind)


class _ForkedProcess(subprocess.Popen[Any]):
    """A process that the starter forked: its parent is not this process, and its exit code comes through a pipe."""

    def __init__(
        self,
        starter: _ProgramStarter,
        command: Sequence[str],
        environment: Mapping[str, str],
        stdout: int | IO[Any] | None,
        stderr: int | IO[Any] | None,
        text: bool,
        bufsize: int,
    ) -> None:
        # Not the constructor of Popen, which starts a process.
        self.args = list(command)
        self.stdin = self.stdout = self.stderr = None
        self.returncode = None
        self._status_lock = threading.Lock()
        self._status, status_of_child = os.pipe()
        own = [status_of_child]
        try:
            if stdout == subprocess.PIPE:
                output, of_child = os.pipe()
                own.append(of_child)
                mode = {"encoding": "utf-8"} if text else {}
                self.stdout = open(output, "r" if text else "rb", bufsize, **mode)  # type: ignore[call-overload]  # noqa: SIM115
            else:
                of_child = _descriptor(stdout, 1, own)
            errors = of_child if stderr == subprocess.STDOUT else _descriptor(stderr, 2, own)
            request = {
                "command": self.args[2:],
                "environment": dict(environment),
                "directory": os.getcwd(),
                "limits": [(number, *resource.getrlimit(number)) for number in _LIMITS],
                "umask": _umask(),
            }
            self.pid = starter.start(request, [of_child, errors, status_of_child])
        finally:
            for descriptor in own:
                os.close(descriptor)

    def poll(self) -> int | None:
        """Return the exit code, None while the process runs."""
        return self._ended(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end of the process and return its exit code. Raises subprocess.TimeoutExpired."""
        code = self._ended(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while self.returncode is None:
            with self._status_lock:
                if self.returncode is None and select.select([self._status], [], [], 0.0)[0]:
                    text = os.read(self._status, 64)
                    os.close(self._status)
                    # Without a text the starter has died before the process.
                    self.returncode = int(text) if text else -signal.SIGKILL
                    break
            left = 0.1 if deadline is None else min(0.1, deadline - time.monotonic())
            if left <= 0:
                return self.returncode
            with suppress(OSError, ValueError):
                # Another thread may have read the status and closed it.
                select.select([self._status], [], [], left)
        return self.returncode


def _descriptor(stream: int | IO[Any] | None, inherited: int, own: list[int]) -> int:
    """Return the descriptor of a stream of the program; one that is opened for it is added to `own`."""
    if stream is None:
        return inherited
    if stream == subprocess.DEVNULL:
        own.append(os.open(os.devnull, os.O_WRONLY))
        return own[-1]
    return stream if isinstance(stream, int) else stream.fileno()


def _umask() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("Umask:")[2].split()[0], 8)


def _prepare(kind: str, control: socket.socket) -> list[str] | None:
    """Start children until the socket ends. Returns the command in a child, None in the starter."""
    for module in PREPARED[kind]:
        importlib.import_module(module)
    # Collections in the children would visit, and so copy, what was imported.
    gc.collect()
    gc.freeze()
    wakeup, wake = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    statuses: dict[int, int] = {}
    while True:
        ready = select.select([control.fileno(), wakeup], [], [])[0]
        if wakeup in ready:
            with suppress(BlockingIOError):
                os.read(wakeup, 4096)
            _report_ended(statuses)
        if control.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(control, _MESSAGE_BYTES_MAX, 3)
        if not message:
            return None
        request = json.loads(message)
        output, errors, status = descriptors
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for descriptor in (wakeup, wake, status, *statuses.values()):
                os.close(descriptor)
            control.close()
            _become(request, output, errors)
            command: list[str] = request["command"]
            return command
        statuses[pid] = status
        os.close(output)
        os.close(errors)
        control.send(str(pid).encode())


def _report_ended(statuses: dict[int, int]) -> None:
    for pid, status in list(statuses.items()):
        found, code = os.waitpid(pid, os.WNOHANG)
        if found == pid:
            with suppress(BrokenPipeError):
                os.write(status, str(os.waitstatus_to_exitcode(code)).encode())
            os.close(status)
            del statuses[pid]


def _become(request: Mapping[str, Any], output: int, errors: int) -> None:
    """Make this child what a new interpreter would be: session, streams, directory, environment."""
    os.setsid()
    os.dup2(output, 1)
    os.dup2(errors, 2)
    os.close(output)
    os.close(errors)
    os.chdir(request["directory"])
    os.umask(request["umask"])
    for number, soft, hard in request["limits"]:
        resource.setrlimit(number, (soft, hard))
    os.environ.clear()
    os.environ.update(request["environment"])
    time.tzset()


def _run(command: Sequence[str]) -> NoReturn:
    """Run the module as `python -m` does, and end the process. Its modules are not torn down, one by one: that takes
    longer than all that a server does in most tests.
    """
    module, *arguments = command
    sys.argv = [module, *arguments]
    sys.path[0] = os.getcwd()
    # The module is executed as the main program, whether it has been imported or not.
    sys.modules.pop(module, None)
    code: object = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except KeyboardInterrupt:
        traceback.print_exc()
        code = -signal.SIGINT
    except BaseException:  # noqa: BLE001 # Reported as an interpreter reports it, whatever it is.
        traceback.print_exc()
        code = 1
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # Waits for the other threads, as an interpreter does.
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    if code == -signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code or 0)


def main() -> None:
    """Prepare, and run a program in each child."""
    with socket.socket(fileno=int(sys.argv[2])) as control:
        command = _prepare(sys.argv[1], control)
    if command is not None:
        _run(command)


if __name__ == "__main__":
    main()
