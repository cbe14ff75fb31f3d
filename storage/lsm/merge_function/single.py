"""Rows that are the only one of their key: no merge function changes them."""

from collections.abc import Sequence

import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.lsm.merge_function.api import Kinds
from interbed.storage.lsm.merge_function.deduplicate import is_retract


def single_rows(
    rows: pa.RecordBatch, kinds: Kinds | None, output: Sequence[str], *, drop_deletes: bool
) -> pa.RecordBatch:
    """The rows as they are, without those that delete when `drop_deletes` says so; not copied when need not be."""
    selected = rows.select(list(output))
    if kinds is None or not drop_deletes:
        return selected
    adds = ~is_retract(kinds)
    return selected if adds.all() else selected.filter(from_numpy(adds))
