"""A fork server for tests: a process that forks workers, each of which works on a table until it is done or killed by
SIGKILL.

`python -m tests.storage.table.crashes.fork_server <location>` reads a round of jobs from each line of its input, a JSON
list, starts all of them at once, and writes their messages line by line: `begin` before an operation, then `done`,
`refused` (nothing happened) or `unknown`; at last `over` with the exit codes. A job with `calls` kills itself before
that many-th call that changes the file system; one with `millis` is killed at that time.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import interbed
from interbed.storage.base.errors import CommitStateUnknownError, InterbedError
from interbed.storage.table.table import Table

SCHEMA = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.int64())))
SPACE = 1_000_000
"""Keys of worker n begin at n * SPACE; no other worker writes them."""

_CHANGING = frozenset({"os.link", "os.rename", "os.remove", "os.mkdir", "os.rmdir"})
Say = Callable[..., None]


def main() -> None:
    """Run rounds until the end of the input."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for line in sys.stdin:
        jobs: list[dict[str, Any]] = json.loads(line)
        started = time.monotonic()
        pids = {_start(sys.argv[1], job): job for job in jobs}
        codes: dict[int, int] = {}
        while len(codes) < len(pids):
            ends = [started + job["millis"] / 1000 for pid, job in pids.items() if "millis" in job and pid not in codes]
            signal.sigtimedwait({signal.SIGCHLD}, max(min(ends, default=started + 60) - time.monotonic(), 0))
            for pid, job in pids.items():
                if pid not in codes and time.monotonic() >= started + job.get("millis", 60_000) / 1000:
                    os.kill(pid, signal.SIGKILL)
                if pid not in codes and (ended := os.waitpid(pid, os.WNOHANG))[0]:
                    codes[pid] = os.waitstatus_to_exitcode(ended[1])
        _write({"over": list(codes.values())})


