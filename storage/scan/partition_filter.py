"""Filters of partitions for a scan or an overwrite, and the manifests that may hold files of them."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from interbed.storage.base.arrow_values import array_of
from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.conditions import bound_filter
from interbed.storage.base.predicate.expr import (
    AlwaysTrue,
    And,
    Comparison,
    IsNull,
    Op,
    Or,
    Predicate,
    bind,
    columns_of,
)
from interbed.storage.base.predicate.stats_filter import partition_select, select
from interbed.storage.base.row.binary_row import decode_row, decode_rows
from interbed.storage.base.row.values import coerce, parse_text
from interbed.storage.base.types.data_type import TIMESTAMPS, DataField, TypeRoot, is_atomic
from interbed.storage.meta.manifest.entry import ManifestFileMeta

PartitionChoice: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]] | Predicate | None
"""Partition specification, possibly partial; several of them; a predicate over partition columns; or None for all."""

Partitions: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]] | str | Predicate
"""Type of the `partitions` argument of a table's methods.

One specification, possibly partial, `{"dt": "2026-01-01"}`, selects all partitions that agree with it (`{}`: all
partitions). A list selects the partitions of each of its specifications (`[]`: none). A filter over partition columns
is a text or a predicate: `"dt < '2026-01-01'"`.
"""

_PRUNED_PARTITIONS = 64
_TIMES = TIMESTAMPS | {TypeRoot.DATE, TypeRoot.TIME}


class PartitionFilter(Protocol):
    """Filter of partitions, which are serialised BinaryRows."""

    def select(self, partitions: Collection[bytes]) -> frozenset[bytes]:
        """Return the selected partitions."""
        ...

    def manifests(self, manifests: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests, in order, whose statistics do not rule out a selected partition."""
        ...


