"""Rules of the structure that import-linter's contracts cannot express: no cycles, small folders, the modules that
storage offers.

The contracts themselves (layers of storage, packages of the server and of Spark) are in pyproject.toml.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import grimp
import pytest

import interbed.storage
from tests.support.packages import PACKAGES, ROOT, source_files
from tests.support.source_trees import source_tree

MOST_FILES = 20
"""Greatest number of modules in a folder, without its `__init__.py`."""


@cache
def graph() -> grimp.ImportGraph:
    """All modules of interbed with their imports, including those for type checkers alone and those in functions."""
    return grimp.build_graph("interbed", cache_dir=None)


def packages() -> list[str]:
    """Return all packages that have modules."""
    return sorted(m for m in graph().modules if graph().find_children(m))


def imports_between(parent: str) -> dict[str, dict[str, list[str]]]:
    """Return the siblings that each child of a package imports, and the edges of these imports."""
    found: dict[str, dict[str, list[str]]] = {child: defaultdict(list) for child in graph().find_children(parent)}
    for child, siblings in found.items():
        for module in {child} | graph().find_descendants(child):
            for imported in graph().find_modules_directly_imported_by(module):
                other = ".".join(imported.split(".")[: parent.count(".") + 2])
                if other in found and other != child:
                    siblings[other].append(f"{module} -> {imported}")
    return found


@pytest.mark.parametrize("parent", packages())
def test_siblings_have_no_cyclic_imports_even_through_others(parent: str) -> None:
    between = imports_between(parent)
    try:
        TopologicalSorter(between).prepare()
    except CycleError as error:
        # Each is imported by the one that follows it.
        cycle = list(reversed(error.args[1]))
        edges = [edge for a, b in pairwise(cycle) for edge in between[a][b]]
        pytest.fail("These imports make a cycle; move one side down, or both into one:\n" + "\n".join(sorted(edges)))


def folders() -> Iterator[Path]:
    """Yield the folders that have Python modules."""
    for package in PACKAGES:
        yield from (f.parent for f in sorted((ROOT / package).rglob("__init__.py")))


@pytest.mark.parametrize("folder", [str(f.relative_to(ROOT)) for f in folders()])
def test_a_folder_has_a_limited_number_of_modules(folder: str) -> None:
    modules = [f.name for f in (ROOT / folder).glob("*.py") if f.name != "__init__.py"]
    assert len(modules) <= MOST_FILES, f"{folder} has {len(modules)} modules; group those of one subject in a folder."


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_modules_is_a_package(package: str) -> None:
    """Import-linter skips modules in folders without `__init__.py`."""
    lacking = {f.parent for f in (ROOT / package).rglob("*.py") if not (f.parent / "__init__.py").exists()}
    assert not lacking


def test_layers_above_storage_import_only_offered_modules() -> None:
    """interbed.storage.OFFERED names exactly the modules that they import."""
    used: dict[str, list[str]] = defaultdict(list)
    for module in graph().modules:
        if not module.startswith("interbed.storage"):
            for imported in graph().find_modules_directly_imported_by(module):
                if imported.startswith("interbed.storage."):
                    used[imported.removeprefix("interbed.storage.")].append(module)
    offered = [name for names in interbed.storage.OFFERED.values() for name in names]
    assert len(offered) == len(set(offered))
    more = {name: sorted(by) for name, by in used.items() if name not in offered}
    assert not more, f"Use what storage offers, or offer these in storage/__init__.py: {more}"
    assert not set(offered) - set(used), "These are offered, but no layer above storage uses them."


def test_no_two_public_classes_share_a_name() -> None:
    """A name in a traceback or on a page of the documentation identifies one class."""
    places: dict[str, list[str]] = defaultdict(list)
    for file in source_files():
        for node in source_tree(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(str(file.relative_to(ROOT)))
    assert not {name: files for name, files in places.items() if len(files) > 1}


SLEEPERS = ("storage/base/backoff.py",)
"""Modules that call time.sleep; others use a back-off, or take the function as an argument."""


def test_only_the_back_off_sleeps() -> None:
    calls = [
        str(file.relative_to(ROOT))
        for file in source_files()
        if "sleep(" in file.read_text(encoding="utf-8")
        for node in ast.walk(source_tree(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")
    ]
    assert sorted(set(calls)) == list(SLEEPERS)


CATCHERS = {
    "catalog/server/database/sqlite.py": "the thread of the unit raises the error",
    "catalog/server/http/thrift.py": "the application gets the error",
    "catalog/server/process/workers.py": "the end of a thread is logged",
    "catalog/server/rest/endpoint.py": "a request is answered with the error",
    "catalog/server/service/directories/remote_files.py": "the caller's thread raises the error",
    "catalog/server/threads.py": "the end of a thread makes the server not ready",
    "catalog/server/thrift/edge/dispatch.py": "a request is answered with the error",
    "catalog/server/thrift/edge/loop.py": "the loop of requests drops the connection and goes on",
    "catalog/server/thrift/edge/serving.py": "the loop of requests drops the connection and goes on",
    "iceberg/commit/home.py": "the outcome of a commit stays unknown, for every reason",
    "optimizer/service/worker.py": "the leader gets the error as the outcome of its task",
    "spark_ext/process/worker.py": "Spark gets the error of its task",
    "storage/base/prefetch.py": "the thread that reads raises the error",
    "storage/files/format/api.py": "the writer raises the error after the encoder",
}
"""Modules that catch every error without raising it there, with the reason; others name the errors that they expect."""


def test_errors_are_caught_by_their_types() -> None:
    found = {
        str(file.relative_to(ROOT))
        for file in source_files()
        if "Exception" in file.read_text(encoding="utf-8")
        for node in ast.walk(source_tree(file))
        if isinstance(node, ast.ExceptHandler) and _catches_everything(node)
    }
    assert sorted(found) == list(CATCHERS)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("try: x()\nexcept Exception: pass", True),
        ("try: x()\nexcept BaseException as error: log(error)", True),
        ("try: x()\nexcept: pass", True),
        ("try: x()\nexcept (OSError, Exception): pass", True),
        ("try: x()\nexcept Exception: close(); raise", False),
        ("try: x()\nexcept OSError: pass", False),
    ],
)
def test_a_handler_of_every_error_is_found(code: str, expected: bool) -> None:
    (handler,) = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ExceptHandler))
    assert _catches_everything(handler) is expected


def _catches_everything(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler takes errors of all types and contains no `raise`."""
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {None if each is None else ast.unparse(each) for each in types}
    broad = not names.isdisjoint({None, "Exception", "BaseException"})
    return broad and not any(isinstance(node, ast.Raise) for node in ast.walk(handler))


