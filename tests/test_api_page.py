"""docs/api.md: it names all public names of the package, and its examples run."""

from pathlib import Path

import interbed
from tests.support import api_page
from tests.support.pages import Page


def test_the_page_is_up_to_date_with_the_code() -> None:
    written = api_page.PAGE.read_text(encoding="utf-8")
    assert written == api_page.page(), "docs/api.md is stale; `python -m tests.support.api_page` writes it again"


def test_the_page_names_all_public_names() -> None:
    assert sorted(api_page.listed()) == sorted(interbed.__all__)
    text = api_page.PAGE.read_text(encoding="utf-8")
    for name in set(interbed.__all__) - {"__version__"}:
        assert f"| `{name}` | " in text, name
    for owner in (interbed.Catalog, interbed.Table, interbed.Scan):
        for name, _ in api_page.members(owner):
            assert f"| `{name}(" in text or f"| `{name}` | " in text, name


def test_the_examples_run(tmp_path: Path) -> None:
    assert Page("api.md").run_python(warehouse=str(tmp_path)) > 25
