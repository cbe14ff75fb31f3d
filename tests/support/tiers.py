"""The tiers of `make test`: unit tests, which start neither a JVM nor a server, and integration tests.

`make test-unit` (INTERBED_TEST_TIER=unit) runs the unit tests alone. There is no list of them. A test is an integration
test if

- it is in one of the folders INTEGRATION_FOLDERS,
- its module imports a module that starts a server or a JVM (STARTERS),
- a parameter of it names PostgreSQL, or
- it uses a fixture, of any `conftest.py`, whose function refers to such an import.

A test that starts a server in another way gets the mark `integration`. `guard` enforces the rule: while unit tests run,
an audit hook fails a test that starts a JVM or a database, or binds a network socket.
"""

import ast
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.source_trees import source_tree

ROOT = Path(__file__).resolve().parents[2]
TIER_VARIABLE = "INTERBED_TEST_TIER"

INTEGRATION_FOLDERS = ("tests/interop/", "tests/peers/", "tests/spark_ext/", "tests/packaging/")

STARTERS = ("tests.support.servers", "tests.support.spark", "tests.support.peers", "interbed.testing", "pyspark")
"""Packages whose imports make a test an integration test."""

PLAIN_HELPERS = ("tests.support.servers.ports", "tests.support.peers.json")
"""Modules below STARTERS that start nothing."""

PROGRAMS = frozenset({"java", "javac", "mvn", "postgres", "pg_ctl", "initdb", "spark-submit"})
"""Programs that no unit test starts."""


class NotAUnitTestError(AssertionError):
    """Error of a unit test that started a JVM or a server."""


def chosen_tier() -> str | None:
    """Return the tier that the environment asks for: `unit`, or None for all tests."""
    tier = os.environ.get(TIER_VARIABLE)
    if tier not in (None, "", "unit"):
        raise pytest.UsageError(f"{TIER_VARIABLE}={tier} names no tier: write unit, or leave it out for all tests")
    return tier or None


def unit_tests(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the unit tests among the items."""
    return [item for item in items if not is_integration(item)]


def is_integration(item: pytest.Item) -> bool:
    """Return whether the test needs a JVM or a server."""
    if item.get_closest_marker("integration") is not None or item.nodeid.startswith(INTEGRATION_FOLDERS):
        return True
    if "postgres" in item.name.partition("[")[2]:
        return True
    return bool(starters_of(item.path)) or any(
        _starts(definition.func) for definitions in _fixtures(item) for definition in definitions
    )


@cache
def starters_of(path: Path) -> frozenset[str]:
    """Return the names that a module imports from STARTERS, including the imports of helper modules beside it."""
    names = set[str]()
    for node in ast.walk(source_tree(path)):
        if isinstance(node, ast.ImportFrom) and node.module and _is_starter(node.module):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("tests."):
            helper = ROOT.joinpath(*node.module.split(".")).with_suffix(".py")
            if helper.exists() and helper != path and starters_of(helper):
                names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.asname or alias.name for alias in node.names if _is_starter(alias.name)}
    return frozenset(names)


def guard() -> None:
    """Install the audit hook that fails every test of this process that starts a JVM or a server."""
    sys.addaudithook(_audit)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        program = Path(os.fsdecode(arguments[0] or arguments[1][0])).name
        if program in PROGRAMS:
            raise NotAUnitTestError(f"a unit test starts {program}: give it the mark `integration`")
    elif event == "socket.bind" and isinstance(arguments[1], tuple) and os.environ.get("PYTEST_CURRENT_TEST"):
        raise NotAUnitTestError(f"a unit test binds {arguments[1]}: give it the mark `integration`")


def _is_starter(module: str) -> bool:
    if any(module == helper or module.startswith(f"{helper}.") for helper in PLAIN_HELPERS):
        return False
    return any(module == package or module.startswith(f"{package}.") for package in STARTERS)


def _fixtures(item: pytest.Item) -> list[Sequence[Any]]:
    info = getattr(item, "_fixtureinfo", None)
    return [] if info is None else list(info.name2fixturedefs.values())


def _starts(function: Any) -> bool:
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    if code is None:
        return False
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT / "tests"):
        return False
    return bool(starters_of(path) & set(code.co_names))
