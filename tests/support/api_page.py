"""Tables of docs/api.md, made of the docstrings of the public names. `python -m tests.support.api_page` writes the
page.

The words around the tables are in this module. A test compares the page with the output of this module, so that a
change of one without the other fails.
"""

import inspect
import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import interbed
from interbed.storage.table.table_methods import PypaimonNames

INTERNAL = {("Table", "access"), ("TableVersions", "store"), ("TableMaintenance", "store")}
"""Members that the layers above storage use; they are not part of the API."""

PAGE = Path(__file__).parents[2] / "docs" / "api.md"


@dataclass(frozen=True)
class PageSection:
    """Heading, text below it, names in its table, and classes whose methods are listed."""

    title: str
    text: str
    names: tuple[str, ...]
    classes: tuple[str, ...] = ()


SECTIONS = (
    PageSection(
        "Catalogs",
        """\
A catalog has databases, and a database has tables; a table is named `database.table`.

```python
>>> import interbed
>>> import pyarrow as pa
>>> catalog = interbed.load_catalog("lake", warehouse=warehouse)
>>> catalog.create_database("shop")
>>> columns = pa.schema([("id", pa.int64()), ("day", pa.string()), ("amount", pa.float64())])
>>> catalog.create_table("shop.orders", columns, primary_keys=["day", "id"], partition_keys=["day"]).name
'shop.orders'
>>> catalog.list_tables("shop")
['orders']

```""",
        (
            "load_catalog",
            "Catalog",
            "FileSystemCatalog",
            "HiveCatalog",
            "RestCatalog",
            "Database",
            "DroppedEntry",
            "Identifier",
            "Partition",
            "CatalogFactory",
            "CatalogFunction",
            "FunctionDefinition",
            "FunctionChange",
            "AccessGrant",
            "AccessPolicy",
            "GrantHolder",
            "GrantObject",
            "RoleMembership",
        ),
        ("Catalog", "FunctionChange"),
    ),
    PageSection(
        "Tables",
        """\
Methods that write return the id of the snapshot that they made, or None when there was nothing to do.

`table.versions` has tags, branches and rollback, `table.maintenance` what keeps a table in shape and what repairs it.
The methods of both can also be called on the table itself.

A method that changes the table's schema (`update_schema`, `merge_schema`, `maintenance.rescale`,
`versions.fast_forward`, a write with `merge_schema=True`) changes the object that it is called on, too; other objects
of the same table go on with the columns that they were opened with. `copy` and `branch` return another table and leave
this one as it is.

`partitions` means the same wherever a method takes it: a mapping such as `{"day": "2026-01-01"}`, which may leave
partition columns out (`{}` means all partitions), a list of mappings, or a filter over partition columns.

An upsert replaces the row of its key as a whole: **columns that the data lack become null** (or their default), also
where the old row had a value. With `columns="present"` they keep it. The old rows are looked up, and the commit names
the snapshot of that lookup: after a commit of another writer in between the lookup is repeated, and a stream, which is
read once, ends with a CommitConflictError. In a list of dicts each may lack other columns; several
rows of a key are as an upsert for each, and refused if they have different columns and the table orders them by a
sequence. Columns with an aggregate function (`sum`) keep their values, too. Merge engines that merge rows by
themselves (aggregation, first-row) refuse it. In a partial-update table null keeps the old value in any case,
but for columns with a default: as in Java Paimon, null is the default there, which replaces the old value.

```python
>>> orders = catalog.get_table("shop.orders")
>>> orders.upsert(pa.table({"id": [1, 2], "day": ["mon", "tue"], "amount": [3.0, 9.5]}))
1
>>> orders.compact(partitions={"day": "mon"}).snapshot_id
2
>>> orders.overwrite(pa.table({"id": [3], "day": ["tue"], "amount": [1.0]}), partitions=[{"day": "tue"}])
3
>>> orders.delete_partitions("day < 'n'")
4
>>> orders.scan().to_arrow().to_pylist()
[{'id': 3, 'day': 'tue', 'amount': 1.0}]

```

In a specification such as `{"day": "mon"}` None and the text of `partition.default-name` mean null, as in Paimon. A
filter distinguishes them: `delete_partitions("day = '__DEFAULT_PARTITION__'")` deletes the rows whose `day` is this
text.""",
        (
            "Table",
            "TableVersions",
            "TableMaintenance",
            "load_table",
            "Snapshot",
            "Tag",
            "ChangeView",
            "SystemTable",
        ),
        ("Table", "TableVersions", "TableMaintenance"),
    ),
    PageSection(
        "Format tables and object tables",
        """\
`catalog.get_table` returns a FormatTable for a directory of plain files, and an ObjectTable for one of files of any
kind, which are its rows: [format-tables.md](format-tables.md).""",
        ("FormatTable", "ObjectTable"),
        ("FormatTable", "ObjectTable"),
    ),
    PageSection(
        "Reading",
        """\
`table.scan` returns a Scan, `table.changes` a ChangeQuery, `table.stream` a TableStream. Rows are read when they are
asked for.

```python
>>> query = orders.scan(columns=["id"], filter="amount >= 1", limit=10)
>>> query.to_arrow().to_pylist()
[{'id': 3}]
>>> query.count()
1

```""",
        ("Scan", "ChangeQuery", "TableStream", "Explanation"),
        ("Scan",),
    ),
    PageSection(
        "Iceberg's tables",
        """\
Tables in Iceberg's format are read as interbed's own: [iceberg.md](iceberg.md). Needs `interbed[iceberg]`.""",
        (
            "IcebergTable",
            "load_iceberg_table",
            "IcebergScan",
            "IcebergExplanation",
            "IcebergCompaction",
            "IcebergExpiry",
            "IcebergOrphans",
        ),
        ("IcebergTable",),
    ),
    PageSection(
        "Filters",
        """\
A filter is text, or an expression of columns. Both mean the same; the text is that of SQL: comparisons, `IN`,
`BETWEEN`, `LIKE`, `IS NULL`, combined by `AND`, `OR`, `NOT`. In expressions write `&`, `|`, `~`, and parentheses around
comparisons. What is inside of a column is asked for as `place.city` or `labels['env']`; in expressions
`col("place")["city"]`.

```python
>>> from interbed import col
>>> orders.scan(filter="amount between 0.5 and 2 and day in ('mon', 'tue')").count()
1
>>> orders.scan(filter=col("amount").between(0.5, 2) & col("day").is_in(["mon", "tue"])).count()
1
>>> orders.scan(filter=(col("id") == 3) | col("amount").is_null()).count()
1

```""",
        ("col", "Column", "Predicate"),
        ("Column",),
    ),
    PageSection(
        "Schemas and types",
        """\
A table is created from an Arrow schema, or from a Schema, which holds keys and options itself. Where a type is asked
for, it is text, an Arrow type or one of the classes below.

```python
>>> interbed.data_type("DECIMAL(10, 2) NOT NULL").precision
10
>>> interbed.data_type("ROW<street STRING, city STRING>").names
('street', 'city')

```""",
        (
            "Schema",
            "TableSchema",
            "DataField",
            "data_type",
            "DataType",
            "AtomicType",
            "TypeRoot",
            "ArrayType",
            "MapType",
            "MultisetType",
            "RowType",
        ),
    ),
    PageSection(
        "Values",
        """\
What is written is in the table as it was given, or it is refused with SchemaMismatchError, which names the column, the
row (counted from 0) and the value. The same holds for the parts of lists, maps and rows.

| from | to | |
|---|---|---|
| integers, decimals | integers, DECIMAL | if the value fits; `2.5` into INT is refused |
| integers | FLOAT, DOUBLE | up to 2^24 and 2^53 |
| floats | integers | whole numbers |
| floats | DECIMAL | by their shortest text: `0.1` is 0.1; `1.239` into DECIMAL(5, 2) is refused |
| floats, decimals | FLOAT, DOUBLE | the nearest value; a finite number beyond the range is refused |
| text | text | never parsed: cast the column first; more characters than CHAR(n) or VARCHAR(n) says are refused |
| bytes | BYTES; text, if they are UTF-8 | never parsed; more than BINARY(n) or VARBINARY(n) says are refused |
| timestamps without a zone | TIMESTAMP; TIMESTAMP WITH LOCAL TIME ZONE, taken for UTC | if no digits are lost |
| timestamps with a zone | TIMESTAMP WITH LOCAL TIME ZONE | refused for TIMESTAMP and DATE, which have no zone |
| timestamps without a zone | DATE | at midnight |
| dates | DATE, TIMESTAMP | |
| rows | ROW | fields by name; absent ones are null, unknown ones are refused or added by `merge_schema` |
| maps | MAP | a key that comes twice is refused |

NaN stays NaN, but in a pandas frame, where NaN is the mark of a missing value: there it is null. To write NaN from
pandas, pass its values as Arrow has them: `pa.table({"x": pa.array(frame["x"], from_pandas=False)})`.

The named levels of a pandas frame's index are columns. Whole numbers without a name count as the numbers of rows and
are left out. Other labels without a name are refused, and so is an index that differs from the column of its name.

In pandas integers beside nulls are floats. Where one of them is beyond 2^53, so that a float would be another number,
the column has Python integers and None instead.

Python values (lists of dicts, pandas columns of objects) are taken one by one: none depends on the values beside it. A
TIME is from 00:00 to before 24:00 and has no time zone; a DECIMAL has no more digits than its precision, also where an
Arrow array holds more. DuckDB's UHUGEINT, TIMETZ, BIT and BIGNUM are refused, as are its infinite dates and timestamps:
its Arrow data has other values for them. A text is UTF-8. Declared lengths hold within ARRAY, MAP and ROW, too.

DATE and TIMESTAMP reach beyond the years 1 to 9999 of Python's `date` and `datetime`; Arrow, Polars and DuckDB hold
such values. Where interbed gives values of Python (`get`, statistics, rows of pypaimon's builders), `FarDate` and
`FarTimestamp` stand for them: integers of days and of ticks since 1970-01-01, ordered among dates and datetimes, whose
`str` is as Java and Spark write it, `+10000-01-01`, `-0001-12-31 00:00:00`. They are taken as keys, literals and values
again, and filters and commands take that text: `day >= '+10000-01-01'`. `to_pandas` has them in columns of dates.
Methods of Arrow itself, such as `to_pylist`, raise OverflowError for them: cast the column to integers before
(`column.cast("int32")` of a DATE, `"int64"` of a TIMESTAMP).""",
        ("FarDate", "FarTimestamp"),
    ),
    PageSection(
        "Changing schemas",
        """\
`table.update_schema()` is a block of changes, which become one new version of the schema when it ends, or none when it
ends by an error. `catalog.alter_table` takes the same changes as values. A nested field is named by its path.

```python
>>> with orders.update_schema() as update:
...     _ = update.add_column("note", "STRING", comment="what the customer said")
...     _ = update.rename_column("amount", "total")
>>> orders.field_names
['id', 'day', 'total', 'note']
>>> from interbed import Move, SchemaChange
>>> changes = [SchemaChange.add_column("address", "ROW<city STRING>", move=Move.after("address", "id"))]
>>> catalog.alter_table("shop.orders", changes)
>>> catalog.alter_table("shop.orders", SchemaChange.add_column(["address", "street"], "STRING"))
>>> catalog.get_table("shop.orders").field_names
['id', 'address', 'day', 'total', 'note']

```""",
        ("SchemaUpdate", "SchemaChange", "Move"),
        ("SchemaChange", "Move"),
    ),
    PageSection(
        "What upkeep returns",
        "Results of `compact`, `plan_compaction`, `rescale`, `analyze`, `levels`, `health`, `expire_snapshots` and\n"
        "`remove_orphan_files`. Each prints itself, and has `to_json`, but TableStatistics. A TableHealth has a\n"
        "BucketHealth for each bucket, and a HealthReason for each thing that takes points from its score.",
        (
            "CompactionResult",
            "PlannedCompaction",
            "RescaleResult",
            "TableStatistics",
            "TableLevels",
            "TableHealth",
            "BucketHealth",
            "HealthReason",
            "ExpiryResult",
            "OrphansResult",
        ),
    ),
)


