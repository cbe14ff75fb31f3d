"""A task that writes groups of rows, each a bucket as a rule, from the blocks of the tasks that have read them.

    shared   the tokens of the tables' commits, by the table's number
    payload  how many rows each group has
    result   for each table its number, and what writer.encode_messages makes, after its length

The files bear the name of their table's job, so that an abort finds them, also those of a failed task.

A group is named by table, partition and bucket, and written by one task: two writers of one bucket would make a sorted
run each, and give the same sequence numbers to different rows of one key; see handle.clustering for the buckets that
are not fixed. Groups of one table come after one another in the order of their names.
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
from interbed.storage.write.bucket.choose import (
    BucketChooser,
    BucketsByPartition,
    FixedBuckets,
    OneBucket,
    distinct_partitions,
)
from interbed.storage.write.commit_message import CommitMessage

_DIGITS = 6


class TaskGroups:
    """Parts the rows of one table, the how-manieth one of a run is `number`.

    `unit` is Table.access.bucket_unit. Rows of a table without buckets may be written anywhere: by each of the tasks
    that read them, `task`, in a group of its own.
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
        """The names of the groups, and the numbers of the rows of each in their order."""
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
    """The number of the table that a group is of."""
    return int(group[:_DIGITS])


_HEAD = struct.Struct("!ii")


def shared_of(tokens: Mapping[int, CommitToken]) -> bytes:
    """What all tasks know: the tokens of the tables."""
    return json.dumps({number: b64encode(token.to_bytes()).decode() for number, token in tokens.items()}).encode()


def payload_of(rows: Mapping[str, int]) -> bytes:
    """The payload of a task: its groups, with how many rows each has."""
    return json.dumps(dict(rows)).encode()


def write(shared: bytes, payload: bytes, blocks: Iterator[tuple[str, bytes]]) -> bytes:
    """Carry out a task: write the rows of the blocks, which come table by table.

    Raises CommitFailedError when they are not as many as the driver was told; then nothing must be committed.
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
        # An executor was lost, and its messages, which were decoded again, made other rows.
        raise CommitFailedError("Messages that were read again for lost rows made other rows. Call the procedure anew.")
    return b"".join(found)


def _written(
    token: CommitToken,
    number: int,
    first: tuple[str, bytes],
    blocks: Iterator[tuple[str, bytes]],
    counts: Counter[str],
) -> tuple[bytes, tuple[str, bytes] | None]:
    """The messages of one table's rows, which are counted by group, and the block after the last one of them."""
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
    """The commit messages of what tasks returned, by the number of their table."""
    found: dict[int, list[CommitMessage]] = {}
    for result in results:
        at = 0
        while at < len(result):
            number, length = _HEAD.unpack_from(result, at)
            at += _HEAD.size
            found.setdefault(number, []).extend(decode_messages([result[at : at + length]]))
            at += length
    return found
