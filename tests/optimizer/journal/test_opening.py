"""The default location of the journal of a catalog."""

import re
import stat
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from interbed.optimizer.flow.process import JournalError
from interbed.optimizer.journal.sql import SqlJournal, default_url


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's state directory, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "a state"))
    return tmp_path / "a state"


def file_of(url: str) -> Path:
    """Return the file of a SQLite database url."""
    database = make_url(url).database
    assert database is not None
    return Path(database)


def test_the_journal_of_a_catalog_is_a_file_in_directories_private_to_the_user(state: Path) -> None:
    file = file_of(default_url("warehouse=s3://lake/Sales & more"))
    assert file.parent == state / "interbed" / "optimizer"
    assert re.fullmatch(r"warehouse-s3-lake-sales-more-[0-9a-f]{12}\.db", file.name)
    for directory in (state, state / "interbed", file.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_each_catalog_has_its_own_journal(state: Path) -> None:
    assert default_url("/tmp/lake") == default_url("/tmp/lake")
    assert default_url("/tmp/lake") != default_url("/tmp-lake")
    assert len(file_of(default_url("/x" * 500)).name) < 100
    assert file_of(default_url("\u6e56\udcff")).name.endswith(".db")


def test_the_default_url_contains_no_password(state: Path) -> None:
    assert "secret" not in default_url("postgresql://user:secret@host/lake")


def test_the_default_url_opens_a_journal(state: Path) -> None:
    journal = SqlJournal.open(default_url("/tmp/lake"))
    assert journal.holder() is None
    journal.close()


@pytest.mark.parametrize("given", [None, "", "relative/path"])
def test_without_an_absolute_state_directory_the_journal_is_below_the_home(
    given: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if given is None:
        monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_STATE_HOME", given)
    assert file_of(default_url("lake")).parent == tmp_path / ".local" / "state" / "interbed" / "optimizer"


def test_a_directory_that_cannot_be_created_is_named(state: Path) -> None:
    state.write_text("a file")
    with pytest.raises(JournalError, match=r"the optimizer's journal of lake can't be created: .*Name a database"):
        default_url("lake")
