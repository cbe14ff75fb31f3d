"""Tables with deletion vectors that Java Paimon wrote, read by interbed."""

import random
from pathlib import Path

import pytest

from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon

COLUMNS = [("id", "INT NOT NULL"), ("p", "STRING"), ("v", "STRING")]


@pytest.mark.parametrize("bitmap64", ["false", "true"])
@pytest.mark.parametrize("placed", ["false", "true"])
def test_interbed_reads_javas_deletion_vectors(
    java_paimon: JavaPaimon, tmp_path: Path, bitmap64: str, placed: str
) -> None:
    options = {
        "bucket": "2",
        "deletion-vectors.enabled": "true",
        "deletion-vectors.bitmap64": bitmap64,
        "index-file-in-data-file-dir": placed,
        "target-file-size": "1 kb",
        "compaction.small-file-ratio": "0.001",
    }
    java = java_paimon.table(tmp_path, "db.t")
    java.create(COLUMNS, primary_keys=["id"], options=options)
    source = random.Random(7)
    ours = interbed_table(tmp_path, "db.t")
    vectors = 0
    for commit in range(6):
        ids = source.sample(range(400), 60 if commit else 300)
        kinds = [source.choice(["+I", "+I", "-D"]) if commit else "+I" for _ in ids]
        java.write([[i, f"p{i % 3}", f"v{commit}-{i}" * 5] for i in ids], kinds=kinds)
        seen, expected = ours.read(), java.read()
        assert seen.comparable() == expected.comparable()
        assert ours.read(columns=["v"]).comparable() == java.read(columns=["v"]).comparable()
        splits = ours.load().new_scan().plan().splits
        assert all(split.raw_convertible for split in splits)
        vectors += sum(len(split.deletion_files) for split in splits)
    assert vectors
    for filter_text, java_filter in (
        ("id < 50", {"op": "<", "field": "id", "value": 50}),
        ("p = 'p1'", {"op": "=", "field": "p", "value": "p1"}),
    ):
        assert ours.read(filter=filter_text).comparable() == java.read(filter=java_filter).comparable()
