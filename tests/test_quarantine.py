"""The list of tests in quarantine: each has a date and a cause, and a limited time."""

import datetime
from pathlib import Path

import pytest

from tests.support.quarantine import QuarantinedTest, mark_quarantined, quarantined

ROOT = Path(__file__).resolve().parents[1]
LONGEST_STAY = datetime.timedelta(days=14)


def test_each_listed_test_exists_and_is_in_quarantine_for_a_limited_time() -> None:
    today = datetime.datetime.now(datetime.UTC).date()
    for test in quarantined():
        file, _, name = test.id.partition("::")
        assert f"def {name.rpartition('::')[2]}(" in (ROOT / file).read_text(encoding="utf-8"), test.id
        assert test.cause, test.id
        assert today - test.since <= LONGEST_STAY, f"{test.id} is in quarantine since {test.since}: mend or remove it"


def test_a_list_is_read(tmp_path: Path) -> None:
    path = tmp_path / "quarantine.toml"
    path.write_text('[[tests]]\nid = "tests/a.py::test_b"\nsince = 2026-11-28\ncause = "c"\n')
    assert quarantined(path) == [QuarantinedTest(id="tests/a.py::test_b", since=datetime.date(2026, 11, 28), cause="c")]


def test_a_failure_in_quarantine_is_expected(request: pytest.FixtureRequest) -> None:
    item = request.node
    mark_quarantined([item], [QuarantinedTest(id=item.nodeid, since=datetime.date(2026, 11, 28), cause="c")])
    assert item.get_closest_marker("xfail").kwargs == {"reason": "in quarantine: c", "strict": False}
    item.own_markers.clear()
