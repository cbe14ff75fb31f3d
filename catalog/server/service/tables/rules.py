"""Rules that a table must satisfy to be stored, properties that follow from its values, and the names that its columns
have after a change of the table: pure functions.

Grants on columns follow the names of columns. Names alone do not show whether a column was renamed, or dropped and
another one added. Clients of interbed send the pairs of names by field ids (COLUMN_CHANGES). Iceberg's commits on this
server have field ids as well. Without them, Hive's tables are those whose columns are known by their position: a column
of the same position and type with another name is a renamed one, as for Hive's statement ALTER TABLE ... CHANGE.
Columns of tables with field ids that are not sent keep their name, or lose their grants.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from interbed.catalog.server.service.errors import InvalidObjectError, MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.model import (
    EXTERNAL_TABLE,
    MANAGED_TABLE,
    PARAMETER_EXTERNAL,
    PARAMETER_EXTERNAL_PURGE,
    SNAPSHOT_KINDS,
    MetastoreColumn,
    MetastoreTable,
    StorageDescriptor,
    TableKind,
)
from interbed.catalog.server.service.names import is_valid_table_name, normalized, shortened

EXPECTED_PARAMETER_KEY = "expected_parameter_key"
EXPECTED_PARAMETER_VALUE = "expected_parameter_value"

PARAMETER_TRANSACTIONAL = "transactional"
PARAMETER_TRANSACTIONAL_PROPERTIES = "transactional_properties"

PARAMETER_AUTO_PURGE = "auto.purge"
PARAMETER_SKIP_TRASH = "skip.trash"

COLUMN_TYPES = frozenset(
    (
        *("array", "map", "struct", "uniontype"),
        *("tinyint", "smallint", "int", "integer", "bigint", "float", "double", "decimal", "numeric"),
        *("boolean", "string", "varchar", "char", "binary", "void"),
        *("date", "datetime", "timestamp", "interval_year_month", "interval_day_time"),
        # Of Hive 4.2 and of Spark.
        *("variant", "interval", "timestamp_ntz", "timestamp_ltz"),
    )
)
"""The words that a column's type begins with. Hive checks no more of it; the rest is up to the SerDe."""

DERIVED_TYPE = "<derived from deserializer>"
"""Hive's word for a type that only the SerDe knows."""

_TYPE_WORD = re.compile(r"\s*(\w+)")

KEEP_STATISTICS = "DO_NOT_UPDATE_STATS"
"""The environment context's key that leaves the statistics of a table's files unchanged."""

CASCADE = "CASCADE"
"""The environment context's key that copies changed columns to the partitions, too."""


def check_table(table: MetastoreTable, *, keeps_transactional: bool = False, has_any_name: bool = False) -> None:
    """Raise InvalidObjectError if the table's name or columns cannot be stored, MetastoreError if it asks for
    transactions, unless `keeps_transactional`. With `has_any_name` the caller has checked the name.
    """
    if not has_any_name and not is_valid_table_name(table.name):
        raise InvalidObjectError(f"{shortened(table.name)} is not a valid object name")
    check_columns(table)
    if not keeps_transactional:
        check_without_transactions(table)


def check_columns(table: MetastoreTable, before: MetastoreTable | None = None) -> None:
    """Raise InvalidObjectError if a column has no name or type, or one of an unknown kind that the table did not have
    `before`, or if two columns or keys have the same name.
    """
    kept = set() if before is None else {column.type for column in _all_columns(before)}
    seen: set[str] = set()
    for column in _all_columns(table):
        if not column.name or not column.name.strip():
            raise InvalidObjectError(f"Table {table.name} has a column without a name")
        if not column.type:
            raise InvalidObjectError(f"Column {shortened(column.name)} of table {table.name} has no type")
        if column.type not in kept and not _is_known_type(column.type):
            raise InvalidObjectError(
                f"Column {shortened(column.name)} of table {table.name} has the unknown type {shortened(column.type)}"
            )
        if column.name.lower() in seen:
            raise InvalidObjectError(f"Duplicate column name {shortened(column.name)} in table {table.name}")
        seen.add(column.name.lower())


def _all_columns(table: MetastoreTable) -> tuple[MetastoreColumn, ...]:
    return (table.storage.columns if table.storage is not None else ()) + table.partition_keys


def _is_known_type(text: str) -> bool:
    word = _TYPE_WORD.match(text)
    return text == DERIVED_TYPE or (word is not None and word[1].lower() in COLUMN_TYPES)


def check_without_transactions(table: MetastoreTable, before: MetastoreTable | None = None) -> None:
    """Raise MetastoreError if the table's parameters ask for Hive's transactions (of all kinds, `insert_only` too),
    unless it had the same ones `before`: its writers need transaction ids, which this server does not assign.
    """
    asked = _transactional(table)
    if asked and asked != (_transactional(before) if before is not None else {}):
        named = ", ".join(f"{key}={value}" for key, value in sorted(asked.items()))
        raise MetastoreError(
            f"Table {shortened(table.database)}.{shortened(table.name)} asks for transactions ({shortened(named)}), "
            "which this server does not have: leave the property out, or set transactional=false"
        )


def _transactional(table: MetastoreTable) -> dict[str, str]:
    """Return the parameters by which a table asks for transactions; Hive reads their names without regard to case."""
    return {
        key: value
        for key, value in table.parameters.items()
        if key.lower() == PARAMETER_TRANSACTIONAL_PROPERTIES
        or (key.lower() == PARAMETER_TRANSACTIONAL and value.strip().lower() != "false")
    }