TEST_SLEEPERS = {
    "tests/ingest/sources/postgres/database.py": "the shortened pause of a job between two attempts",
    "tests/peers/clients/pyiceberg_program.py": "the pause of a client between two attempts",
}
"""Modules of tests that call time.sleep, with the reason; others wait by `wait_until` or for an event."""


def test_tests_wait_for_events_and_states_and_do_not_sleep() -> None:
    calls = [
        name
        for file in (ROOT / "tests").rglob("*.py")
        if not (name := str(file.relative_to(ROOT))).startswith(("tests/support/", "tests/benchmarks/"))
        and "sleep(" in file.read_text(encoding="utf-8")
        for node in ast.walk(source_tree(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "sleep")
    ]
    assert sorted(set(calls)) == sorted(TEST_SLEEPERS)


BOUNDED = ("wait", "join", "result", "awaitTermination")
"""Methods whose first argument is the upper bound of a wait."""
UNSCALED_SECONDS_MAX = 10
"""Shorter waits are part of what a test does: a poll, or a state that does not come."""
UNSCALED = {
    "tests/spark_ext/connect_program.py": "a program whose path does not include the tests",
    "tests/spark_ext/version_program.py": "the same",
}

NUMBER_OF_SECONDS = re.compile(rf"\b({'|'.join(BOUNDED)})\(\d\d|\btimeout(_seconds)?=\d\d")
"""What a file has that is worth the time to parse it."""


def is_unscaled_bound(node: ast.AST) -> bool:
    """Return whether the node is a call that waits for a number of seconds without `at_most`."""
    if not isinstance(node, ast.Call):
        return False
    bounds = [each.value for each in node.keywords if each.arg in ("timeout", "timeout_seconds")]
    if isinstance(node.func, ast.Attribute) and node.func.attr in BOUNDED:
        bounds += node.args[:1]
    values = [each.value for each in bounds if isinstance(each, ast.Constant)]
    return any(isinstance(value, int | float) and value >= UNSCALED_SECONDS_MAX for value in values)


def test_bounds_of_waits_are_scaled_to_the_machine() -> None:
    found = [
        f"{name}:{getattr(node, 'lineno', '')}"
        for file in (ROOT / "tests").rglob("*.py")
        if not (name := str(file.relative_to(ROOT))).startswith("tests/benchmarks/") and name not in UNSCALED
        if NUMBER_OF_SECONDS.search(file.read_text(encoding="utf-8"))
        for node in ast.walk(source_tree(file))
        if is_unscaled_bound(node)
    ]
    assert not found, f"Use at_most of tests/support/waits.py: {found}"


SUSPICIOUS = re.compile(
    r"^\s*(assert.*|)\bor (True|[1-9'\"])|\bassert (True|[1-9]|f?['\"][^'\"]*['\"](,|$)|\(\w+ for )|len\(.*\) >= 0\b"
    r"|\bassert ([\w.\[\]]+) (==|is|<=|>=) \5(,|$)",
    re.MULTILINE,
)
"""What a file has that is worth the time to parse it."""


def is_always_true(node: ast.expr) -> bool:
    """Return whether an expression is true whatever the code under test does."""
    match node:
        case ast.Constant(value=value):
            return bool(value)
        case ast.GeneratorExp() | ast.Lambda():
            return True
        case ast.JoinedStr(values=values):
            return any(isinstance(each, ast.Constant) for each in values)
        case ast.BoolOp(op=ast.Or(), values=values):
            return any(map(is_always_true, values))
        case ast.BoolOp(values=values):
            return all(map(is_always_true, values))
        case ast.Compare(left=ast.Call(func=ast.Name(id="len")), ops=[ast.GtE()], comparators=[ast.Constant(value=0)]):
            return True
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is() | ast.LtE() | ast.GtE()], comparators=[right]):
            # Two calls may differ, and a value may differ from itself: NaN is tested by `!=`.
            return ast.dump(left) == ast.dump(right) and not any(isinstance(each, ast.Call) for each in ast.walk(left))
    return False


