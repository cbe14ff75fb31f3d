"""Every operation on a table may be killed before any step on the disk, in every kind of table.

No row is lost, none reappears, and no table needs manual repair.
"""

from pathlib import Path

import pytest

from tests.storage.table.crashes.campaign import CampaignResult, run_campaign
from tests.storage.table.crashes.kinds import KINDS, NAME, Kind, new_table
from tests.storage.table.crashes.operations import OPERATIONS, can, history
from tests.support.dying_disk import opened
from tests.support.tally import Tally

COUNTED = "crash points of operations on a table"


def killed(kind: Kind, operation: str, directory: Path, *, tries: int | None = None) -> CampaignResult:
    """Run the campaign of an operation on a table of that kind."""
    template = directory / "template"
    catalog = opened(template)
    catalog.create_database("d")
    history(new_table(catalog, kind))
    OPERATIONS[operation].prepare(catalog, catalog.get_table(NAME))
    return run_campaign(template, kind, OPERATIONS[operation], directory, tries=tries)


@pytest.mark.sample(12)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_operation_is_atomic(operation: str, tmp_path: Path, tally: Tally) -> None:
    able = [name for name, kind in KINDS.items() if can(kind, operation)]
    kind = able[list(OPERATIONS).index(operation) % len(able)]
    campaign = killed(KINDS[kind], operation, tmp_path, tries=2)
    tally(COUNTED, campaign.points)
    assert not campaign.failures, "\n".join(campaign.failures[:5])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "operation"), [(name, each) for name in KINDS for each in OPERATIONS if can(KINDS[name], each)]
)
def test_an_operation_killed_at_any_step_loses_no_row(kind: str, operation: str, tmp_path: Path, tally: Tally) -> None:
    campaign = killed(KINDS[kind], operation, tmp_path)
    tally(COUNTED, campaign.points)
    tally("tables that lost rows or need a hand", len(campaign.failures))
    assert not campaign.failures, "\n".join(campaign.failures[:5])
