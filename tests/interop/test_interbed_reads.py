"""interbed reads the golden tables of Java Paimon, every snapshot of them."""

import pytest

from tests.golden.load import DATABASE, TABLE_NAMES, WAREHOUSE, expected
from tests.support.peers.interbed import interbed_table


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_interbed_reads_the_golden_rows_of_every_snapshot(name: str) -> None:
    table = interbed_table(WAREHOUSE, f"{DATABASE}.{name}")
    expectation = expected(name)
    latest = table.read()
    assert list(latest.names) == expectation["latest"]["columns"]
    assert latest.comparable() == expectation["latest"]["rows"]
    for snapshot in expectation["snapshots"]:
        seen = table.read(snapshot_id=snapshot["id"])
        assert list(seen.names) == snapshot["columns"]
        assert seen.comparable() == snapshot["rows"]
