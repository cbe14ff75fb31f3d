"""The partitions of a table, as its newest snapshot has them, and what a page of them is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.frozen import plain_errors

if TYPE_CHECKING:
    from interbed.storage.table.table import Table

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStatistics:
    """How much a partition holds.

    `spec` maps each partition column to the text of its value, in the table's order; null is the default name.
    Records are those of the files, not yet merged. `last_file_creation_time` in milliseconds since the epoch.
    """

    spec: Mapping[str, str]
    record_count: int
    file_size_in_bytes: int
    file_count: int
    last_file_creation_time: int
    total_buckets: int = 0


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Partition(PartitionStatistics):
    """A partition; `done` is for catalogs that mark partitions, which none of interbed's does."""

    done: bool = False


PartitionSpecs: TypeAlias = Mapping[str, object] | Sequence[Mapping[str, object]]
"""What the methods of a catalog take as `partitions`: one specification, or a list of them."""


def partition_specs(given: PartitionSpecs) -> list[Mapping[str, object]]:
    """The specifications that a caller gives, one or several; raises InvalidInputError for anything else."""
    specs: list[Any] = [given] if isinstance(given, Mapping) or not isinstance(given, Sequence) else list(given)
    for spec in specs:
        if not isinstance(spec, Mapping):
            raise InvalidInputError(
                f"{spec!r} names no partition: `partitions` takes a mapping such as {{'dt': '2026-01-01'}}, or a list "
                "of mappings."
            )
    return specs


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedList(Generic[T]):
    """A page; `next_page_token` is None on the last one."""

    elements: Sequence[T]
    next_page_token: str | None = None


def partitions_of(table: "Table") -> list[Partition]:
    """The partitions that have files in the newest snapshot, in the order of their values' text."""
    if not table.partition_keys:
        return []
    partitions = [
        Partition(
            spec=table.partition_spec(partition),
            record_count=found.records,
            file_size_in_bytes=found.bytes,
            file_count=found.files,
            last_file_creation_time=epoch_millis(found.created_millis),
            total_buckets=found.buckets,
        )
        for partition, found in table.partition_sums().items()
    ]
    return sorted(partitions, key=lambda p: tuple(p.spec.values()))


def partition_name(spec: Mapping[str, str]) -> str:
    """The name that pages are cut by and patterns are matched against: `dt=2026-01-31/h=1`, not escaped."""
    return "/".join(f"{column}={value}" for column, value in spec.items())


def epoch_millis(wall_millis: int) -> int:
    """A file's time, noted as wall-clock time of its writer, taken for that of this machine's zone as in Paimon."""
    wall = datetime.fromtimestamp(wall_millis / 1000, UTC).replace(tzinfo=None)
    return round(wall.timestamp() * 1000)
