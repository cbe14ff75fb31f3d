"""Memory is bounded independently of the number of rows; `python -m tests.benchmarks.memory` measures the full size."""

from pathlib import Path

import pytest

from tests.benchmarks.memory import MERGE_LIMIT_MB, WRITER_CONSTANT_MB, in_process

BUFFER_MB = 16


@pytest.mark.long
def test_a_writer_with_a_thousand_open_buckets_stays_within_its_buffer(tmp_path: Path) -> None:
    """The rows take several times the buffer, and each bucket's few rows are a slice of a batch at first."""
    figures = in_process("write_buckets", tmp_path, 500_000, 1_000, BUFFER_MB)
    assert figures["files"] == 1_000
    assert figures["peak_mb"] < BUFFER_MB + WRITER_CONSTANT_MB


# In every run, test_sort_merge.py counts the rows that a merge holds.
@pytest.mark.long
def test_merging_twenty_runs_holds_a_block_in_memory_not_the_runs(tmp_path: Path) -> None:
    in_process("write_runs", tmp_path, 600_000, 20)
    scanned = in_process("scan_runs", tmp_path)
    compacted = in_process("compact_runs", tmp_path)
    assert scanned["rows"] == compacted["rows"] > 300_000
    assert max(scanned["peak_mb"], compacted["peak_mb"]) < MERGE_LIMIT_MB
