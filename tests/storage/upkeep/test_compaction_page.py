"""The statements of docs/compaction.md are true."""

import re
from pathlib import Path

from tests.support.pages import DOCS, Page

PAGE = Page("compaction.md")


def test_the_python_examples_of_the_page_work_as_described(tmp_path: Path) -> None:
    assert PAGE.run_python(warehouse=tmp_path / "lake") > 30


def test_the_commands_of_the_page_have_the_named_options() -> None:
    assert PAGE.check_commands() > 5


def test_the_pictures_of_the_page_exist() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", PAGE.text)
    assert len(pictures) == 2
    for picture in pictures:
        assert (DOCS / picture).read_bytes().startswith(b"<?xml")
