"""Detection of duplicate keys among a task's rows."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.spark_ext.handle.reports import RepeatedKeyError
from interbed.spark_ext.write.change_writer import REPEATED, DistinctKeys
from interbed.spark_ext.write.writer import check_distinct
from interbed.storage.meta.schema.table_schema import Schema

SCHEMA = pa.schema((pa.field("name", pa.string()), pa.field("id", pa.int64()), pa.field("v", pa.int32())))
KEYS = st.tuples(st.sampled_from(["", "a", "b", "a longer key of a row"]), st.integers(-2, 2))


@given(st.lists(st.lists(KEYS, max_size=5), max_size=4))
def test_a_duplicate_key_in_any_batch_is_detected_and_named(batches: list[list[tuple[str, int]]]) -> None:
    keys = DistinctKeys(Schema.from_pyarrow_schema(SCHEMA, primary_keys=["name", "id"]).to_table_schema())
    kept = []
    for batch in batches:
        rows = [{"name": name, "id": number, "v": number} for name, number in batch]
        kept.append(pa.RecordBatch.from_pylist(rows, schema=SCHEMA))
        keys.add(kept[-1])
    seen = [key for batch in batches for key in batch]
    twice = {f"name = {name}, id = {number}" for name, number in seen if seen.count((name, number)) > 1}
    found = keys.repeated(kept)
    assert found in twice if twice else found is None


def test_the_driver_refuses_duplicate_keys_that_a_task_reports() -> None:
    message = REPEATED + b"id = 7"
    check_distinct([b""])
    with pytest.raises(RepeatedKeyError, match="several rows with the primary key id = 7"):
        check_distinct([b"", len(message).to_bytes(4) + message])
