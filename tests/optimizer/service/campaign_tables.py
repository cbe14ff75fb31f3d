"""Tables of a campaign, one of each kind, and the writers that change them and know their expected rows.

Each row belongs to one writer, by its id. No two writers change the same row, so a writer's own record of its rows is
what the table must hold of them, whatever the order of the commits.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from interbed.catalog.client.api import Catalog
from interbed.storage.base.row.kind import RowKind
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.table import Table

TRIGGER = 3
SMALL_FILES = 4
PARTITIONS = 3
KEYS = 300
"""Keys of each writer in each table with a primary key."""
MOST_ROWS = 40
"""Rows of one commit."""

_READS = 0.2
"""Fraction of its commits after which a writer reads back its rows."""

Row = tuple[int, int, int | None, int | None]
"""The partition, the writer, `a` and `b`; the id identifies the row."""

Rows = Counter[tuple[int | None, ...]]
"""Rows by id, with the number of occurrences of each."""

Merge = Callable[[Row | None, Row], Row]
"""Merges a written row with the earlier one of the same key."""

_COLUMNS = ("id", "p", "w", "a", "b")
_SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("p", pa.int32(), nullable=False),
        pa.field("w", pa.int32()),
        pa.field("a", pa.int64()),
        pa.field("b", pa.int64()),
    ]
)
_KIND = "_row_kind"
_OPTIONS = {"write-only": "true", "snapshot.num-retained.min": "2", "snapshot.num-retained.max": "8"}


def newest(before: Row | None, row: Row) -> Row:
    """Keep the last row of a key."""
    return row


def first(before: Row | None, row: Row) -> Row:
    """Keep the first row of a key."""
    return before or row


def parts(before: Row | None, row: Row) -> Row:
    """Replace each value by the later one unless that is null."""
    if before is None:
        return row
    p, w, a, b = row
    return p, w, before[2] if a is None else a, before[3] if b is None else b


def totals(before: Row | None, row: Row) -> Row:
    """Keep the sum of `a` and the greatest `b`, nulls excluded."""
    if before is None:
        return row
    p, w, a, b = row
    known = [value for value in (before[2], a) if value is not None]
    great = [value for value in (before[3], b) if value is not None]
    return p, w, sum(known) if known else None, max(great, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableKind:
    """Kind of a table. A table with a primary key has a `merge`. `deletes`: rows of it are deleted, too. `is_late`:
    rows become visible only by a compaction. `is_counted`: ANALYZE ran on it, so its statistics are kept up to date.
    """

    name: str
    merge: Merge | None = None
    deletes: bool = False
    partitioned: bool = False
    is_late: bool = False
    is_counted: bool = False
    options: Mapping[str, str] = field(default_factory=dict)

    def make(self, catalog: Catalog) -> None:
        """Create the table of this kind."""
        keyed = self.merge is not None
        bounds = {
            "num-sorted-run.compaction-trigger": str(TRIGGER),
            "self-optimizing.minor.trigger.file-count": str(SMALL_FILES),
        }
        partition_keys = ["p"] if self.partitioned else []
        schema = Schema.from_pyarrow_schema(
            _SCHEMA,
            primary_keys=[*partition_keys, "id"] if keyed else [],
            partition_keys=partition_keys,
            options={**_OPTIONS, **bounds, **self.options},
        )
        catalog.create_table(self.name, schema, False)

    def rows(self, table: Table, writer: int | None = None) -> Rows:
        """Read the rows of the table, of all writers or of one."""
        found = table.scan(filter=None if writer is None else f"w = {writer}").to_arrow()
        return Counter(zip(*(found[name].to_pylist() for name in _COLUMNS), strict=True))


_SUMS = {
    "merge-engine": "aggregation",
    "fields.a.aggregate-function": "sum",
    "fields.b.aggregate-function": "max",
}
_VECTORS = {"deletion-vectors.enabled": "true"}
_PARTIAL = {"merge-engine": "partial-update"}
_LOOKUP = {"changelog-producer": "lookup"}
_ONE = {"bucket": "1"}
_TWO = {"bucket": "2"}

KINDS = (
    TableKind(name="shop.one_bucket", merge=newest, deletes=True, options=_ONE),
    TableKind(name="shop.two_buckets", merge=newest, deletes=True, options=_TWO),
    TableKind(name="shop.partitions", is_counted=True, merge=newest, deletes=True, partitioned=True, options=_ONE),
    TableKind(name="shop.vectors", merge=newest, deletes=True, is_late=True, options={**_TWO, **_VECTORS}),
    TableKind(
        name="shop.vectors_partitions",
        merge=newest,
        deletes=True,
        partitioned=True,
        is_late=True,
        options=_ONE | _VECTORS,
    ),
    TableKind(
        name="shop.vectors_lookup", merge=newest, deletes=True, is_late=True, options={**_ONE, **_VECTORS, **_LOOKUP}
    ),
    TableKind(name="shop.dynamic", merge=newest, deletes=True, options={"bucket": "-1"}),
    TableKind(name="shop.postponed", merge=newest, deletes=True, is_late=True, options={"bucket": "-2"}),
    TableKind(name="shop.first_row", merge=first, is_late=True, options={**_ONE, "merge-engine": "first-row"}),
    TableKind(name="shop.partial", merge=parts, options={**_TWO, **_PARTIAL}),
    TableKind(name="shop.partial_lookup", merge=parts, options={**_ONE, **_PARTIAL, **_LOOKUP}),
    TableKind(name="shop.sums", is_counted=True, merge=totals, options={**_ONE, **_SUMS}),
    TableKind(name="shop.sums_partitions", merge=totals, partitioned=True, options={**_ONE, **_SUMS}),
    TableKind(
        name="shop.changes_lookup",
        merge=newest,
        deletes=True,
        options={**_ONE, **_LOOKUP, "changelog.num-retained.min": "8", "changelog.num-retained.max": "12"},
    ),
    TableKind(
        name="shop.changes_full",
        merge=newest,
        deletes=True,
        options={
            **_ONE,
            "changelog-producer": "full-compaction",
            "self-optimizing.full.trigger.interval": "5 s",
        },
    ),
    TableKind(name="shop.changes_input", merge=newest, deletes=True, options={**_TWO, "changelog-producer": "input"}),
    TableKind(name="shop.visits", is_counted=True),
    TableKind(name="shop.visits_buckets", options={**_TWO, "bucket-key": "id"}),
    TableKind(name="shop.visits_vectors", deletes=True, options=_VECTORS),
    TableKind(
        name="shop.visits_sorted",
        deletes=True,
        partitioned=True,
        options={"self-optimizing.order-by": "a", "self-optimizing.full.trigger.interval": "10 s"},
    ),
)
"""Twenty kinds of tables."""


@dataclass(slots=True)
class Writer:
    """One of `writers` concurrent writers; `rows` has the rows that it has written, by table and id."""

    number: int
    writers: int
    random: random.Random
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)
    commits: Counter[str] = field(default_factory=Counter)
    reads: int = 0
    _appended: Counter[str] = field(default_factory=Counter)

    def write(self, catalog: Catalog, kind: TableKind) -> None:
        """Make one commit on a table. Conflicts are settled within it, so any error is a fault."""
        table = catalog.get_table(kind.name)
        rows = self.rows.setdefault(kind.name, {})
        if kind.merge is not None:
            self._change(table, kind, kind.merge, rows)
        elif kind.deletes and rows and self.random.random() < 0.25:
            self._delete(table, rows)
        else:
            self._append(table, kind, rows)
        self.commits[kind.name] += 1
        if not kind.is_late and self.random.random() < _READS:
            difference(kind.name, kind.rows(table, self.number), self.expected(kind.name))
            self.reads += 1

    def expected(self, table: str) -> Rows:
        """Return the rows that a table must hold of this writer."""
        return Counter((i, *row) for i, row in self.rows.get(table, {}).items())

    def _change(self, table: Table, kind: TableKind, merge: Merge, rows: dict[int, Row]) -> None:
        numbers = self.random.sample(range(KEYS), self.random.randint(1, MOST_ROWS))
        written = {number * self.writers + self.number: self._row(number) for number in numbers}
        deleted = {i for i in written if kind.deletes and self.random.random() < 0.2}
        kinds = [RowKind.DELETE if i in deleted else RowKind.INSERT for i in written]
        changes = _table(written).append_column(_KIND, pa.array(kinds, pa.int8()))
        table.write_changes(changes, kind_column=_KIND)
        for i, row in written.items():
            if i in deleted:
                rows.pop(i, None)
            else:
                rows[i] = merge(rows.get(i), row)

    def _append(self, table: Table, kind: TableKind, rows: dict[int, Row]) -> None:
        begin = self._appended[kind.name]
        end = begin + self.random.randint(1, MOST_ROWS)
        written = {number * self.writers + self.number: self._row(number) for number in range(begin, end)}
        table.append(_table(written))
        self._appended[kind.name] = end
        rows.update(written)

    def _delete(self, table: Table, rows: dict[int, Row]) -> None:
        begin = self.random.choice(sorted(rows))
        end = begin + self.random.randint(1, MOST_ROWS * self.writers)
        table.delete(f"w = {self.number} AND id >= {begin} AND id < {end}")
        for i in [i for i in rows if begin <= i < end]:
            del rows[i]

    def _row(self, number: int) -> Row:
        a, b = (None if self.random.random() < 0.2 else self.random.randrange(1_000_000) for _ in range(2))
        return number % PARTITIONS, self.number, a, b


def difference(table: str, found: Rows, wanted: Rows) -> None:
    """Raise an AssertionError with some of the rows when a table does not hold the wanted ones."""
    more, less = found - wanted, wanted - found
    assert found == wanted, (
        f"{table}: of {wanted.total()} rows {less.total()} are missing, as {sorted(less, key=str)[:5]}, and "
        f"{more.total()} are there that should not be, as {sorted(more, key=str)[:5]}"
    )


def _table(rows: Mapping[int, Row]) -> pa.Table:
    values = list(zip(*((i, *row) for i, row in rows.items()), strict=True))
    return pa.table(dict(zip(_COLUMNS, values, strict=True)), schema=_SCHEMA)
