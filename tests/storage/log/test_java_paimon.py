"""Java Paimon, which does not support the log, reads and writes tables with one."""

from pathlib import Path

from tests.storage.log.tables import create
from tests.storage.log.test_publishing import from_log
from tests.support.peers.java import JavaPaimon
from tests.support.servers.kafka import KafkaServer


def test_the_next_commit_publishes_rows_that_java_wrote(
    kafka: KafkaServer, tmp_path: Path, java_paimon: JavaPaimon
) -> None:
    table = create(kafka, tmp_path)
    table.upsert([{"id": 1, "v": "a"}])
    table.upsert([{"id": 2, "v": "b"}])
    java = java_paimon.table(tmp_path, table.name)
    assert java.read().comparable() == [[1, "a"], [2, "b"]]
    java.write([[1, "j"]])
    table.upsert([{"id": 3, "v": "c"}])
    expected = [
        (1, [{"id": 1, "v": "a", "_row_kind": 0}]),
        (2, [{"id": 2, "v": "b", "_row_kind": 0}]),
        (3, [{"id": 1, "v": "j", "_row_kind": 0}]),
        (4, [{"id": 3, "v": "c", "_row_kind": 0}]),
    ]
    assert from_log(table, 1, 4) == expected
    assert table.snapshots()[-1].log_offsets is not None
    assert java.read().comparable() == [[1, "j"], [2, "b"], [3, "c"]]
