"""Merge on read: the merged rows of the files of one bucket of a primary-key table.

Few columns are read. The key is read once, from the table's own columns (`_KEY_*` repeats them). Sequence numbers are
read only if files that may hold the same key have overlapping sequence ranges, row kinds only from files that may hold
delete records.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from interbed.storage.base.arrow_values import from_numpy
from interbed.storage.base.predicate.expr import AlwaysTrue, Predicate, restrict_to
from interbed.storage.base.prefetch import LazyIterator, PrefetchingIterator
from interbed.storage.base.types.arrow import type_to_arrow
from interbed.storage.base.types.data_type import DataField
from interbed.storage.files.deletion_vectors import DeletionVector
from interbed.storage.files.format.api import DecodeTally
from interbed.storage.io.prefetch.inputs import PrefetchedInputs
from interbed.storage.lsm.file_read import FileRead, ReadOptions, block_rows, prefetched_files
from interbed.storage.lsm.levels import SortedRun, order_in_tree
from interbed.storage.lsm.merge_function.api import LEVEL, MergeFunction
from interbed.storage.lsm.merge_function.factory import merge_function_for as function_of_schema
from interbed.storage.lsm.sort_merge import (
    NARROW_BLOCK_ROWS,
    NARROW_BYTES,
    MergePlan,
    RunBatch,
    RunInput,
    merge_runs,
)
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.manifest.entry import DataFileMeta
from interbed.storage.meta.schema.table_schema import SEQUENCE_NUMBER, VALUE_KIND

PathOf = Callable[[DataFileMeta], str]
DeletedOf = Callable[[DataFileMeta], DeletionVector | None]


def no_deletions(file: DataFileMeta) -> DeletionVector | None:
    """Return no deletion vector, for files without deleted rows."""
    return None


class RowSource(Protocol):
    """A source of the rows of files, such as FileRead."""

    def batches(self, file: DataFileMeta, path: str, options: ReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file in key order, with at least the requested columns; see FileRead."""
        ...