def page() -> str:
    """Return the page as the code has it."""
    parts = [
        "# Python API\n\n"
        "What `import interbed` offers. Names that are not here are internal and may change. Code written for\n"
        "pypaimon runs with its import changed to `interbed`.\n"
    ]
    parts += [_section(section) for section in SECTIONS]
    tree = (interbed.__doc__ or "").split("InterbedError:\n\n", 1)[1].strip()
    parts.append(
        "## Errors\n\nEvery error that a caller may meet derives from InterbedError; in parentheses are the built-in "
        f"classes from which\nsome derive as well.\n\n```text\n{tree}\n```\n\n{_table(_errors())}"
    )
    return "\n".join(parts)


def listed() -> list[str]:
    """Return the names on the page."""
    return [*(name for section in SECTIONS for name in section.names), *_errors(), "__version__"]


def members(owner: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class and its bases, in the order of the source."""
    seen: set[str] = set()
    for base in owner.__mro__:
        if not base.__module__.startswith("interbed."):
            continue
        for name, value in vars(base).items():
            plain = inspect.isfunction(value) or isinstance(value, property | staticmethod | classmethod)
            cached = type(value).__name__ == "cached_property"
            if (
                not name.startswith("_")
                and (owner.__name__, name) not in INTERNAL
                and name not in seen
                and (plain or cached)
            ):
                seen.add(name)
                yield name, value


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, as the cell of a table."""
    paragraph = " ".join(text.strip().split("\n\n", 1)[0].split())
    return re.split(r"(?<=[.])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0].replace("|", "\\|")


def _section(section: PageSection) -> str:
    names = f"\n{_table(section.names)}" if section.names else ""
    tables = [f"## {section.title}\n\n{section.text}\n{names}"]
    for name in section.classes:
        owner = getattr(interbed, name)
        aliases = {alias for alias, _ in members(PypaimonNames)} if issubclass(owner, PypaimonNames) else set()
        own = [(member, value) for member, value in members(owner) if member not in aliases]
        tables.append(f"### {name}\n\n{_members_table(own)}")
        if aliases:
            title = f"### {name} by pypaimon's names"
            tables.append(
                f"{title}\n\n[pypaimon.md](pypaimon.md) shows them.\n\n{_members_table(members(owner), aliases)}"
            )
    return "\n".join(tables)


def _members_table(found: Iterable[tuple[str, Any]], only: Set[str] | None = None) -> str:
    rows = [
        f"| `{_call(name, value)}` | {_words(name, value)} |" for name, value in found if only is None or name in only
    ]
    return "| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _table(names: Any) -> str:
    rows = [f"| `{name}` | {first_sentence(getattr(interbed, name).__doc__ or '')} |" for name in names]
    return "| | |\n|---|---|\n" + "\n".join(rows) + "\n"


def _errors() -> list[str]:
    tree = interbed.__doc__ or ""
    return sorted((n for n in interbed.__all__ if n.endswith("Error")), key=lambda n: tree.index(n))


def _words(name: str, value: Any) -> str:
    text = inspect.getdoc(_function(value)) or ""
    assert text, f"{name} has no docstring"
    return first_sentence(text)


def _call(name: str, value: Any) -> str:
    if not inspect.isfunction(value) and not isinstance(value, staticmethod | classmethod):
        return name
    parameters = [p for p in inspect.signature(_function(value)).parameters.values() if p.name not in ("self", "cls")]
    shown: list[str] = []
    star = False
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        star = star or parameter.kind is parameter.VAR_POSITIONAL
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.default)}"
        prefix = stars.get(parameter.kind, "")
        shown.append(f"{prefix}{parameter.name}{default}")
    return f"{name}({', '.join(shown)})"


def _default(value: object) -> str:
    return "…" if callable(value) else repr(value)


def _function(value: Any) -> Any:
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    return getattr(value, "fget", None) or getattr(value, "func", None) or value


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
