"""Changes of rows in the messages of Maxwell.

    {"database": "shop", "table": "orders", "type": "update", "ts": 1477053234, "xid": 23396, "commit": true,
     "data": {"id": 1, "m": 5.444}, "old": {"m": 4.2341}, "primary_key_columns": ["id"]}

`data` is the row after a change, or the deleted row; `old` has the earlier values of the columns that an update
changed. Types are not stated. If Maxwell runs with `output_nulls=false`, `old` lacks values that were null, and such a
column seems unchanged. A column that `data` lacks and `old` has is null now. Without `output_primary_key_columns`
messages state no key.

With `output_ddl` there are messages about tables. Those count that end a table's name: from then on it is the name of
another table or of none. A renamed table has its old name in `table` and `old`, its new name in `def`:

    {"type": "table-drop", "database": "shop", "table": "orders", "sql": …}   {"type": "database-drop", "database": …}
    {"type": "table-alter", "database": "shop", "table": "orders", "old": {"database": "shop", "table": "orders", …},
     "def": {"database": "shop", "table": "past_orders", …}, "sql": …}

Source: Maxwell's documentation, pages Data Format and Bootstrapping, and its classes `ResolvedTableAlter`,
`ResolvedTableDrop` and `ResolvedDatabaseDrop`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from interbed.ingest.flow.changes import BadMessage, DecodedMessages, EndedName, EndedTables, RowChanges, SourceTable
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Mask, changed_rows, valid
from interbed.ingest.formats.by_table import (
    Headers,
    TableShapes,
    TableTexts,
    at_messages,
    is_one_of,
    listed_keys,
    texts_of,
)
from interbed.ingest.formats.json_objects import parsed_object, sent_rows
from interbed.ingest.formats.lacking_columns import (
    JsonRows,
    LackingColumns,
    columns_before,
    olds_with_null,
    unsent_before_at,
)
from interbed.ingest.formats.mysql_statements import (
    DROPPED,
    DROPPED_DATABASE,
    REPLACED,
    REPLACED_BY_RENAME,
    ended_names,
    renamed,
)

_FIELDS: Mapping[str, pa.DataType] = {
    "database": pa.string(),
    "table": pa.string(),
    "type": pa.string(),
    "data": pa.struct([]),
    "old": pa.struct([]),
    "primary_key_columns": pa.list_(pa.string()),
}
_HEADER = pa.schema(_FIELDS)
_INSERTS = ("insert", "bootstrap-insert")
_UPDATE = "update"
_DELETE = "delete"
_ROWS = (*_INSERTS, _UPDATE, _DELETE)
_STATEMENTS = ("table-drop", "table-alter", "table-create", "database-drop")
_PASSED_OVER = ("bootstrap-start", "bootstrap-complete", "database-create", "database-alter", *_STATEMENTS)


class MaxwellJson:
    """Decoder of Maxwell's messages; each table has a shape of its own. Not for use by several threads."""

    def __init__(self) -> None:
        self._shapes = TableShapes(_HEADER, alike=("data", "old"))
        self._lacking = LackingColumns("data")

    def decode(self, messages: Messages) -> DecodedMessages:
        """Decode the changes of each table. Messages about tables, and those without a value, are skipped."""
        texts, places = texts_of(messages)
        if not len(texts):
            return DecodedMessages()
        headers = self._shapes.headers(texts)
        ended = _first_ended(headers, texts)
        if ended is not None:
            first = int(places[ended.index])
            return self.decode(messages.slice(0, first)).before(replace(ended, index=first))
        bad = list(headers.bad)
        tables = self._shapes.read(texts, _about_rows(headers, bad), bad)
        changes = [found for each in tables for found in _changes(each, self._lacking, bad)]
        return at_messages(DecodedMessages(changes=changes, bad=bad), places)


def _first_ended(headers: Headers, texts: Array) -> EndedTables | None:
    """Return the first message that ends the name of a table."""
    found = headers.where(headers.has_one_of("type", _STATEMENTS))
    # A loop over statements, which are few.
    for index in found.index.tolist():
        if names := _ended_by(_parsed(texts[index].as_py())):
            return EndedTables(index=index, names=names)
    return None


def _ended_by(message: Mapping[str, Any]) -> list[EndedName]:
    """Return the names that a message about a table or a database ends."""
    database, table = message.get("database") or "", message.get("table")
    match message.get("type"):
        case "database-drop" if database:
            return [EndedName(database, None, DROPPED_DATABASE)]
        case "table-drop" if table:
            return [EndedName(database, table, DROPPED)]
        case "table-create" if table:
            sql = message.get("sql")
            ends = ended_names(sql, database) if isinstance(sql, str) else ()
            return [EndedName(database, table, REPLACED)] if ends else []
        case "table-alter" if table:
            old, new = ({"database": database, "table": table, **_names(message.get(m))} for m in ("old", "def"))
            if old != new:
                new_name = str(SourceTable(new["database"], new["table"]))
                return [
                    EndedName(old["database"], old["table"], renamed(new_name)),
                    EndedName(new["database"], new["table"], REPLACED_BY_RENAME),
                ]
    return []


