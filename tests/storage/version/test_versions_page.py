"""The statements of docs/versions.md are true."""

from pathlib import Path

from tests.support.pages import Page

PAGE = Page("versions.md")


def test_the_python_examples_of_the_page_work_as_described(tmp_path: Path) -> None:
    assert PAGE.run_python(warehouse=tmp_path / "lake") > 30


def test_the_commands_of_the_page_have_the_named_options() -> None:
    assert PAGE.check_commands() > 3
