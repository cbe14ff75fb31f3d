"""Twenty tables that are written while those who keep them in shape are killed and hung: see campaign.py."""

from pathlib import Path

import pytest

from tests.optimizer.service.campaign import Settings, run
from tests.support.tally import Tally

FAULTS = 12


@pytest.mark.long
@pytest.mark.parametrize(("catalog", "seed"), [("files", 1), ("metastore", 2)])
def test_a_campaign_leaves_rows_exact_and_nothing_behind(tmp_path: Path, tally: Tally, catalog: str, seed: int) -> None:
    result = run(Settings(catalog=catalog, seed=seed, faults=FAULTS), tmp_path)
    assert sum(result.faults.values()) == FAULTS
    assert result.commits
    assert result.states["succeeded"] > result.tables
    tally("kills and hangs of workers and schedulers of the optimizer", FAULTS)
