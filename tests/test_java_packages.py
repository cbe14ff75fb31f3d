"""The Java packages of the Spark extension: their imports form no cycle, and none of them has too many classes."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hatch_build import SOURCE_FOLDERS

from interbed.spark_ext.session import CATALOG_CLASS, EXTENSION_CLASS, SESSION_CATALOG_CLASS

ROOT = Path(__file__).resolve().parents[1]
WRITTEN, GENERATED = (ROOT / folder for folder in SOURCE_FOLDERS)
OURS = "interbed.spark"
CLASSES_MAX = 20

PACKAGE = re.compile(r"^package ([\w.]+);", re.MULTILINE)
# The pattern also matches outside of imports: code has the full name of a class when two classes share a name.
NAME = re.compile(rf"\b(?P<package>{re.escape(OURS)}(?:\.[a-z]\w*)*)\.(?P<type>[A-Z]\w*|\*)")
NO_CODE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


def _edges(sources: Mapping[str, str]) -> dict[tuple[str, str], list[str]]:
    """Return the edges between packages, with the classes whose sources cause them."""
    edges = defaultdict(list)
    for name, text in sources.items():
        package = PACKAGE.search(text)
        assert package is not None, name
        for target in sorted({found["package"] for found in NAME.finditer(NO_CODE.sub(" ", text))} - {package[1]}):
            edges[package[1], target].append(name)
    return edges


def _cycles(edges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the edges that are part of a cycle."""
    beyond = defaultdict(set)
    for start, end in edges:
        beyond[start].add(end)

    def reachable(start: str) -> set[str]:
        found: set[str] = set()
        todo = [start]
        while todo:
            new = beyond[todo.pop()] - found
            found |= new
            todo.extend(new)
        return found

    return sorted((start, end) for start, ends in list(beyond.items()) for end in ends if start in reachable(end))


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """Texts of all Java sources, by the full names of their classes."""
    return {
        ".".join(file.relative_to(folder).with_suffix("").parts): file.read_text(encoding="utf-8")
        for folder in (WRITTEN, GENERATED)
        for file in folder.rglob("*.java")
    }


def test_packages_have_no_cyclic_imports(sources: dict[str, str]) -> None:
    edges = _edges(sources)

    assert len(edges) > 20
    assert [f"{start} -> {end} by {', '.join(edges[start, end])}" for start, end in _cycles(edges)] == []


def test_no_package_is_too_large() -> None:
    sizes = {folder: len(list(folder.glob("*.java"))) for folder in WRITTEN.rglob("*") if folder.is_dir()}

    assert {str(folder.relative_to(WRITTEN)): size for folder, size in sizes.items() if size > CLASSES_MAX} == {}


def test_a_source_lies_in_the_folder_of_its_package(sources: dict[str, str]) -> None:
    declared = {name: PACKAGE.search(text) for name, text in sources.items()}

    assert [n for n, package in declared.items() if package is None or package[1] != n.rpartition(".")[0]] == []


def test_imports_name_classes(sources: dict[str, str]) -> None:
    assert [name for name, text in sources.items() if re.search(rf"import {re.escape(OURS)}[\w.]*\.\*;", text)] == []


def test_lower_packages_do_not_need_the_classes_that_settings_name(sources: dict[str, str]) -> None:
    assert [by for (_, end), by in _edges(sources).items() if end == OURS] == [["paimon.DefaultSource"]]


def test_class_names_in_settings_exist() -> None:
    constants = (WRITTEN / "interbed/spark/catalog/ConfiguredNames.java").read_text(encoding="utf-8")

    for name in (EXTENSION_CLASS, CATALOG_CLASS, SESSION_CATALOG_CLASS):
        assert (WRITTEN / f"{name.replace('.', '/')}.java").is_file()
        assert f'"{name}"' in constants
    for service in (WRITTEN / "META-INF/services").iterdir():
        for name in service.read_text(encoding="utf-8").split():
            assert (WRITTEN / f"{name.replace('.', '/')}.java").is_file()


def test_a_cycle_is_found_by_its_edges() -> None:
    sources = {
        "A": "package interbed.spark.a; import interbed.spark.b.B; class A { /* interbed.spark.d.D */ }",
        "B": "package interbed.spark.b; class B { interbed.spark.c.C c; }",
        "C": 'package interbed.spark.c; import interbed.spark.a.A; class C { String d = "interbed.spark.d.D"; }',
        "D": "package interbed.spark.d; import interbed.spark.a.A; class D {}",
    }

    edges = _edges(sources)

    assert ("interbed.spark.d", "interbed.spark.a") in edges
    assert _cycles(edges) == [
        ("interbed.spark.a", "interbed.spark.b"),
        ("interbed.spark.b", "interbed.spark.c"),
        ("interbed.spark.c", "interbed.spark.a"),
    ]
