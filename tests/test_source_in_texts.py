"""Python code inside of texts: what it names of interbed exists, as for code that the type checkers see."""

import ast
import importlib
import re
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tests.support.decisions import ROOT
from tests.support.packages import PACKAGES
from tests.support.tally import Tally

OWN = ("interbed", "tests")
IMPORT = re.compile(
    r"(?:^|;|[\"'`])[ \t]*((?:from (?:interbed|tests)[\w.]* )?import (?:\([^)]*\)|[^\n;\"'`)]+))", re.MULTILINE
)
OBJECT = re.compile(r"\b(interbed(?:\.\w+)+):([A-Za-z_]\w*)\b")
DOTTED = re.compile(rf"interbed\.(?:{'|'.join(PACKAGES)})(?:\.\w+)+")
FOLDERS = (*PACKAGES, "tests", "examples", "demo", "docs", "docker", ".github")
SUFFIXES = {".java", ".md", ".py", ".sh", ".sql", ".toml", ".yaml", ".yml"}


def texts(path: Path) -> list[str]:
    """Return the constants of a Python file, or any other file as a whole."""
    source = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return [source]
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, str) and any(own in value for own in OWN)]


def named(text: str, *, java: bool = False) -> Iterator[tuple[str, str]]:
    """Yield module and name of what a text names of interbed; the name is empty for a whole module.

    These are imports, objects as `module:name`, and texts that are one dotted name.
    """
    yield from OBJECT.findall(text)
    if DOTTED.fullmatch(text):
        yield text, ""
    for statement in () if java else IMPORT.findall(text):
        try:
            nodes = ast.parse(textwrap.dedent(statement)).body
        except SyntaxError:  # words of a sentence
            continue
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                yield from ((node.module, alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] in OWN)


def exists(dotted: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        try:
            if find_spec(".".join(parts[:count])) is None:
                continue
        except ModuleNotFoundError:
            continue
        found: object = importlib.import_module(".".join(parts[:count]))
        for part in parts[count:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_texts_name_what_exists(tally: Tally) -> None:
    """A function that moves leaves its old name in programs that tests start as text; no type checker sees these."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*")) if path.suffix in SUFFIXES]
    kept = [path for path in paths if not {"node_modules", "target"} & set(path.parts) and path != Path(__file__)]
    found = {
        (path.relative_to(ROOT), f"{module}.{name}".removesuffix(".*").strip("."))
        for path in kept
        for text in texts(path)
        for module, name in named(text, java=path.suffix == ".java")
    }
    assert len(found) > 100
    tally("names of interbed in texts", len(found))
    python = {name for _, name in found if not name.startswith("interbed.spark.")}  # the package of the Java sources
    missing = {name for name in python if not exists(name)}
    assert sorted(f"{path}: {name}" for path, name in found if name in missing) == []


def test_names_in_a_text_are_found() -> None:
    text = "import sys\nfrom interbed.catalog import gone; import interbed.nothing\nx = interbed.a.b:C"
    assert sorted(named(text)) == [("interbed.a.b", "C"), ("interbed.catalog", "gone"), ("interbed.nothing", "")]
    assert not exists("interbed.catalog.gone")
    assert not exists("interbed.nothing")
    assert exists("interbed.storage.base.errors")