class MergeRead:
    """Merges sections of files into rows of the output fields, by a merge function."""

    def __init__(
        self,
        store: FileStore,
        output: Sequence[DataField],
        function: MergeFunction,
        tally: DecodeTally | None = None,
    ) -> None:
        self._function = function
        self._keys = store.schema.trimmed_primary_keys
        self._sequence_fields = store.options.sequence_fields
        self._descending = store.options.descending_sequence_fields
        self._output = tuple(f.name for f in output)
        seen = function.columns(self._output)
        self._with_level = LEVEL in seen
        needed = [n for n in (*seen, *self._keys, *self._sequence_fields) if n in store.schema.by_name]
        fields = {f.name: f for f in (*output, *store.schema.fields_named(dict.fromkeys(needed)))}
        self.fields = tuple(fields.values())
        """The columns that are read from files: those of the output, and those that the merge needs."""
        self._files = FileRead(store, self.fields, tally)
        self._block_rows = NARROW_BLOCK_ROWS if _are_narrow(self.fields) else None

    def section(
        self,
        runs: Sequence[SortedRun],
        path_of: PathOf,
        *,
        predicate: Predicate | None = None,
        with_system: bool = False,
        ordered: bool = True,
        use_threads: bool = False,
        readers: int = 1,
        rows_of_block: int | None = None,
        deleted_of: DeletedOf = no_deletions,
        source: RowSource | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Return the merged rows of one section: in key order, or with `ordered` false in any order within a block.

        `predicate` only skips parts of files; rows are not filtered. `with_system` adds `_SEQUENCE_NUMBER` and
        `_VALUE_KIND`. `readers` is the number of such streams that share the memory for blocks. `deleted_of` returns
        the deletion vectors of files. `source` provides the rows of files in place of the files themselves.
        """
        files = [f for run in runs for f in run.files]
        ages = file_ages(runs)
        by_sequence = ages is None or bool(self._sequence_fields)
        if ages is None:
            ages = ages_of_equal_numbers(files)
        sequence: tuple[str, ...] = (*self._sequence_fields, SEQUENCE_NUMBER) if by_sequence else ()
        with_sequence = with_system or (by_sequence and len(runs) > 1)
        if len(runs) > 1 and predicate is not None:
            # The merge must see all rows of a key, whatever their values, so only conditions on the key apply.
            predicate = restrict_to(predicate, self._keys)
        if isinstance(predicate, AlwaysTrue):
            predicate = None

        def options_of(file: DataFileMeta, batch_rows: int) -> ReadOptions:
            return ReadOptions(
                batch_rows=batch_rows,
                predicate=predicate,
                with_sequence=with_sequence,
                with_kind=with_system or file.delete_row_count != 0,
                use_threads=use_threads,
                deleted=deleted_of(file),
            )

        def aged(file: DataFileMeta, batches: Iterator[pa.RecordBatch]) -> Iterator[RunBatch]:
            for batch in batches:
                yield RunBatch(_with_level(batch, file.level) if self._with_level else batch, ages[file.file_name])

        def open_file(file: DataFileMeta, batch_rows: int) -> Iterator[RunBatch]:
            found = (source or self._files).batches(file, path_of(file), options_of(file, batch_rows))
            return aged(file, found)

        def open_run(run: SortedRun, batch_rows: int) -> Iterator[RunBatch]:
            opened = [partial(open_file, file, batch_rows) for file in run.files]
            if source is None and self._files.has_slow_requests:
                return prefetched_files(opened, run.files)
            return chain.from_iterable(each() for each in opened)

        output = (*self._output, SEQUENCE_NUMBER, VALUE_KIND) if with_system else self._output
        plan = MergePlan(
            keys=self._keys,
            output=output,
            sequence=sequence,
            ordered=ordered,
            descending=self._descending if by_sequence else 0,
        )
        rows = rows_of_block or self._block_rows or block_rows(files, readers=readers)

        def merged(open_one: Callable[[SortedRun, int], Iterator[RunBatch]]) -> Iterator[pa.RecordBatch]:
            inputs = [RunInput(row_count=run.row_count, open=partial(open_one, run)) for run in runs]
            return merge_runs(inputs, plan, self._function, block_rows=rows)

        def merged_at_once() -> Iterator[pa.RecordBatch]:
            def is_alone(run: SortedRun) -> bool:
                return len(run.files) == 1 and self._files.opens_at_once(run.files[0])

            with PrefetchedInputs(self._files.file_io) as coming:
                for run in filter(is_alone, runs):
                    coming.begin(path_of(run.files[0]), run.files[0].file_size)

                def open_alone(file: DataFileMeta, batch_rows: int) -> Iterator[RunBatch]:
                    found = self._files.opened(file, path_of(file), options_of(file, batch_rows), file_io=coming)
                    return aged(file, found)

                def open_at_once(run: SortedRun, batch_rows: int) -> Iterator[RunBatch]:
                    if is_alone(run):
                        return LazyIterator(partial(open_alone, run.files[0], batch_rows))
                    return PrefetchingIterator(partial(open_run, run, batch_rows))

                yield from merged(open_at_once)

        # Remote runs are opened concurrently. Runs of one file are opened by threads that decode nothing.
        return (
            merged_at_once() if source is None and len(runs) > 1 and self._files.has_slow_requests else merged(open_run)
        )


def _are_narrow(fields: Sequence[DataField]) -> bool:
    """Return whether rows of these fields have a fixed, small width."""
    types = [type_to_arrow(f.type) for f in fields]
    return all(pa.types.is_primitive(t) for t in types) and sum(t.bit_width for t in types) <= 8 * NARROW_BYTES


def _with_level(batch: pa.RecordBatch, level: int) -> pa.RecordBatch:
    levels: pa.Array[Any] = from_numpy(np.full(batch.num_rows, level, np.int8))
    # By schema, not by names, to keep the nullability of the columns.
    schema = batch.schema.append(pa.field(LEVEL, pa.int8()))
    return pa.RecordBatch.from_arrays([*batch.columns, levels], schema=schema)


def file_ages(runs: Sequence[SortedRun]) -> Mapping[str, int] | None:
    """Return an age for each file name that orders records of one key as their sequence numbers do.

    Return None if files of different runs have overlapping sequence ranges; then the numbers themselves must be
    compared. Within a run ranges may overlap, because no key is in two files of a run.
    """
    placed = sorted(
        (
            (f.min_sequence_number, f.max_sequence_number, i, f.file_name)
            for i, run in enumerate(runs)
            for f in run.files
        )
    )
    newest: dict[int, int] = {}
    for least, greatest, run, _ in placed:
        if any(seen >= least for other, seen in newest.items() if other != run):
            return None
        newest[run] = max(greatest, newest.get(run, greatest))
    return {name: age for age, (_, _, _, name) in enumerate(placed)}


def ages_of_equal_numbers(files: Sequence[DataFileMeta]) -> Mapping[str, int]:
    """Return an age for each file name that orders records of one key with one sequence number; see `order_in_tree`."""
    return {f.file_name: age for age, f in enumerate(sorted(files, key=order_in_tree))}


def merge_function_for(store: FileStore, *, drop_deletes: bool, merges_alone: bool = False) -> MergeFunction:
    """Return the merge function of the table; see merge_function.factory."""
    return function_of_schema(store.schema, store.options, drop_deletes=drop_deletes, merges_alone=merges_alone)