class AllPartitions:
    """Filter that selects every partition."""

    def select(self, partitions: Collection[bytes]) -> frozenset[bytes]:
        """Return the partitions unchanged."""
        return frozenset(partitions)

    def manifests(self, manifests: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests unchanged."""
        return list(manifests)


class PredicatePartitions:
    """Filter of partitions by a predicate over partition columns, bound to them.

    `zeros` are the signs of the selected zeros, by position of their column: a predicate takes 0.0 and -0.0 as equal.
    """

    def __init__(
        self, predicate: Predicate, fields: Sequence[DataField], zeros: Mapping[int, float] | None = None
    ) -> None:
        self._predicate = predicate
        self._fields = fields
        self._zeros = zeros or {}

    def select(self, partitions: Collection[bytes]) -> frozenset[bytes]:
        """Return the partitions that fulfil the predicate."""
        distinct = list(dict.fromkeys(partitions))
        if not distinct:
            return frozenset()
        chosen = partition_select(self._predicate, distinct, self._fields)
        return frozenset(p for p, keep in zip(distinct, chosen, strict=True) if keep and self._has_zeros(p))

    def _has_zeros(self, partition: bytes) -> bool:
        if not self._zeros:
            return True
        values = decode_row(partition, [f.type for f in self._fields])
        return all(
            isinstance(value := values[place], float) and math.copysign(1, value) == sign
            for place, sign in self._zeros.items()
        )

    def manifests(self, manifests: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests that may hold such a partition."""
        return prune_manifests(manifests, self._predicate, self._fields)


class PartitionSet:
    """Filter that selects exactly the given partitions."""

    def __init__(self, partitions: Collection[bytes], fields: Sequence[DataField]) -> None:
        self._partitions = frozenset(partitions)
        self._fields = fields

    def select(self, partitions: Collection[bytes]) -> frozenset[bytes]:
        """Return the partitions in the set."""
        return self._partitions.intersection(partitions)

    def manifests(self, manifests: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests that may hold a partition of the set.

        These are all manifests when checking would cost more than reading.
        """
        if not self._partitions:
            return []
        if not self._fields or len(self._partitions) > _PRUNED_PARTITIONS:
            return list(manifests)
        types = [f.type for f in self._fields]
        any_of = Or(tuple(self._is(decode_row(p, types)) for p in sorted(self._partitions)))
        return prune_manifests(manifests, any_of, self._fields)

    def _is(self, values: Sequence[object]) -> Predicate:
        return And(
            tuple(
                IsNull(f.name) if v is None else Comparison(Op.EQ, f.name, v)
                for f, v in zip(self._fields, values, strict=True)
            )
        )


class AnyOfPartitions:
    """Filter that selects the partitions of any of several filters."""

    def __init__(self, filters: Sequence[PartitionFilter]) -> None:
        self._filters = tuple(filters)

    def select(self, partitions: Collection[bytes]) -> frozenset[bytes]:
        """Return the union of what the filters select."""
        return frozenset(p for f in self._filters for p in f.select(partitions))

    def manifests(self, manifests: Sequence[ManifestFileMeta]) -> list[ManifestFileMeta]:
        """Return the manifests that any of the filters needs, in order."""
        names = {m.file_name for f in self._filters for m in f.manifests(manifests)}
        return [m for m in manifests if m.file_name in names]


def prune_manifests(
    manifests: Sequence[ManifestFileMeta], predicate: Predicate, fields: Sequence[DataField]
) -> list[ManifestFileMeta]:
    """Return the manifests whose partition statistics do not rule out the predicate, bound to the partition columns."""
    known = [m for m in manifests if len(m.partition_stats.null_counts) == len(fields)]
    if not known or not fields:
        return list(manifests)
    types = [f.type for f in fields]
    names = [f.name for f in fields]
    mins = dict(zip(names, decode_rows([m.partition_stats.min_values for m in known], types), strict=True))
    maxs = dict(zip(names, decode_rows([m.partition_stats.max_values for m in known], types), strict=True))
    nulls = {
        name: array_of([m.partition_stats.null_counts[i] for m in known], pa.int64()) for i, name in enumerate(names)
    }
    rows = array_of([m.num_added_files + m.num_deleted_files for m in known], pa.int64())
    chosen = select(predicate, mins, maxs, nulls, rows)
    dropped = {m.file_name for m, keep in zip(known, chosen, strict=True) if not keep}
    return [m for m in manifests if m.file_name not in dropped]


def partition_choice(given: Partitions | None, fields: Sequence[DataField]) -> PartitionChoice:
    """Return the partitions that a caller names; `fields` are all columns of the table.

    Raises FilterError for a filter that does not parse, InvalidInputError for any other value that names no partition.
    """
    if isinstance(given, str | Predicate):
        return bound_filter(given, fields)
    if given is None or isinstance(given, Mapping):
        return given
    specs: list[Any] = list(given) if isinstance(given, Sequence) else [given]
    for spec in specs:
        if not isinstance(spec, Mapping):
            raise InvalidInputError(
                f"{spec!r} names no partition: `partitions` takes a mapping such as {{'dt': '2026-01-01'}}, "
                "a list of mappings, or a filter over partition columns."
            )
    return specs


def selects_all(given: PartitionChoice) -> bool:
    """Return whether the choice selects all partitions of any table."""
    return given is None or isinstance(given, AlwaysTrue) or (isinstance(given, Mapping) and not given)


def partition_filter(given: PartitionChoice, fields: Sequence[DataField], *, default_name: str) -> PartitionFilter:
    """Return the filter for partition specifications, a predicate over partition columns, or None for all.

    Specifications may be partial. Values are Python values or the text form of partition directories; None and the
    default name mean a null. Raises InvalidInputError for a column that is no partition column.
    """
    if given is None:
        return AllPartitions()
    if isinstance(given, Sequence):
        return AnyOfPartitions([partition_filter(each, fields, default_name=default_name) for each in given])
    names = [f.name for f in fields]
    columns = list(given) if isinstance(given, Mapping) else sorted(columns_of(given))
    for column in columns:
        if column not in names:
            raise InvalidInputError(
                f"{column!r} is not a partition column; "
                + (f"the table is partitioned by {', '.join(names)}." if names else "the table is not partitioned.")
            )
    if isinstance(given, Mapping):
        if not given:
            return AllPartitions()
        values = {
            c: None if v is None or v == default_name else _literal(v, fields[names.index(c)]) for c, v in given.items()
        }
        # -0.0 and 0.0 are two partitions.
        zeros = {names.index(c): math.copysign(1, v) for c, v in values.items() if isinstance(v, float) and v == 0}
        exact = And(tuple(IsNull(c) if v is None else Comparison(Op.EQ, c, v) for c, v in values.items()))
        return PredicatePartitions(bind(exact, fields), fields, zeros)
    return PredicatePartitions(bind(given, fields), fields)


def _literal(value: object, field: DataField) -> object:
    """Return a value of a partition specification as the column's Python value; text is parsed for other types."""
    if isinstance(value, int) and is_atomic(field.type, *_TIMES):
        # The value is in days, milliseconds or ticks, as partition values come from files.
        return coerce(value, field.type)
    if isinstance(value, int | float) and is_atomic(field.type, TypeRoot.FLOAT, TypeRoot.DOUBLE):
        # Round the value as the column does: a FLOAT is named by its rounded value.
        return coerce(value, field.type)
    if not isinstance(value, str) or is_atomic(field.type, TypeRoot.CHAR, TypeRoot.VARCHAR):
        return value
    try:
        return parse_text(value, field.type)
    except InvalidInputError as error:
        raise InvalidInputError(f"{value!r} is no value of the partition column {field.name!r}: {error}") from error
