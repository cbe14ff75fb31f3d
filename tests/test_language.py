"""Language of the packages, the tests and the pages: plain technical English, by the rules of STYLE.md."""

from pathlib import Path

import pytest

from tests.support.language import faults_of, glossary, page_faults
from tests.support.packages import PACKAGES, ROOT, source_files

FOLDERS = sorted(
    str(folder.relative_to(ROOT))
    for top in (*PACKAGES, "tests")
    for folder in (ROOT / top).iterdir()
    if folder.is_dir() and any(folder.rglob("*.py"))
)
"""The folders of the packages and of the tests."""


def test_packages_and_tests_have_no_faults() -> None:
    terms = glossary()
    found = [path for folder in FOLDERS for path in source_files(folder)]
    assert len(found) > len(FOLDERS)
    assert [str(fault) for path in found for fault in faults_of(path, terms)] == []


def test_modules_beside_the_folders_have_no_faults() -> None:
    found = [path for top in (*PACKAGES, "tests", "src/interbed", "demo") for path in (ROOT / top).glob("*.py")]
    assert [str(fault) for path in found for fault in faults_of(path, glossary())] == []


PAGES: tuple[str, ...] = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "tests/README.md")
"""Pages and folders of pages. STYLE.md quotes the words that it forbids."""


@pytest.mark.parametrize("place", PAGES)
def test_a_page_has_no_faults(place: str) -> None:
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
