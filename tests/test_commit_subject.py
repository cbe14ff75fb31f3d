"""The check of commit subjects that pre-commit runs: area, length and form."""

from pathlib import Path

import pytest

from tests.support.commit_subject import faults, main


@pytest.mark.parametrize(
    "message",
    [
        "commit: retry when the base snapshot expired\n",
        "catalog, server: part the client from the server\n\nThe two import nothing of each other.\n",
        "# a comment of git\nspark: read CHAR without blanks\n",
        "fixup! commit: retry\n",
    ],
)
def test_a_good_message_has_no_faults(message: str) -> None:
    assert faults(message) == []


@pytest.mark.parametrize(
    ("message", "fault"),
    [
        ("Have the worker hang\n", "area"),
        (f"commit: {'x' * 65}\n", "73 characters"),
        ("commit: retry.\n", "full stop"),
        ("commit: retry\nbecause\n", "second line"),
        ("", "area"),
    ],
)
def test_a_fault_is_named(message: str, fault: str) -> None:
    assert any(fault in text for text in faults(message))


def test_the_hook_exits_with_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text("bad subject\n")
    assert main([str(file)]) == 1
    assert "write `area: imperative summary`" in capsys.readouterr().err
