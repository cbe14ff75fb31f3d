"""Names of the columns of a table, and the names that its columns have after a change of the table.

Grants on columns follow them. Names alone do not show whether a column was renamed, or dropped and another one added.
Clients of interbed send the pairs of names by field ids (COLUMN_CHANGES). Iceberg's commits on this server have field
ids as well. Without them, Hive's tables are those whose columns are known by their position: a column of the same
position and type with another name is a renamed one, as for Hive's statement ALTER TABLE ... CHANGE. Columns of tables
with field ids that are not sent keep their name, or lose their grants.
"""

import json
from collections.abc import Mapping, Sequence

from interbed.catalog.server.service.model import MetastoreColumn, MetastoreTable, StorageDescriptor, TableKind
from interbed.catalog.server.service.names import normalized

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
