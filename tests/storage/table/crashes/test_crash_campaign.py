"""Every operation on a table may be killed before any step on the disk, whatever kind of table it is: no row is lost,
none returns, and no table needs a hand.
"""

from pathlib import Path

import pytest

from tests.storage.table.crashes.campaign import Campaign, opened, run_campaign
from tests.storage.table.crashes.kinds import KINDS, NAME, Kind, new_table
from tests.storage.table.crashes.operations import OPERATIONS, can, history


def killed(kind: Kind, operation: str, directory: Path, *, tries: int | None = None) -> Campaign:
    """The campaign of an operation on a table of that kind."""
    template = directory / "template"
    catalog = opened(template)
    catalog.create_database("d")
    history(new_table(catalog, kind))
    OPERATIONS[operation].prepare(catalog, catalog.get_table(NAME))
    return run_campaign(template, kind, OPERATIONS[operation], directory, tries=tries)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_killed_operation_is_none_or_whole(operation: str, tmp_path: Path) -> None:
    able = [name for name, kind in KINDS.items() if can(kind, operation)]
    kind = able[list(OPERATIONS).index(operation) % len(able)]
    campaign = killed(KINDS[kind], operation, tmp_path, tries=2)
    assert not campaign.failures, "\n".join(campaign.failures[:5])


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_no_operation_loses_a_row_wherever_it_is_killed(kind: str, tmp_path: Path) -> None:
    points, failures = 0, list[str]()
    for operation in OPERATIONS:
        if not can(KINDS[kind], operation):
            continue
        directory = tmp_path / operation.replace(" ", "-")
        directory.mkdir()
        campaign = killed(KINDS[kind], operation, directory)
        print(f"{kind}: {operation}: {campaign.points} crash points, {len(campaign.failures)} failures")
        points += campaign.points
        failures += [f"{operation} {failure}" for failure in campaign.failures]
    print(f"{kind}: {points} crash points in all, {len(failures)} tables that lost rows or need a hand")
    assert not failures, "\n".join(failures[:10])