def test_no_assertion_of_a_test_is_always_true() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in (ROOT / "tests").rglob("*.py")
        if SUSPICIOUS.search(file.read_text(encoding="utf-8"))
        for node in ast.walk(source_tree(file))
        if isinstance(node, ast.Assert) and is_always_true(node.test)
    ]
    assert not found, f"These assertions cannot fail: {found}"


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x or True", True),
        ("(each for each in x)", True),
        ("len(x) >= 0", True),
        ("x.y[0] == x.y[0]", True),
        ("True and 1", True),
        ("f'text'", True),
        ("'text' in x or 'text'", True),
        ("x and True", False),
        ("hash(x) == hash(x)", False),
        ("len(x) >= 1", False),
        ("x != x", False),
        ("x or y", False),
    ],
)
def test_an_assertion_that_cannot_fail_is_found(code: str, expected: bool) -> None:
    assert is_always_true(ast.parse(code, mode="eval").body) is expected
    assert SUSPICIOUS.search(f"    assert {code}\n") is not None or not expected


LOCATION_SCHEMES = {"catalog/server/service/directories/locations.py": "a location of the metastore, not a file system"}
"""Modules that compare a scheme with that of local files, and the object that has the scheme."""


def depends_on_scheme(node: ast.AST) -> bool:
    """Return whether the node compares an attribute `scheme` with `file`, or calls `is_remote`."""
    if isinstance(node, ast.Compare):
        sides = (node.left, *node.comparators)
        is_scheme = any(isinstance(side, ast.Attribute) and side.attr == "scheme" for side in sides)
        inner = {inner.value for side in sides for inner in ast.walk(side) if isinstance(inner, ast.Constant)}
        return is_scheme and "file" in inner
    names = {getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None)}
    return "is_remote" in names


def test_callers_of_file_systems_ask_for_capabilities_and_not_for_the_scheme() -> None:
    found = [
        f"{name}:{getattr(node, 'lineno', '')}"
        for file in source_files()
        if not (name := str(file.relative_to(ROOT))).startswith("storage/io/") and name not in LOCATION_SCHEMES
        if ".scheme" in (text := file.read_text(encoding="utf-8")) or "is_remote" in text
        for node in ast.walk(source_tree(file))
        if depends_on_scheme(node)
    ]
    assert not found, f"Ask file_io.capabilities for what is needed: {found}"


@pytest.mark.parametrize(
    "code", ["file_io.scheme == 'file'", "split(x).scheme in ('', 'file')", "'file' != x.scheme", "is_remote(x)"]
)
def test_a_comparison_of_the_scheme_is_found(code: str) -> None:
    assert any(map(depends_on_scheme, ast.walk(ast.parse(code))))
