"""Tables and rows for programs that are written for pypaimon."""

from typing import Any

import pyarrow as pa

import interbed
from interbed import pypaimon as pp

ORDERS = pa.schema(
    (pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string()), pa.field("amount", pa.float64()))
)
PLACES = pa.schema([("id", pa.int64()), ("at", pa.struct([("city", pa.string()), ("no", pa.int32())]))])


def bought(*rows: tuple[int, str | None, float | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(ORDERS.names, row, strict=True)) for row in rows], schema=ORDERS)


def written(table: interbed.Table, data: pa.Table, *callbacks: pp.CommitCallback) -> None:
    builder = table.new_batch_write_builder()
    with builder.new_write() as write, builder.new_commit() as commit:
        for callback in callbacks:
            commit.add_commit_callback(callback)
        write.write_arrow(data)
        commit.commit(write.prepare_commit())


def numbers(read: pp.TableRead, splits: Any) -> list[int]:
    column: Any = read.to_arrow(splits)["n"]
    found: list[int] = column.to_pylist()
    return found
