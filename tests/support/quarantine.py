"""Quarantined tests: the tests of tests/quarantine.toml run, but their failures do not fail the build."""

import datetime
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

LIST = Path(__file__).resolve().parents[1] / "quarantine.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedTest:
    """Flaky test. `id` has no parameters."""

    id: str
    since: datetime.date
    cause: str


def quarantined(path: Path = LIST) -> list[QuarantinedTest]:
    """Return the tests of the list."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("tests", [])
    return [QuarantinedTest(**entry) for entry in entries]


def mark_quarantined(items: Sequence[pytest.Item], tests: Sequence[QuarantinedTest]) -> None:
    """Report failures of quarantined tests as expected failures."""
    causes = {test.id: test.cause for test in tests}
    for item in items:
        cause = causes.get(item.nodeid.partition("[")[0])
        if cause is not None:
            item.add_marker(pytest.mark.xfail(reason=f"in quarantine: {cause}", strict=False))
