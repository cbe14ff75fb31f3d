"""Shares of the long tests, by number, by commit or by date; each test belongs to one share."""

import datetime
from itertools import product

import pytest

from tests.support.shares import RunShare, ShareError, covering, share_of

TODAY = datetime.date(2026, 11, 22)
IDS = [f"tests/test_{i}.py::test" for i in range(200)]


def _share(text: str, commits: int = 0, today: datetime.date = TODAY) -> RunShare:
    return share_of(text, lambda: commits, today)


def test_each_test_belongs_to_one_share() -> None:
    shares = [_share(f"{number}/7") for number in range(1, 8)]

    assert all(sum(share.holds(name) for share in shares) == 1 for name in IDS)
    assert all(any(share.holds(name) for name in IDS) for share in shares)


def test_consecutive_commits_and_days_run_all_shares() -> None:
    by_commit = [_share("commit/5", commits) for commits in range(1600, 1605)]
    by_date = [_share("date/5", today=TODAY + datetime.timedelta(days)) for days in range(5)]

    for taken in (by_commit, by_date):
        assert sorted(share.number for share in taken) == [1, 2, 3, 4, 5]
        assert {share.count for share in taken} == {5}


def test_a_share_is_repeated_by_its_printed_name() -> None:
    share = _share("commit/5", 1602)

    assert str(share) == "3/5"
    assert _share(str(share)) == share


@pytest.mark.parametrize("text", ["", "3", "0/4", "5/4", "1/0", "-1/4", "commit/", "month/4", "1/4/8"])
def test_an_invalid_share_is_refused_with_a_remedy(text: str) -> None:
    with pytest.raises(ShareError, match=r"names no share: write k/n"):
        _share(text)


def test_a_covering_selection_has_every_pair_of_values_and_is_smaller_than_the_product() -> None:
    rows = list(product("abc", "123", "xyz"))

    chosen = covering(rows)

    assert len(chosen) < len(rows) / 2
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert {(row[i], row[j]) for row in chosen} == {(row[i], row[j]) for row in rows}
