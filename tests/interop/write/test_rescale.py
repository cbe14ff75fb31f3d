"""Tables whose buckets interbed has rescaled are read and written by its peers."""

from pathlib import Path

import pytest

from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon
from tests.support.peers.process import PeerError
from tests.support.peers.pypaimon import PyPaimon

COLUMNS = [("dt", "STRING NOT NULL"), ("id", "STRING NOT NULL"), ("n", "BIGINT")]


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_java_and_pypaimon_continue_with_a_rescaled_table(
    java_paimon: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path, vectors: str
) -> None:
    java, ours, python = (
        java_paimon.table(tmp_path, "db.t"),
        interbed_table(tmp_path, "db.t"),
        pypaimon.table(tmp_path, "db.t"),
    )
    options = {"bucket": "2", "deletion-vectors.enabled": vectors}
    java.create(COLUMNS, primary_keys=["dt", "id"], partition_keys=["dt"], options=options)
    java.write([["ab"[i % 2], f"key-{i}", i] for i in range(40)])
    java.write([["ab"[i % 2], f"key-{i}", -i] for i in range(0, 40, 3)])
    before = java.read().comparable()
    ours.load().maintenance.rescale(3, {"dt": "a"})
    assert java.read().comparable() == python.read().comparable() == before
    with pytest.raises(PeerError, match="bucket num"):
        java.write([["a", "key-0", 7]])
    ours.load().maintenance.rescale(5)
    assert java.schema()["options"]["bucket"] == "5"
    assert java.read(filter={"op": "=", "field": "id", "value": "key-8"}).rows == [["a", "key-8", 8]]
    java.write([["a", "key-0", 7], ["b", "key-1", 8]])
    java.compact()
    assert ours.read().comparable() == java.read().comparable() == python.read().comparable()
    assert len(before) == len(ours.read().rows)
