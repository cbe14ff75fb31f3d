"""The documentation as a whole: generated pages agree with the code, and named things exist."""

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import interbed
from tests.support.counts import page_words
from tests.support.decisions import ROOT, SECTIONS, decisions
from tests.support.option_table import catalog_options, table_options
from tests.support.packages import PACKAGES, source_files
from tests.support.pages import DOCS, Page, check_command, commands
from tests.support.performance_docs import figures_text, history_text, kept_runs, with_figures
from tests.support.servers.http_servers import running_s3
from tests.support.tally import Tally
from tests.support.waits import at_most


def test_the_reference_pages_agree_with_the_code() -> None:
    command = [sys.executable, "-m", "tests.support.reference_docs", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=at_most(60), check=False)
    assert done.returncode == 0, f"run python -m tests.support.reference_docs\n{done.stdout}{done.stderr[-2000:]}"


def test_the_table_of_options_has_type_default_and_meaning() -> None:
    rows = {row.key: row for row in table_options()}
    assert rows["write-buffer-size"][1:3] == ("size", "256 mb")
    assert rows["snapshot.time-retained"][1:3] == ("duration", "1 h")
    assert rows["lookup-wait"][1:3] == ("boolean", "true")
    assert rows["first-row.ignore-delete"].meaning == "The older name of `ignore-delete`."
    assert "scan.fallback-branch" in rows
    assert [row.key for row in rows.values() if not row.meaning] == []
    catalog = {row.key: row for row in catalog_options()}
    assert catalog["metastore"][1:3] == ("filesystem | hive | rest", "filesystem")
    assert catalog["lock.enabled"][1:3] == ("true | false | auto", "")


def test_decisions_are_numbered_and_have_all_sections() -> None:
    found = decisions()
    assert [d.number for d in found] == list(range(1, len(found) + 1))
    for decision in found:
        assert decision.path.name.startswith(f"{decision.number:04}-")
        assert date(2026, 1, 1) < decision.date
        text = decision.path.read_text(encoding="utf-8")
        assert tuple(re.findall(r"^## (.+)$", text, re.MULTILINE)) == SECTIONS, decision.path.name


def test_the_paths_that_the_architecture_page_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[a-z_]+/)+(?:\w+\.py)?)`", text))
    assert len(named) > 40
    folders = (ROOT, *(ROOT / package for package in PACKAGES))
    assert sorted(path for path in named if not any((folder / path).exists() for folder in folders)) == []


def test_the_types_that_the_architecture_page_names_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Dependencies")[0]
    named = set(re.findall(r"`([A-Z][a-z]+(?:[A-Z][A-Za-z]+)*)(?:\.\w+)?`", text))
    sources = [path.read_text(encoding="utf-8") for path in source_files()]
    defined = {name for source in sources for name in re.findall(r"^class (\w+)", source, re.MULTILINE)}
    assert len(named) > 25
    assert sorted(named - defined) == []


def test_the_pages_at_the_root_are_short() -> None:
    words = page_words()
    assert words["README.md"] <= 800
    assert words["ARCHITECTURE.md"] <= 2000


def test_links_of_the_pages_at_the_root_have_targets() -> None:
    for page in sorted(ROOT.glob("*.md")):
        links = re.findall(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        assert [link for link in links if not (ROOT / link).exists()] == [], page.name


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} == listed


def test_the_page_of_object_stores_runs_as_documented() -> None:
    with running_s3("lake") as store:
        assert Page("stores.md").run_python(store=store) == 8
    assert Page("stores.md").check_commands() == 3


@pytest.mark.parametrize(("name", "examples"), [("tutorial.md", 20), ("sql.md", 5)])
def test_the_python_of_the_page_runs_as_documented(name: str, examples: int, tmp_path: Path) -> None:
    assert Page(name).run_python(warehouse=tmp_path / "lake") >= examples


def test_the_commands_of_all_pages_exist(tally: Tally) -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")):
        for line in commands(page.read_text(encoding="utf-8")):
            check_command(line)
            tally("commands on pages", 1)


def test_the_loop_on_the_page_of_errors_runs(tmp_path: Path) -> None:
    catalog = interbed.load_catalog(warehouse=f"file:{tmp_path}/lake")
    catalog.create_database("db")
    rows = pa.table({"id": [1, 2]})
    table = catalog.create_table("db.t", rows.schema, primary_keys=["id"])
    [block] = Page("errors.md").blocks("python")
    exec(block, {"table": table, "rows": rows})
    assert table.scan().count() == 2


def test_listed_examples_exist_and_all_examples_are_listed() -> None:
    named = set(re.findall(r"`examples/([\w.]+)`", Page("examples.md").text))
    assert named == {path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".ipynb")}


RUN: dict[str, Any] = {
    "machine": "a machine",
    "commit": "abc",
    "when": "2026-01-31T10:00:00+00:00",
    "command": "make bench",
    "rows": 4_000_000,
    "stages": {"scan": {"interbed": {"cpu_s": 2.0, "wall_s": 1.5}, "pypaimon": {"cpu_s": 12.0, "wall_s": 12.0}}},
    "spark": {},
    "soak": [{"minute": 1, "peak_mb": 512.5}],
}


def test_figures_of_a_benchmark_become_tables_with_ratios() -> None:
    text = figures_text([RUN, {**RUN, "commit": "def", "stages": {}}])
    assert (
        "### Tables in Python\n\nMeasured on 2026-01-31 with `make bench` at `abc`: a machine. Rows: 4,000,000." in text
    )
    assert "### A long run\n\nMeasured on 2026-01-31 with `make bench` at `def`" in text
    assert "| scan, pypaimon | 12 | 12 | 6.000 |" in text
    assert "| 1 | 1 | 512 |" in text
    page = Page("performance.md").text
    assert with_figures(with_figures(page, text), text).count(text) == 1


def test_the_figures_of_runs_are_columns_of_one_table() -> None:
    faster = {"scan": {"interbed": {"cpu_s": 1.0}, "pypaimon": {"cpu_s": 12.0}}, "count": {"interbed": {"cpu_s": 0.5}}}
    text = history_text([RUN, {**RUN, "commit": "def", "when": "2026-02-01T10:00:00+00:00", "stages": faster}])
    assert "| `def` | 2026-02-01 | `make bench` | a machine |" in text
    assert "| | `abc` | `def` |" in text
    assert "| scan, interbed | 2.000 | 1.000 |" in text
    assert "| scan, pypaimon | 12 (6.000x) | 12 (12x) |" in text
    assert "| count, interbed |  | 0.500 |" in text
    assert "minute" not in text


def test_the_pages_have_the_recorded_figures() -> None:
    runs = kept_runs()
    for name, text in (("performance.md", figures_text(runs)), ("performance-history.md", history_text(runs))):
        page = Page(name).text
        assert with_figures(page, text) == page
