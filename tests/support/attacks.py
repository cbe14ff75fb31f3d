"""The attacks that tests make on the catalog server: tests with the mark `attack`, by kind.

    python -m tests.support.attacks [--run]

prints the number of cases of each kind, with `--run` after they have run. A case is one test with one set of
parameters; some of them try many inputs. None may get in, read or change what it must not.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

FOLDERS = ("tests/catalog/server",)

CASES_MIN = 300

KINDS = (
    "forged tokens",
    "SASL",
    "guessing",
    "request smuggling",
    "fuzzed connections before authentication",
    "paths and links",
    "SQL and filter injection",
    "log injection",
    "SSRF by the address of keys",
    "secrets in logs, errors, command lines and core dumps",
    "ways round privileges",
)
"""The kinds, each of which has cases."""


class AttackCollector:
    """A plugin of pytest that counts the tests with the mark by their kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the collected tests."""
        for item in session.items:
            mark = item.get_closest_marker("attack")
            if mark is not None:
                self.counts[str(mark.args[0])] += 1


def collected(*, runs: bool, folders: Sequence[str] = FOLDERS) -> tuple[Counter[str], int]:
    """Return the numbers of cases by kind, and pytest's exit code."""
    collector = AttackCollector()
    how = ["-q"] if runs else ["--collect-only", "-qq", "--no-header"]
    code = pytest.main([*how, "-p", "no:cacheprovider", "-m", "attack", *folders], plugins=[collector])
    return collector.counts, int(code)


def main() -> None:
    """Print the numbers of cases; the exit code is 1 if a kind has none, or if a test has failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="run the tests, too")
    given = parser.parse_args()
    counts, code = collected(runs=given.run)
    for kind in KINDS:
        print(f"{counts[kind]:6,}  {kind}")
    print(f"{counts.total():6,}  attacks")
    others = set(counts) - set(KINDS)
    is_complete = not others and all(counts[kind] for kind in KINDS) and counts.total() >= CASES_MIN
    sys.exit(0 if is_complete and code == 0 else 1)


if __name__ == "__main__":
    main()
