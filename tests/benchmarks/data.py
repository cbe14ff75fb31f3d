"""Input rows of all engines: 4M base rows, 5 upserts (80% of existing keys), one delete.

The module needs only numpy and pyarrow, so that peers can load it. The columns are an int64 key `id`, an int64, a
double, a 16-byte and a 64-byte string and a timestamp.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

UPSERTS = 5
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def _hex_strings(random: np.random.Generator, rows: int, width: int) -> pa.StringArray:
    letters = _HEX[random.integers(0, 16, (rows, width), dtype=np.uint8)]
    offsets: Any = np.arange(rows + 1, dtype=np.int32) * width
    content: Any = np.ascontiguousarray(letters)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(content))


def rows_for(ids: np.ndarray, seed: int) -> pa.Table:
    """Return one row for each id."""
    random = np.random.default_rng(seed)
    n = len(ids)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "amount": pa.array(random.integers(0, 10**12, n)),
            "price": pa.array(random.random(n)),
            "code": _hex_strings(random, n, 16),
            "text": _hex_strings(random, n, 64),
            "ts": pa.array(random.integers(0, 2 * 10**15, n)).cast(pa.timestamp("us")),
        }
    )


def make(directory: Path, base_rows: int) -> None:
    """Write base.arrow, upsert-0.arrow …, delete.arrow (ids only) and facts.json into the directory."""
    random = np.random.default_rng(7)
    ids = random.permutation(base_rows).astype(np.int64)
    _write(directory / "base.arrow", rows_for(ids, 1))
    size, top = base_rows // 20, base_rows
    for i in range(UPSERTS):
        known = random.choice(base_rows, size * 8 // 10, replace=False)
        fresh = np.arange(top, top + size - len(known))
        top += len(fresh)
        _write(directory / f"upsert-{i}.arrow", rows_for(random.permutation(np.concatenate([known, fresh])), 10 + i))
    gone = random.choice(base_rows, base_rows // 50, replace=False)
    _write(directory / "delete.arrow", rows_for(gone.astype(np.int64), 99))
    facts = {"rows_at_the_end": top - len(gone), "lookup": int(ids[base_rows // 3])}
    (directory / "facts.json").write_text(json.dumps(facts))


def read(path: Path) -> pa.Table:
    """Return a table written by `make`."""
    with pa.memory_map(str(path)) as source:
        return pa.ipc.open_file(source).read_all()


def _write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 << 17)
