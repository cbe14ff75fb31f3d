"""Conversion of incoming rows to the table's Arrow types."""

import struct

import pyarrow as pa

from interbed.storage.base.types.arrow import cast_to_schema

EMPTY = pa.py_buffer(b"")
INNER = pa.list_(pa.string())
OUTER = pa.list_(pa.struct([("a", pa.int32()), ("b", INNER)]))


def _as_java_sends_it() -> pa.RecordBatch:
    """One null list of structs with lists. It has no rows, and Arrow in Java writes no offsets for it."""
    text = pa.Array.from_buffers(pa.string(), 0, [None, EMPTY, EMPTY])
    inner = pa.Array.from_buffers(INNER, 0, [None, EMPTY], children=[text])
    rows = pa.Array.from_buffers(OUTER.value_type, 0, [None], children=[pa.array([], pa.int32()), inner])
    outer = pa.Array.from_buffers(
        OUTER, 1, [pa.py_buffer(b"\0"), pa.py_buffer(struct.pack("<ii", 0, 0))], children=[rows]
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("c", OUTER)])) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays([outer], ["c"]))
    return pa.ipc.open_stream(sink.getvalue()).read_next_batch()


def test_lists_without_offsets_get_them() -> None:
    batch = _as_java_sends_it()

    (cast,) = cast_to_schema(batch, batch.schema, what="the table")

    # Casting the batch as received crashes the process.
    assert cast.nbytes > 0
    assert cast.to_pylist() == [{"c": None}]
