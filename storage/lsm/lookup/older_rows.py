"""The rows that keys have in the levels below a compaction."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.storage.base.arrays import Positions
from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.row.binary_row import decode_rows
from interbed.storage.base.types.data_type import DataType
from interbed.storage.files.deletion.vector import DeletionVector
from interbed.storage.lsm.key_bounds import comparable_key
from interbed.storage.lsm.levels import Levels
from interbed.storage.lsm.lookup.cache import LookupFiles
from interbed.storage.lsm.sorted_run import SortedRun
from interbed.storage.meta.manifest.entry import DataFileMeta


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRows:
    """Rows of one file: `keys` are the numbers of the keys asked for, `positions` those of their rows in the file."""

    file: DataFileMeta
    keys: Positions
    positions: Positions


class OlderRows:
    """Finds keys in the levels above one, the lowest first, as that holds the newest rows."""

    def __init__(
        self,
        files: LookupFiles,
        levels: Levels,
        key_types: Sequence[DataType],
        path_of: Callable[[DataFileMeta], str],
        deleted_of: Callable[[DataFileMeta], DeletionVector | None],
    ) -> None:
        self._files = files
        self._levels = levels
        self._key_types = key_types
        self._path_of = path_of
        self._deleted_of = deleted_of

    def find(self, keys: Sequence["pa.Array[Any]"], *, above: int) -> list[FoundRows]:
        """Where the keys, which ascend, have their rows in levels greater than `above`; each key at most once.

        Rows that a deletion vector marks are not there; a row that deletes its key is, and hides older ones.
        """
        left = np.arange(len(keys[0]))
        found: list[FoundRows] = []
        for run in sorted((r for r in self._levels.runs if r.level > above), key=lambda r: r.level):
            for file in self._near(run.run, keys):
                if not len(left):
                    return found
                rest = [_taken(k, left) for k in keys]
                positions = self._files.of(file, self._path_of(file)).find(rest)
                there = positions >= 0
                deleted = self._deleted_of(file)
                if deleted is not None:
                    there &= ~deleted.contains(positions)
                if there.any():
                    found.append(FoundRows(file=file, keys=left[there], positions=positions[there]))
                    left = left[~there]
        return found

    def _near(self, run: SortedRun, keys: Sequence["pa.Array[Any]"]) -> list[DataFileMeta]:
        """The files of the run whose key range meets that of the keys, which ascend."""
        if not len(keys[0]):
            return []
        low, high = comparable_key(keys, 0), comparable_key(keys, len(keys[0]) - 1)
        least = decode_rows([f.min_key for f in run.files], self._key_types)
        greatest = decode_rows([f.max_key for f in run.files], self._key_types)
        return [
            file
            for i, file in enumerate(run.files)
            if comparable_key(least, i) <= high and comparable_key(greatest, i) >= low
        ]

    def rows(self, found: FoundRows, columns: Sequence[str]) -> pa.RecordBatch:
        """The records found, in the order of `found.positions`."""
        return self._files.of(found.file, self._path_of(found.file)).rows(found.positions, columns)


def _taken(column: "pa.Array[Any]", numbers: Positions) -> "pa.Array[Any]":
    indices: Any = from_numpy(numbers)
    taken: pa.Array[Any] = pc.take(column, indices, boundscheck=False)
    return taken
