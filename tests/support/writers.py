"""Processes that write into one table of a catalog, and checks of the table afterwards."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import interbed
from tests.catalog.writer_process import SCHEMA, SHARED_KEYS, TABLE, own_key
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = at_most(120)

Writer = subprocess.Popen[str]


def create_orders(catalog: interbed.Catalog, *, compacted: bool = False) -> interbed.Table:
    """Create the table of the writers. Unless they compact it (`compacted`), each commit is one snapshot."""
    catalog.create_database("shop")
    options = {"bucket": "2", "write-only": str(not compacted).lower()}
    return catalog.create_table(TABLE, SCHEMA, primary_keys=["id"], options=options)


@contextmanager
def writers(
    options: dict[str, str], numbers: Sequence[int], commits: int, faults: Sequence[str] = ()
) -> Iterator[list[Writer]]:
    """Start writers with these numbers, optionally each with its own fault; they are killed when the block ends."""
    started: list[Writer] = []
    try:
        for position, number in enumerate(numbers):
            fault = list(faults[position : position + 1])
            arguments = [json.dumps(options), str(number), str(commits), *fault]
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.catalog.writer_process", *arguments],
                    cwd=ROOT,
                    env={"PYTHONPATH": ":".join(p for p in sys.path if p)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        yield started
    finally:
        for writer in started:
            writer.kill()
            writer.communicate(timeout=DEADLINE_SECONDS)


def finished(writer: Writer) -> tuple[int, str, list[tuple[int, int]]]:
    """Return the exit code, the errors, and the number and snapshot id of each commit that the writer reported."""
    output, errors = writer.communicate(timeout=DEADLINE_SECONDS)
    commits = []
    # A line that a kill cut off is no report.
    for line in output.splitlines(keepends=True):
        if line.endswith("\n"):
            number, snapshot_id = line.split()
            commits.append((int(number), int(snapshot_id)))
    return writer.returncode, errors, commits


def own_keys(table: interbed.Table, snapshot_id: int | None = None) -> list[int]:
    """Return the keys of the writers' own rows, sorted, after checking that each shared row exists once."""
    column: Any = table.scan(columns=["id"], snapshot_id=snapshot_id).to_arrow()["id"]
    keys: list[int] = sorted(column.to_pylist())
    assert keys[: len(SHARED_KEYS)] == list(SHARED_KEYS)
    return keys[len(SHARED_KEYS) :]


def keys_of(commits: Sequence[tuple[int, int]], writer: int) -> set[int]:
    """Return the keys of a writer's own rows."""
    return {own_key(writer, number) for number, _ in commits}


def check_every_snapshot(table: interbed.Table) -> None:
    """Check that every snapshot exists, is readable, and holds the rows of the one before it and of one more commit."""
    ids = [s.id for s in table.snapshots()]
    assert ids == list(range(1, len(ids) + 1))
    before: set[int] = set()
    for snapshot_id in ids:
        now = own_keys(table, snapshot_id)
        assert len(now) == len(set(now)) == snapshot_id
        assert before < set(now)
        before = set(now)