def check_expected_parameter(table: MetastoreTable, changed: MetastoreTable, context: Mapping[str, str]) -> None:
    """Compare the expected parameter of a compare-and-swap, which must also set a new value: MetastoreError otherwise.
    The text, with its typo, is Hive's: clients match on it.
    """
    key = context.get(EXPECTED_PARAMETER_KEY)
    expected = context.get(EXPECTED_PARAMETER_VALUE)
    if key is None or expected is None:
        return
    actual = table.parameters.get(key)
    if actual != expected:
        raise MetastoreError(
            f"The table has been modified. The parameter value for key '{key}' is "
            f"'{'null' if actual is None else actual}'. The expected was value was '{expected}'"
        )
    if key not in changed.parameters:
        raise MetastoreError(f"New value for expected key {key} is not set")


def stored_type(table_type: str, parameters: Mapping[str, str]) -> str:
    """Return the type that the parameter EXTERNAL makes of a table, whatever type the client sent."""
    if table_type in (MANAGED_TABLE, EXTERNAL_TABLE):
        external = parameters.get(PARAMETER_EXTERNAL, "").upper() == "TRUE"
        return EXTERNAL_TABLE if external else MANAGED_TABLE
    return table_type


def same_keys(left: Sequence[MetastoreColumn], right: Sequence[MetastoreColumn]) -> bool:
    """Return whether two lists of partition keys have the same names; types and comments may differ, as in Hive."""
    return [key.name.lower() for key in left] == [key.name.lower() for key in right]


def owns_data(table: MetastoreTable) -> bool:
    """Return whether dropping the table with its data deletes files."""
    purges = table.parameters.get(PARAMETER_EXTERNAL_PURGE, "").upper() == "TRUE"
    return not table.is_view and (not table.is_external or purges)


def check_may_empty(table: MetastoreTable) -> None:
    """Raise MetastoreError for a table whose files, or those of its partitions, are not deleted on their own: one that
    does not own its data, and one whose snapshots name these files.
    """
    named = f"{shortened(table.database)}.{shortened(table.name)}"
    if not owns_data(table):
        raise MetastoreError(f"Cannot truncate non-managed table {named}.")
    if table.kind in SNAPSHOT_KINDS:
        raise MetastoreError(
            f"The files of the table {named} or of its partitions cannot be deleted without the table, because its "
            "snapshots name them. Delete the rows by an engine that writes tables of this format."
        )


def skips_trash(table: MetastoreTable, *, purge: bool = False) -> bool:
    """Return whether the table's files are deleted rather than moved to the trash, by the request or the table's
    parameter.
    """
    return purge or any(
        table.parameters.get(key, "").lower() == "true" for key in (PARAMETER_AUTO_PURGE, PARAMETER_SKIP_TRASH)
    )


def data_locations(table: MetastoreTable, partition_locations: Iterable[str]) -> list[str]:
    """Return the directories to delete with the table: its own, and those of partitions that lie elsewhere."""
    if table.location is None or not owns_data(table):
        return []
    inside = table.location.rstrip("/") + "/"
    elsewhere = [location for location in partition_locations if not location.startswith(inside)]
    return [*elsewhere, table.location]


def table_not_found(database: str | None, name: str | None) -> NoSuchObjectError:
    """Return the error for a missing table, with Hive's text."""
    return NoSuchObjectError(f"{shortened(database)}.{shortened(name)} table not found")


COLUMN_CHANGES = "interbed.column-changes"
"""The property of a change with a JSON list of pairs: the name of each column before, and its name after or null."""


def names_after(
    old: MetastoreTable,
    new: MetastoreTable,
    properties: Mapping[str, str] | None = None,
    by_ids: Mapping[str, str] | None = None,
) -> Mapping[str, str] | None:
    """Return the new names of the columns of a changed table by their old ones, without those of dropped columns. None
    if all columns keep their names. `by_ids` are the names that field ids show, if they are known.
    """
    before, after = old.column_names, new.column_names
    if before == after and by_ids is None and not (properties and COLUMN_CHANGES in properties):
        return None
    remaining = set(after)
    known = by_ids if by_ids is not None else _sent(before, remaining, (properties or {}).get(COLUMN_CHANGES))
    if known is not None:
        return None if all(known.get(name) == name for name in before) else known
    kept = {name: name for name in before if name in remaining}
    if len(kept) == len(before):
        return None
    if old.kind is TableKind.HIVE and new.kind is TableKind.HIVE:
        return {**kept, **_renamed(_columns(old), _columns(new))}
    return kept


def _sent(before: Sequence[str], after: set[str], text: str | None) -> Mapping[str, str] | None:
    """Return the names that a client has sent; None for those of another version of the table than the stored one."""
    if text is None:
        return None
    try:
        pairs = [(normalized(old), None if new is None else normalized(new)) for old, new in json.loads(text)]
    except (TypeError, ValueError, AttributeError):
        return None
    if [old for old, _ in pairs] != list(before):
        return None
    return {old: new for old, new in pairs if new in after and new is not None}


def _renamed(old: Sequence[MetastoreColumn], new: Sequence[MetastoreColumn]) -> dict[str, str]:
    """Return the new name of the one column that differs in its name alone."""
    if len(old) != len(new):
        return {}
    differing = [
        (one, other) for one, other in zip(old, new, strict=True) if normalized(one.name) != normalized(other.name)
    ]
    if len(differing) != 1 or differing[0][0].type != differing[0][1].type:
        return {}
    one, other = differing[0]
    return {normalized(one.name): normalized(other.name)}


def _columns(table: MetastoreTable) -> Sequence[MetastoreColumn]:
    return (table.storage or StorageDescriptor()).columns
