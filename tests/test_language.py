"""Language of the folders of DONE: plain technical English, by the rules of STYLE.md."""

from pathlib import Path

import pytest

from tests.support.language import faults_of, glossary, page_faults
from tests.support.packages import ROOT, source_files

DONE: tuple[str, ...] = (
    "catalog/client",
    "catalog/server",
    "storage/base",
    "iceberg",
    "ingest",
    "optimizer",
    "spark_ext",
    "storage/commit",
    "storage/files",
    "storage/io",
    "storage/log",
    "storage/lsm",
    "storage/meta",
    "storage/read",
    "storage/scan",
    "storage/table",
    "storage/upkeep",
    "storage/version",
    "storage/views",
    "storage/write",
    "tests/bad_input",
    "tests/catalog",
    "tests/golden",
    "tests/iceberg",
    "tests/ingest",
    "tests/interop",
    "tests/optimizer",
    "tests/packaging",
    "tests/peers",
    "tests/pypaimon",
    "tests/spark_ext",
    "tests/storage",
)
"""Folders whose modules have no faults; a rewritten folder is added here."""


@pytest.mark.parametrize("folder", DONE)
def test_a_folder_that_is_done_has_no_faults(folder: str) -> None:
    terms = glossary()
    found = source_files(folder)
    assert found, f"{folder} has no modules"
    assert [str(fault) for path in found for fault in faults_of(path, terms)] == []


PAGES: tuple[str, ...] = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/decisions")
"""Pages and folders of pages without faults; STYLE.md quotes the words that it forbids."""


@pytest.mark.parametrize("place", PAGES)
def test_a_page_that_is_done_has_no_faults(place: str) -> None:
    path = ROOT / place
    found = sorted(path.rglob("*.md")) if path.is_dir() else [path]
    assert [str(fault) for page in found for fault in page_faults(page)] == []


FAULTY = '''"""What is there."""


class Begun:
    """Prefetches files of a store, le~st readers wait."""

    def is_open(self) -> bool:
        """Whether it is open, as the server te~lls."""
        # W~hoever comes too late goes without.
        return True

    @property
    def is_closed(self) -> bool:
        """Whether it is closed by now."""
        return False
'''.replace("~", "")
"""Module with a fault of each rule. Tildes hide its faults from the check of this file."""


def test_faults_are_found(tmp_path: Path) -> None:
    assert [str(fault) for fault in faults_of(ROOT / "tests/support/packages.py", glossary())] == []
    example = tmp_path / "example.py"
    example.write_text(FAULTY)
    assert sorted((fault.line, fault.rule) for fault in faults_of(example, glossary())) == [
        (1, "a docstring that does not name a thing or an action"),
        (4, "a class name of one word"),
        (5, "a picture instead of the field's word"),
        (7, "a docstring that does not name a thing or an action"),
        (8, "a picture instead of the field's word"),
        (9, "an actor without a noun"),
    ]
