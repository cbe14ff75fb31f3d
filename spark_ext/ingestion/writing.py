"""Task that writes groups of rows, usually buckets, from the blocks of the reading tasks.

    shared   the tokens of the tables' commits, by the table's number
    payload  the number of rows of each group
    result   for each table its number, the length of its encoded messages, and these (writer.encode_messages)

The names of files have the id of their table's job, so that an abort finds them, also those of a failed task.

The name of a group has table, partition and bucket, and one task writes it: two writers of one bucket would write a
sorted run each, and give the same sequence numbers to different rows of one key; see handle.row_changes for buckets
that are not fixed. Groups of one table are consecutive, in the order of their names.
"""

import json
import struct
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from interbed.spark_ext.write.writer import CommitToken, decode_messages, encode_messages
from interbed.storage.base.arrays import Ints
from interbed.storage.base.errors import CommitFailedError
from interbed.storage.meta.bucket_mode import BucketMode, bucket_mode
from interbed.storage.table.table import Table
from interbed.storage.write.bucket.route import (
    BucketChooser,
    BucketsByPartition,
    FixedBuckets,
    OneBucket,
    distinct_partitions,
)
from interbed.storage.write.commit_message import CommitMessage

_DIGITS = 6


class TaskGroups:
    """Partitions the rows of one table into groups; `number` is the table's number in the run.

    `unit` is Table.access.bucket_unit. Rows of a table without buckets form one group for each reading task (`task`).
    """

    def __init__(self, table: Table, number: int, unit: int, task: int) -> None:
        schema, options = table.schema, table.options
        self._schema = schema
        self._begin = f"{number:0{_DIGITS}}/"
        self._by_partition = True
        self._chooser: BucketChooser = OneBucket(0)
        match bucket_mode(schema, options):
            case BucketMode.FIXED:
                self._chooser = FixedBuckets(schema, options)
            case BucketMode.POSTPONED if unit:
                self._chooser = BucketsByPartition(schema, options, lambda _: unit)
            case BucketMode.DYNAMIC:
                pass
            case BucketMode.CROSS_PARTITION | BucketMode.POSTPONED:
                self._by_partition = False
            case BucketMode.NONE:
                self._chooser, self._by_partition = OneBucket(task), False

    def parted(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Ints]]:
        """Yield the names of the groups, each with the ascending numbers of its rows."""
        partitions, codes = distinct_partitions(batch, self._schema)
        buckets = self._chooser.choose(batch, partitions, codes).astype(np.int64)
        width = int(buckets.max()) + 1
        groups = buckets if not self._by_partition else codes * width + buckets
        order = np.argsort(groups, kind="stable")
        firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
        for rows in np.split(order, firsts[1:]):
            partition, bucket = divmod(int(groups[rows[0]]), width)
            name = partitions[partition].hex() if self._by_partition else ""
            yield f"{self._begin}{name}/{bucket}", rows


def table_number(group: str) -> int:
    """Return the number of a group's table."""
    return int(group[:_DIGITS])


_HEAD = struct.Struct("!ii")


def shared_of(tokens: Mapping[int, CommitToken]) -> bytes:
    """Encode the tokens of the tables, the shared part of all tasks."""
    sent = {number: token.for_executors().to_bytes() for number, token in tokens.items()}
    return json.dumps({number: b64encode(content).decode() for number, content in sent.items()}).encode()


def payload_of(rows: Mapping[str, int]) -> bytes:
    """Encode the payload of a task: its groups, with their numbers of rows."""
    return json.dumps(dict(rows)).encode()


def write(shared: bytes, payload: bytes, blocks: Iterator[tuple[str, bytes]]) -> bytes:
    """Carry out a task: write the rows of the blocks, which come table by table.

    Raises CommitFailedError when the number of rows differs from the payload's; then nothing must be committed.
    """
    tokens = {int(n): CommitToken.from_bytes(b64decode(token)) for n, token in json.loads(shared).items()}
    rows: Counter[str] = Counter()
    found = []
    waiting = next(blocks, None)
    while waiting is not None:
        number = table_number(waiting[0])
        content, waiting = _written(tokens[number], number, waiting, blocks, rows)
        found += [_HEAD.pack(number, len(content)), content]
    if rows != Counter(json.loads(payload)):
        # An executor was lost, and decoding its messages again has made other rows.
        raise CommitFailedError(
            "Messages that were decoded again after the loss of an executor made other rows. Call the procedure again."
        )
    return b"".join(found)


def _written(
    token: CommitToken,
    number: int,
    first: tuple[str, bytes],
    blocks: Iterator[tuple[str, bytes]],
    counts: Counter[str],
) -> tuple[bytes, tuple[str, bytes] | None]:
    """Write and count the rows of one table; return its messages, and the first block of the next table."""
    table = token.named(token.handle.open())
    block: tuple[str, bytes] | None = first
    with table.new_write(token.commit_user, batch=True) as writer:
        while block is not None and table_number(block[0]) == number:
            with pa.ipc.open_stream(block[1]) as stream:
                for batch in stream:
                    rows = pa.RecordBatch.from_arrays(batch.columns[1:], schema=batch.schema.remove(0))
                    writer.write_arrow(rows, batch.column(0))
                    counts[block[0]] += rows.num_rows
            block = next(blocks, None)
        messages = writer.prepare_commit()
    if not token.files(table).is_marked():
        table.new_commit(token.commit_user).abort(messages)
        raise CommitFailedError("The job of this task has ended without it; its files were deleted.")
    return encode_messages(messages), block


def messages_of(results: Sequence[bytes]) -> dict[int, list[CommitMessage]]:
    """Decode the commit messages of tasks' results, by the number of their table."""
    found: dict[int, list[CommitMessage]] = {}
    for result in results:
        at = 0
        while at < len(result):
            number, length = _HEAD.unpack_from(result, at)
            at += _HEAD.size
            found.setdefault(number, []).extend(decode_messages([result[at : at + length]]))
            at += length
    return found
