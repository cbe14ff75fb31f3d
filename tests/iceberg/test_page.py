"""The examples of docs/iceberg.md run as written."""

from pathlib import Path

from tests.support.pages import Page


def test_the_examples_of_the_page_run_as_written(tmp_path: Path) -> None:
    assert Page("iceberg.md").run_python(directory=str(tmp_path)) == 35