def _start(location: str, job: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if "calls" in job:
            _die_at(job["calls"])
        work(interbed.load_table(location), job)
        code = 0
    finally:
        if code:
            _write({"worker": job["worker"], "event": "failed", "what": f"{sys.exc_info()[1]!r}"})
        os._exit(code)


def _die_at(calls: int) -> None:
    count = 0

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal count
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if event in _CHANGING or writes:
            count += 1
            if count > calls:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def _write(message: dict[str, Any]) -> None:
    # One call, so that lines of several processes do not mix.
    os.write(1, f"{json.dumps(message)}\n".encode())


def work(table: Table, job: dict[str, Any]) -> None:
    """Run the operations of a job, one after the other, and report each."""
    chance = random.Random(job["seed"])
    worker = _Worker(table, job["worker"], {int(key): value for key, value in job["rows"].items()}, job["next"])
    for _ in range(job["operations"]):
        name, facts, act = worker.choose(chance) if "lone" not in job else worker.lone(job["lone"])
        _write({"worker": job["worker"], "event": "begin", "what": name, **facts})
        event, more = "done", {}
        try:
            more = act() or {}
        except CommitStateUnknownError:
            event = "unknown"
        except InterbedError as error:
            event, more = "refused", {"error": f"{type(error).__name__}: {error}"}
        else:
            worker.take(facts)
        _write({"worker": job["worker"], "event": event, "what": name, **more})


Action = Callable[[], dict[str, Any] | None]
Choice = tuple[str, dict[str, Any], Action]


class _Worker:
    """A worker process; `rows` are the rows of its own keys."""

    def __init__(self, table: Table, number: int, rows: dict[int, int], following: int) -> None:
        self.table = table
        self.number = number
        self.rows = rows
        self.following = following

    def take(self, facts: dict[str, Any]) -> None:
        """Record the new rows of the worker's own keys."""
        if "rows" in facts:
            self.rows = {int(key): value for key, value in facts["rows"].items()}

    def choose(self, chance: random.Random) -> Choice:
        """Choose the next operation at random."""
        kinds = [self.write] * 5 + [self.delete] * 2 + [self.compact, self.expire, self.tag, self.tag, self.branch]
        return chance.choice([*kinds, self.drop_tag, self.drop_branch, self.alter, self.statistics])(chance)

    def lone(self, version: str) -> Choice:
        """Return an operation that must run alone: going back to a version, or forward to a branch."""

        def act() -> None:
            if version.startswith("branch "):
                self.table.versions.fast_forward(version.removeprefix("branch "))
            else:
                self.table.versions.rollback_to(int(version) if version.isdigit() else version)

        return "go back", {"version": version}, act

    def write(self, chance: random.Random) -> Choice:
        """Write new keys, and in tables with a primary key also new values of old keys."""
        value = self._number()
        keys = [self.number * SPACE + value]
        if self.table.primary_keys:
            keys += chance.sample(sorted(self.rows), min(2, len(self.rows)))
        new = pa.table({"id": keys, "v": [value] * len(keys)}, schema=SCHEMA)
        return (
            "write",
            _rows({**self.rows, **dict.fromkeys(keys, value)}),
            lambda: _nothing(lambda: self.table.append(new)),
        )

    def delete(self, chance: random.Random) -> Choice:
        """Delete one row of the worker's own keys."""
        gone = chance.choice([*self.rows, -1])
        left = {key: value for key, value in self.rows.items() if key != gone}
        return "delete", _rows(left), lambda: _nothing(lambda: self.table.delete(f"id = {gone}"))

    def compact(self, chance: random.Random) -> Choice:
        full = chance.random() < 0.5
        return "compact", {}, lambda: _nothing(lambda: self.table.compact(full=full))

    def expire(self, chance: random.Random) -> Choice:
        left = chance.randint(1, 4)
        later = time.time() + 86_400
        return (
            "expire",
            {},
            lambda: _nothing(
                lambda: self.table.maintenance.expire_snapshots(retain_max=left, retain_min=1, clock=lambda: later)
            ),
        )

    def tag(self, chance: random.Random) -> Choice:
        name = f"tag-{self.number}-{self._number()}"
        return "tag", {"name": name}, lambda: {"snapshot": self.table.versions.create_tag(name).snapshot.id}

    def branch(self, chance: random.Random) -> Choice:
        name = f"branch{self.number}x{self._number()}"
        tag = chance.choice([tag.name for tag in self.table.versions.tags()] or ["none"])
        return (
            "branch",
            {"name": name, "tag": tag},
            lambda: _nothing(lambda: self.table.versions.create_branch(name, tag)),
        )

    def drop_tag(self, chance: random.Random) -> Choice:
        own = [tag.name for tag in self.table.versions.tags() if tag.name.startswith(f"tag-{self.number}-")]
        name = chance.choice(own or ["none"])
        return "drop tag", {"name": name}, lambda: _nothing(lambda: self.table.versions.delete_tag(name))

    def drop_branch(self, chance: random.Random) -> Choice:
        own = [name for name in self.table.versions.branches() if name.startswith(f"branch{self.number}x")]
        name = chance.choice(own or ["none"])
        return "drop branch", {"name": name}, lambda: _nothing(lambda: self.table.versions.delete_branch(name))

    def alter(self, chance: random.Random) -> Choice:
        column = f"c{self.number}x{self._number()}"
        return (
            "alter",
            {"name": column},
            lambda: _nothing(lambda: self.table.update_schema().add_column(column, "INT").commit()),
        )

    def statistics(self, chance: random.Random) -> Choice:
        return "analyze", {}, lambda: _nothing(lambda: self.table.maintenance.analyze(["v"]))

    def _number(self) -> int:
        self.following += 1
        return self.following


def _rows(rows: dict[int, int]) -> dict[str, Any]:
    return {"rows": {str(key): value for key, value in rows.items()}}


def _nothing(work: Callable[[], object]) -> None:
    """Run the operation, and drop its result."""
    work()


if __name__ == "__main__":
    main()