def _parsed(text: bytes) -> Mapping[str, Any]:
    """Parse the message; empty if Python cannot read a message that Arrow could read."""
    try:
        return parsed_object(text, takes_last=True)
    except ValueError:
        return {}


def _names(definition: Any) -> dict[str, str]:
    """Return the names in the definition of a table, as far as it has them."""
    found = definition if isinstance(definition, dict) else {}
    return {name: found[name] for name in ("database", "table") if isinstance(found.get(name), str)}


def _about_rows(headers: Headers, bad: list[BadMessage]) -> Headers:
    """Return the headers of messages about rows. Messages that cannot be decoded are added to `bad`."""
    rows = headers.has_one_of("type", _ROWS)
    unknown = headers.where(~rows & ~headers.has_one_of("type", _PASSED_OVER))
    bad += [
        BadMessage(i, f"its type is {kind!r}, which Maxwell lacks")
        for i, kind in zip(unknown.index.tolist(), unknown.column("type").to_pylist(), strict=True)
    ]
    dataless = rows & ~headers.has("data")
    oldless = headers.has_one_of("type", (_UPDATE,)) & ~headers.has("old") & ~dataless
    bad += [BadMessage(i, "it has no data") for i in headers.index[dataless].tolist()]
    bad += [BadMessage(i, "it is an update that has no old values") for i in headers.index[oldless].tolist()]
    return headers.where(rows & ~dataless & ~oldless)


def _changes(table: TableTexts, lacking: LackingColumns, bad: list[BadMessage]) -> list[RowChanges]:
    """Return the changes of a table, by the key that they declare."""
    after: Any = table.column("data")
    if after is None or not len(after):
        return []
    if not after.type.num_fields:
        bad += [BadMessage(i, "its row has no columns") for i in table.index.tolist()]
        return []
    types: Any = table.column("type")
    updated = is_one_of(types, (_UPDATE,))
    inserted, deleted = is_one_of(types, _INSERTS), is_one_of(types, (_DELETE,))
    before = _before(table, after, updated)
    json_rows = JsonRows(
        source=table.source,
        texts=table.texts,
        owner=np.arange(len(table.index)),
        columns=dict(zip([field.name for field in after.type], after.flatten(), strict=True)),
        inserted=inserted,
        updated=updated,
    )
    absent = lacking.of(json_rows)
    absent = absent.without({name: _is_in_old(table, name) for name in absent.names})
    rows, kinds, messages = changed_rows(before, after, inserted=inserted, updated=updated, deleted=deleted)
    changes = RowChanges(
        source=table.source,
        rows=rows,
        kinds=kinds,
        messages=table.index[messages],
        unsent=absent.unsent_at(messages),
        may_lack=absent.may_lack_at(messages),
        unsent_before=unsent_before_at(lacking.before_deletions(json_rows, deleted), messages),
        sent=sent_rows(table.texts, messages, kinds, _sent_value, table.rewritten),
    )
    return listed_keys(table.column("primary_key_columns"), len(table.index), without=None).part(changes, messages)


def _sent_value(message: Mapping[str, Any], name: str, is_before: bool, number: int) -> Any:
    """Return the value that a message has for a column. The row before an update is the row after it, except the old
    values.
    """
    old = message.get("old") if is_before and message.get("type") == _UPDATE else None
    return old[name] if old and name in old else message["data"].get(name)


def _is_in_old(table: TableTexts, name: str) -> Mask:
    """Return which messages have a value that is not null among the old values."""
    old: Any = table.column("old")
    if old is None or old.type.get_field_index(name) < 0:
        return np.zeros(len(table.index), bool)
    return valid(pc.struct_field(old, name))


def _before(table: TableTexts, after: Any, updated: Mask) -> Any:
    """Return the rows before the changes, including deleted rows."""
    if not updated.any():
        return after
    null: dict[str, list[int]] = {}
    # A loop over the few messages in which an old value may be null.
    for i, values in olds_with_null(table.texts, updated).items():
        for name in (name for name, value in values.items() if value is None):
            null.setdefault(name, []).append(i)
    old: Any = table.column("old")
    if (valid(old) & ~updated).any():
        old = old.take(pa.array(np.arange(len(old)), mask=~updated))
    names = [field.name for field in after.type]
    columns = columns_before(
        dict(zip(names, after.flatten(), strict=True)), dict(zip(names, old.flatten(), strict=True)), null
    )
    return pa.StructArray.from_arrays(list(columns.values()), fields=list(after.type))
