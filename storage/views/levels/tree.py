"""The LSM tree of one bucket, made to be drawn: every sorted run with its files along an axis of keys.

Where the key is one number, date or timestamp the axis is to scale; otherwise the keys that bound files are laid out in
their order, at equal distances.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from interbed.storage.base.arrow_values import to_numpy
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.row.python_values import python_values
from interbed.storage.base.types.data_type import DataType
from interbed.storage.lsm.interval_partition import key_ranks
from interbed.storage.lsm.levels import Levels
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.schema.table_schema import TableSchema

_KEY_TEXT_LENGTH = 32
_GAUGE_MAX = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeFile:
    """A file: its size in bytes, its range of keys as text and from 0 to 1 along the axis, its time of creation.

    `created_millis` is local time without zone, as files have it. `deletes` is None when the file does not record it.
    """

    name: str
    bytes: int
    rows: int
    deletes: int | None
    least_key: str
    greatest_key: str
    start: float
    end: float
    created_millis: int

    def to_json(self) -> dict[str, Any]:
        """The file as a JSON object; its place on the axis is for drawing only."""
        created = datetime.fromtimestamp(self.created_millis / 1000, UTC).replace(tzinfo=None)
        return {
            "name": self.name,
            "bytes": self.bytes,
            "rows": self.rows,
            "deletes": self.deletes,
            "minKey": self.least_key,
            "maxKey": self.greatest_key,
            "created": created.isoformat(timespec="milliseconds"),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRun:
    """A sorted run: files in key order."""

    level: int
    files: tuple[TreeFile, ...]

    @property
    def bytes(self) -> int:
        """Bytes of the files."""
        return sum(f.bytes for f in self.files)

    @property
    def rows(self) -> int:
        """Records in the files."""
        return sum(f.rows for f in self.files)

    @property
    def created_millis(self) -> int:
        """When the newest of the files was made."""
        return max(f.created_millis for f in self.files)

    def to_json(self) -> dict[str, Any]:
        """The run as a JSON object."""
        return {"level": self.level, "files": [f.to_json() for f in self.files]}


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketTree:
    """The sorted runs of a bucket, newest first, and the numbers of runs at which something happens.

    `keys` names the key columns; `least_key` and `greatest_key` are the ends of the axis.
    """

    partition: str | None
    bucket: int
    runs: tuple[TreeRun, ...]
    max_level: int
    compaction_trigger: int
    stop_trigger: int
    keys: str
    least_key: str
    greatest_key: str

    @property
    def bytes(self) -> int:
        """Bytes of all files."""
        return sum(r.bytes for r in self.runs)

    @property
    def rows(self) -> int:
        """Records in all files."""
        return sum(r.rows for r in self.runs)

    @property
    def name(self) -> str:
        """The bucket with its partition."""
        return f"{self.partition + ' ' if self.partition else ''}bucket {self.bucket}"

    @property
    def state(self) -> str:
        """What the number of sorted runs means."""
        if len(self.runs) > self.stop_trigger:
            return "writers wait"
        return "compaction due" if len(self.runs) >= self.compaction_trigger else "in shape"

    @property
    def gauge(self) -> str:
        """A box for each run there is or may be without anybody waiting, filled for those there are; "" for too many.

        A thin line stands where compaction is due from, a thick one where writers wait from.
        """
        runs, trigger, stop = len(self.runs), self.compaction_trigger, self.stop_trigger
        if max(runs, stop) > _GAUGE_MAX:
            return ""
        return "".join(
            ("│" if i == trigger else "") + ("■" if i <= runs else "□") + ("┃" if i == stop else "")
            for i in range(1, max(runs, stop) + 1)
        )

    def to_json(self) -> dict[str, Any]:
        """The tree as a JSON object."""
        return {
            "partition": self.partition,
            "bucket": self.bucket,
            "maxLevel": self.max_level,
            "compactionTrigger": self.compaction_trigger,
            "stopTrigger": self.stop_trigger,
            "runs": [r.to_json() for r in self.runs],
        }


def tree_of(
    files: Sequence[DataFileMeta], schema: TableSchema, options: CoreOptions, *, partition: str | None, bucket: int
) -> BucketTree:
    """The tree of a bucket's files, of which there is at least one, in a table with a primary key."""
    levels = Levels.of(files, options.num_levels)
    newest_first = levels.files
    starts, ends, texts = _axis(newest_first, schema.key_types)
    count = len(newest_first)
    drawn = {
        file.file_name: TreeFile(
            name=file.file_name,
            bytes=file.file_size,
            rows=file.row_count,
            deletes=file.delete_row_count,
            least_key=texts[i],
            greatest_key=texts[count + i],
            start=float(starts[i]),
            end=float(ends[i]),
            created_millis=file.creation_time_millis,
        )
        for i, file in enumerate(newest_first)
    }
    runs = tuple(
        TreeRun(
            level=r.level,
            files=tuple(sorted((drawn[f.file_name] for f in r.run.files), key=lambda f: (f.start, f.end))),
        )
        for r in levels.runs
    )
    return BucketTree(
        partition=partition,
        bucket=bucket,
        runs=runs,
        max_level=levels.max_level,
        compaction_trigger=options.compaction_trigger,
        stop_trigger=options.stop_trigger,
        keys=", ".join(schema.trimmed_primary_keys),
        least_key=texts[int(np.argmin(starts))],
        greatest_key=texts[count + int(np.argmax(ends))],
    )


def _axis(
    files: Sequence[DataFileMeta], types: Sequence[DataType]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], list[str]]:
    """Where the files' ranges begin and end, from 0 to 1, and their least and then their greatest keys as text."""
    columns = decode_rows([f.min_key for f in files] + [f.max_key for f in files], types)
    texts = [_key_text(values) for values in zip(*(python_values(c) for c in columns), strict=True)]
    numbers = _numbers(columns)
    if numbers is None:
        least, greatest = key_ranks(files, types)
        numbers = np.concatenate([least, greatest]).astype(np.float64)
    low, high = numbers.min(), numbers.max()
    places = (numbers - low) / (high - low) if high > low else np.repeat([0.0, 1.0], len(files))
    return places[: len(files)], places[len(files) :], texts


def _numbers(columns: Sequence[Any]) -> npt.NDArray[np.float64] | None:
    """The keys as numbers to scale; None when they are none or not finite."""
    if len(columns) != 1:
        return None
    column, kind = columns[0], columns[0].type
    if pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        return None
    numbers: npt.NDArray[np.float64] = to_numpy(column.cast(pa.float64(), safe=False))
    return numbers if bool(np.isfinite(numbers).all()) else None


def _key_text(values: Sequence[object]) -> str:
    text = ", ".join(f"{value}" for value in values)
    return text if len(text) <= _KEY_TEXT_LENGTH else text[: _KEY_TEXT_LENGTH - 1] + "…"
