"""Twenty tables under concurrent writes while processes of the optimizer are killed and stopped: see campaign.py."""

from pathlib import Path

import pytest

from tests.optimizer.service.campaign import CampaignSettings, run
from tests.support.tally import Tally

FAULTS = 12


@pytest.mark.long
@pytest.mark.parametrize(("catalog", "seed"), [("files", 1), ("metastore", 2)])
def test_a_campaign_keeps_all_rows_and_leaves_no_files_behind(
    tmp_path: Path, tally: Tally, catalog: str, seed: int
) -> None:
    result = run(CampaignSettings(catalog=catalog, seed=seed, faults=FAULTS), tmp_path)
    assert sum(result.faults.values()) == FAULTS
    assert result.commits
    assert result.states["succeeded"] > result.tables
    tally("kills and hangs of workers and schedulers of the optimizer", FAULTS)
