"""Selection of the tests of a run: the tests of each run, or a share of the long tests.

`make test` runs every test without the mark `long`. `make test-long` (INTERBED_TEST_LONG=1) runs the tests that are
marked `long`, and the tests that try more there: those marked `longer`, and those with examples of Hypothesis.
INTERBED_TEST_SHARE selects a part of them:

    3/8        the third of eight shares
    commit/8   the share of the commit that is checked out; successive commits take successive shares
    date/8     the share of this day

The hash of its id alone decides to which share a test belongs, so eight successive runs cover all tests.
"""

import datetime
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.support.waits import at_most

LONG = os.environ.get("INTERBED_TEST_LONG") == "1"
"""Whether this is a run of the long tests."""

SHARE_VARIABLE = "INTERBED_TEST_SHARE"
GIT_TIMEOUT_SECONDS = at_most(60)

T = TypeVar("T")


class ShareError(Exception):
    """Error of an INTERBED_TEST_SHARE that does not name a share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunShare:
    """Share `number` (from 1) of `count` shares."""

    number: int
    count: int

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def holds(self, test_id: str) -> bool:
        """Return whether the test with this id belongs to the share."""
        digest = hashlib.sha256(test_id.encode()).digest()
        return int.from_bytes(digest[:8]) % self.count == self.number - 1


WHOLE = RunShare(number=1, count=1)


def share_of(text: str, commits: Callable[[], int], today: datetime.date) -> RunShare:
    """Return the share that `3/8`, `commit/8` or `date/8` names. Raises ShareError when the text names none.

    `commits` counts the commits up to the one that is checked out.
    """
    which, _, count_text = text.partition("/")
    count = int(count_text) if count_text.isascii() and count_text.isdigit() else 0
    if count < 1:
        raise _no_share(text)
    if which == "commit":
        return RunShare(number=commits() % count + 1, count=count)
    if which == "date":
        return RunShare(number=today.toordinal() % count + 1, count=count)
    number = int(which) if which.isascii() and which.isdigit() else 0
    if not 1 <= number <= count:
        raise _no_share(text)
    return RunShare(number=number, count=count)


def chosen_share(environment: Mapping[str, str], root: Path) -> RunShare:
    """Return the share that the environment names, for the working tree at `root`; by default all tests."""
    text = environment.get(SHARE_VARIABLE)
    if not text:
        return WHOLE
    return share_of(text, lambda: commit_count(root), datetime.datetime.now(datetime.UTC).date())


def commit_count(root: Path) -> int:
    """Return the number of commits up to the one that is checked out.

    In a shallow clone, which lacks most commits, return the first digits of its hash as a number.
    """
    if _git(root, "rev-parse", "--is-shallow-repository") == "true":
        return int(_git(root, "rev-parse", "HEAD")[:8], 16)
    return int(_git(root, "rev-list", "--count", "HEAD"))


def header(root: Path) -> str:
    """Return a line that names the tests of the run, and the command to repeat it."""
    if not LONG:
        return "tests: those of each run; `make test-long` runs the others"
    share = chosen_share(os.environ, root)
    return f"tests: long ones, share {share}; {SHARE_VARIABLE}={share} make test-long runs the same"


def taken(items: Sequence[pytest.Item], root: Path) -> list[pytest.Item]:
    """Return the tests of this run."""
    if not LONG:
        return [item for item in items if item.get_closest_marker("long") is None]
    share = chosen_share(os.environ, root)
    return [item for item in items if is_long(item) and share.holds(item.nodeid)]


def is_long(item: pytest.Item) -> bool:
    """Return whether `make test-long` runs the test: it is marked `long` or `longer`, or tries more examples there."""
    marked = any(item.get_closest_marker(name) is not None for name in ("long", "longer"))
    return marked or bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def mark_samples(items: Sequence[pytest.Item]) -> None:
    """Mark the parameters of tests with the mark `sample(n)` as `long`, except n of them, spread evenly."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sample") is not None:
            groups.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for group in groups.values():
        mark = group[0].get_closest_marker("sample")
        assert mark is not None
        every = [item for item in group if item.get_closest_marker("long") is None]
        kept = spread(len(every), *mark.args)
        for number, item in enumerate(every):
            if number not in kept:
                item.add_marker(pytest.mark.long)


def spread(count: int, wanted: int) -> set[int]:
    """Return `wanted` of the numbers below `count`, spread evenly from the first to the last one."""
    if wanted >= count:
        return set(range(count))
    return {round(i * (count - 1) / max(wanted - 1, 1)) for i in range(wanted)}


def each_run(values: Iterable[T], always: Callable[[T], bool]) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`; those that are not for each run get the mark `long`."""
    return [value if always(value) else _marked_long(value) for value in values]


def pairwise(*factors: Sequence[Any]) -> list[Any]:
    """Return parameters for `pytest.mark.parametrize`: the product of the factors, with a pairwise covering subset for
    each run. Parameters outside of the subset get the mark `long`.
    """
    every = list(product(*factors))
    chosen = covering(every)
    return each_run(every, lambda row: row in chosen)


def covering(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return a subset of the rows that covers every pair of values of two columns that occurs in any row."""
    pairs = {row: {((i, row[i]), (j, row[j])) for i, j in combinations(range(len(row)), 2)} for row in rows}
    missing = set().union(*pairs.values()) if rows else set()
    chosen: list[tuple[Any, ...]] = []
    while missing:
        # Greedy: the first of the rows with the most uncovered pairs.
        best = max(rows, key=lambda row: len(pairs[row] & missing))
        chosen.append(best)
        missing -= pairs[best]
    return chosen


def _marked_long(value: Any) -> Any:
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.long)


def _no_share(text: str) -> ShareError:
    return ShareError(f"{SHARE_VARIABLE}={text} names no share: write k/n with k from 1 to n, commit/n or date/n")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=GIT_TIMEOUT_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise ShareError(
            f"git {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}; "
            f"without a repository, set {SHARE_VARIABLE} to k/n or date/n"
        )
    return done.stdout.strip()
