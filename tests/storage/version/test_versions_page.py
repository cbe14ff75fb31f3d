"""docs/versions.md says what the code does."""

from pathlib import Path

from tests.support.pages import Page

PAGE = Page("versions.md")


def test_the_python_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    assert PAGE.run_python(warehouse=tmp_path / "lake") > 30


def test_the_commands_of_the_page_have_the_options_that_it_names() -> None:
    assert PAGE.check_commands() > 3
