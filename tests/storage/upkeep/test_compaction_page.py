"""docs/compaction.md says what the code does."""

import re
from pathlib import Path

from tests.support.pages import DOCS, Page

PAGE = Page("compaction.md")


def test_the_python_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    assert PAGE.run_python(warehouse=tmp_path / "lake") > 30


def test_the_commands_of_the_page_have_the_options_that_it_names() -> None:
    assert PAGE.check_commands() > 5


def test_the_pictures_of_the_page_are_there() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.text)
    assert len(pictures) == 2
    for picture in pictures:
        assert (DOCS / picture).read_bytes().startswith(b"<?xml")
