"""docs/optimizer.md is correct: its Python, its sessions as processes, its commands, its file of groups."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import interbed
from interbed.optimizer.flow.process import ProcessState, WorkKind
from interbed.optimizer.flow.tables import GroupPolicy, read_groups
from tests.support.pages import Page
from tests.support.waits import at_most

PAGE = Page("optimizer.md")


@dataclass(frozen=True)
class PageSection(Page):
    """A section of the page."""

    part: str

    @property
    def text(self) -> str:
        return self.part


@pytest.mark.long
def test_the_session_of_the_page_runs_as_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", f"{tmp_path}/state")
    monkeypatch.setenv("INTERBED_CATALOG__LAKE__WAREHOUSE", f"file:{tmp_path}/lake")

    def run(arguments: list[str]) -> str:
        program = [sys.executable, "-m", "interbed.cli", *arguments]
        done = subprocess.run(program, capture_output=True, text=True, timeout=at_most(120), check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    before, _, after = PAGE.text.partition("## Start it")
    assert PageSection(PAGE.name, before).run_python() == 7
    assert PAGE.run_console(run) == 6
    with interbed.load_catalog("lake") as catalog:
        assert PageSection(PAGE.name, after).run_python(catalog=catalog) == 2


def test_the_page_lists_exactly_the_existing_commands() -> None:
    assert PAGE.check_commands() == 2


def test_the_group_file_of_the_page_is_valid(tmp_path: Path) -> None:
    [block] = PAGE.blocks("toml")
    (tmp_path / "groups.toml").write_text(block)
    groups = read_groups(tmp_path / "groups.toml")
    assert {name: (group.workers, group.policy) for name, group in groups.items()} == {
        "default": (2, GroupPolicy.QUOTA),
        "nightly": (0, GroupPolicy.QUOTA),
    }


def test_the_page_names_all_kinds_and_states() -> None:
    listed = re.findall(r"^\| `([a-z ]+)` \|", PAGE.text, re.MULTILINE)
    assert set(WorkKind) | set(ProcessState) <= set(listed)
