"""Changes of rows in the flat messages of Alibaba's Canal.

    {"database": "shop", "table": "orders", "type": "UPDATE", "isDdl": false, "es": 1589373560000, "id": 9, …,
     "data": [{"id": "111", "weight": "5.18"}], "old": [{"weight": "5.15"}],
     "mysqlType": {"id": "INTEGER", "weight": "FLOAT"}, "sqlType": {…}, "pkNames": ["id"]}

`data` are the rows after the changes, or the deleted rows, with their values as texts. For each row of an update, `old`
has the earlier values of the changed columns. `mysqlType` states the types; columns that it lacks are texts. A message
about a table has a statement in `sql` and no `data`. It is skipped, except TRUNCATE and statements that end a table's
name (see mysql_statements). If a statement names several tables, `table` is one of them: the first one that DROP TABLE
names, the new name of a renamed one. Source: Canal's `FlatMessage`, `MQMessageUtils` and `DruidDdlParser`; Flink's
documentation, page Canal Format; Paimon's, page Kafka CDC.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from interbed.ingest.flow.changes import (
    BadMessage,
    DecodedMessages,
    EndedName,
    EndedTables,
    RowChanges,
    SourceTable,
    TableTruncation,
)
from interbed.ingest.flow.messages import Messages
from interbed.ingest.formats.arrays import Array, Indices, Mask, changed_rows, kept, mask_of, valid
from interbed.ingest.formats.by_table import (
    Headers,
    TableShapes,
    TableTexts,
    at_messages,
    is_one_of,
    listed_keys,
    texts_of,
)
from interbed.ingest.formats.json_objects import json_text
from interbed.ingest.formats.lacking_columns import (
    JsonRows,
    LackingColumns,
    columns_before,
    olds_with_null,
    unsent_before_at,
)
from interbed.ingest.formats.mysql_statements import DROPPED, ended_names
from interbed.ingest.formats.mysql_types import MysqlType, converted, mysql_type
from interbed.storage.base.errors import NotSupportedError

_SOME_ROWS = pa.list_(pa.struct([]))
_FIELDS: Mapping[str, pa.DataType] = {
    "database": pa.string(),
    "table": pa.string(),
    "type": pa.string(),
    "isDdl": pa.bool_(),
    "sql": pa.string(),
    "data": _SOME_ROWS,
    "old": _SOME_ROWS,
    "mysqlType": pa.struct([]),
    "pkNames": pa.list_(pa.string()),
}
_HEADER = pa.schema(_FIELDS)
# Paimon takes ROW for an insertion, too.
_INSERTS = ("INSERT", "ROW")
_UPDATE = "UPDATE"
_DELETE = "DELETE"
_ROWS = (*_INSERTS, _UPDATE, _DELETE)
_TRUNCATE = "TRUNCATE"
_STATEMENTS = ("CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX")
# The effect on the table of the message, if the statement is missing or cannot be parsed.
_ENDS = {"ERASE": DROPPED, "RENAME": "was renamed, or is another table that was renamed to its name"}
_PASSED_OVER = (
    *_STATEMENTS,
    *("GTID", "XACOMMIT", "XAROLLBACK", "MHEARTBEAT"),
    # TiCDC writes these between other messages.
    "TIDB_WATERMARK",
)


class CanalJson:
    """Decoder of Canal's messages; each table has a shape of its own. Not for use by several threads.

    If the stated types change, a table has several elements of changes, in their order.
    """

    def __init__(self) -> None:
        self._shapes = TableShapes(_HEADER, texts=("data", "old"))
        self._lacking = LackingColumns("data")

    def decode(self, messages: Messages) -> DecodedMessages:
        """Decode the changes of each table. Messages about tables, and those without a value, are skipped."""
        texts, places = texts_of(messages)
        if not len(texts):
            return DecodedMessages()
        headers = self._shapes.headers(texts)
        found = [each for each in (_first_truncation(headers), _first_ended(headers)) if each is not None]
        if found:
            last = min(found, key=lambda each: each.index)
            first = int(places[last.index])
            return self.decode(messages.slice(0, first)).before(replace(last, index=first))
        bad = list(headers.bad)
        tables = self._shapes.read(texts, _about_rows(headers, bad), bad)
        changes = [found for table in tables for run in _runs(table) for found in _changes(run, self._lacking, bad)]
        return at_messages(DecodedMessages(changes=changes, bad=bad), places)


def _first_truncation(headers: Headers) -> TableTruncation | None:
    """Return the first message that truncates a table."""
    found = headers.where(headers.has_one_of("type", (_TRUNCATE,)))
    if not len(found.index):
        return None
    database, table = (found.column(name)[0].as_py() for name in ("database", "table"))
    return TableTruncation(index=int(found.index[0]), source=SourceTable(database or "", table) if table else None)


def _first_ended(headers: Headers) -> EndedTables | None:
    """Return the first message that ends the name of a table."""
    statements = headers.where(_are_ddl(headers) | headers.has_one_of("type", _STATEMENTS))
    columns = [statements.column(name).to_pylist() for name in ("type", "database", "table", "sql")]
    # A loop over statements, which are few.
    for index, kind, database, table, sql in zip(statements.index.tolist(), *columns, strict=True):
        if names := _ended_by(kind, database or "", table, sql or ""):
            return EndedTables(index=index, names=names)
    return None


def _ended_by(kind: "str | None", database: str, table: "str | None", sql: str) -> list[EndedName]:
    """Return the names that a message with a statement ends."""
    read = ended_names(sql, database)
    names = list(read or ())
    ends = _ENDS.get(kind or "") if read is None or names else None
    if table and ends and not any(name.is_of(SourceTable(database, table)) for name in names):
        names.append(EndedName(database, table, ends))
    return names


def _are_ddl(headers: Headers) -> Mask:
    """Return which messages are about tables, not rows."""
    return mask_of(headers.column("isDdl").fill_null(False))


def _about_rows(headers: Headers, bad: list[BadMessage]) -> Headers:
    """Return the headers of messages about rows. Messages that cannot be decoded are added to `bad`."""
    others = _are_ddl(headers)
    rows = headers.has_one_of("type", _ROWS) & ~others
    unknown = headers.where(~rows & ~others & ~headers.has_one_of("type", _PASSED_OVER))
    bad += [
        BadMessage(i, f"its type is {kind!r}, which Canal lacks")
        for i, kind in zip(unknown.index.tolist(), unknown.column("type").to_pylist(), strict=True)
    ]
    dataless = rows & ~headers.has("data")
    bad += [BadMessage(i, "it has no data") for i in headers.index[dataless].tolist()]
    return headers.where(rows & ~dataless)


def _runs(table: TableTexts) -> Iterator[TableTexts]:
    """Split the messages of a table where the stated types change."""
    types: Any = table.column("mysqlType")
    changed = np.zeros(max(len(table.index) - 1, 0), bool)
    # A loop over columns; usually all values of a column are equal.
    for column in () if types is None else _as_texts(types).values():
        codes = column.dictionary_encode(null_encoding="encode").indices.to_numpy()
        changed |= codes[1:] != codes[:-1]
    ends = np.concatenate([np.flatnonzero(changed) + 1, [len(table.index)]])
    start = 0
    for end in ends.tolist():
        if end > start:
            yield table.slice(start, end)
        start = end


def _changes(run: TableTexts, lacking: LackingColumns, bad: list[BadMessage]) -> Iterator[RowChanges]:
    """Yield the changes of messages that state the same types, by the key that they declare."""
    stated, unknown = _stated(run)
    if unknown:
        bad += [BadMessage(i, unknown) for i in run.index.tolist()]
        return
    run = _well_formed(run, bad)
    data: Any = run.column("data")
    if data is None or not len(data):
        return
    lengths = _lengths(data)
    owner = np.arange(len(data)).repeat(lengths)
    rows = data.flatten()
    if not len(rows):
        return
    texts = _as_texts(rows)
    types: Any = run.column("type")
    updated, inserted = is_one_of(types, (_UPDATE,))[owner], is_one_of(types, _INSERTS)[owner]
    deleted = is_one_of(types, (_DELETE,))[owner]
    # A column with a stated type that no row has was not sent either.
    known = {**{name: pa.nulls(len(rows), pa.string()) for name in stated}, **texts}
    json_rows = JsonRows(
        source=run.source, texts=run.texts, owner=owner, columns=known, inserted=inserted, updated=updated
    )
    absent = lacking.of(json_rows)
    given = (name for name, column in texts.items() if column.null_count < len(rows) or name in absent.columns)
    names = [*stated, *(name for name in given if name not in stated)]
    if not names:
        bad += [BadMessage(i, "its rows have no columns") for i in run.index.tolist()]
        return
    after = {name: texts.get(name, pa.nulls(len(rows), pa.string())) for name in names}
    before = _before(run, after, owner, updated)
    changed, kinds, numbers = changed_rows(
        _struct(before),
        _struct(after),
        inserted=inserted,
        updated=updated,
        deleted=deleted,
    )
    columns, reasons = _converted(changed, stated)
    messages = owner[numbers]
    whole = np.ones(len(data), bool)
    # A loop over bad values.
    for row, reason in sorted(reasons.items()):
        if whole[messages[row]]:
            whole[messages[row]] = False
            bad.append(BadMessage(int(run.index[messages[row]]), reason))
    good = whole[messages]
    # A column that is null wherever it is named is not lacking.
    for name in (name for name in texts if name not in names and absent.may_lack):
        columns = columns.append_column(name, pa.nulls(len(messages)))
    if good.any():
        changes = RowChanges(
            source=run.source,
            rows=kept(columns, good),
            kinds=kinds[good],
            messages=run.index[messages[good]],
            stated=frozenset(stated),
            unsent=absent.unsent_at(numbers[good]),
            may_lack=absent.may_lack_at(numbers[good]),
            unsent_before=unsent_before_at(
                lacking.before_deletions(replace(json_rows, columns={**texts, **after}), deleted), numbers[good]
            ),
        )
        yield from listed_keys(run.column("pkNames"), len(data), without=()).part(changes, messages[good])


def _stated(run: TableTexts) -> tuple[Mapping[str, MysqlType], str | None]:
    """Return the types of columns, which all messages state alike; or the reason why a type is not supported."""
    types: Any = run.column("mysqlType")
    stated: dict[str, MysqlType] = {}
    for name, text in ({} if types is None else types[0].as_py() or {}).items():
        if text is None:
            continue
        try:
            stated[name] = mysql_type(str(text))
        except NotSupportedError as error:
            return {}, f"its column {name!r} can't be read: {error}"
    return stated, None


def _well_formed(run: TableTexts, bad: list[BadMessage]) -> TableTexts:
    """Return the messages whose rows exist, with old values if they are updates. Other messages are added to `bad`."""
    data: Any = run.column("data")
    if data is None:
        return run
    holes = np.zeros(len(data), bool)
    holes[np.arange(len(data)).repeat(_lengths(data))[~valid(data.flatten())]] = True
    bad += [BadMessage(i, "one of its rows is null") for i in run.index[holes].tolist()]
    old: Any = run.column("old")
    counts = np.zeros(len(data), np.int64) if old is None else _lengths(old)
    types: Any = run.column("type")
    odd = is_one_of(types, (_UPDATE,)) & (counts != _lengths(data)) & ~holes
    bad += [
        BadMessage(int(run.index[i]), f"it is an update of {_lengths(data)[i]} rows that has old values of {counts[i]}")
        for i in np.flatnonzero(odd)
    ]
    return run.where(~holes & ~odd)


def _before(run: TableTexts, after: Mapping[str, Array], owner: Indices, updated: Mask) -> Mapping[str, Array]:
    """Return the rows before the changes, including deleted rows."""
    old: Any = run.column("old")
    if old is None or not updated.any():
        return after
    types: Any = run.column("type")
    wanted = is_one_of(types, (_UPDATE,))
    first = np.searchsorted(owner, np.arange(len(run.index)))
    null: dict[str, list[int]] = {}
    # A loop over the few messages in which an old value may be null.
    for i, rows in olds_with_null(run.texts, wanted).items():
        for row, values in enumerate(rows):
            for name in (name for name, value in (values or {}).items() if value is None):
                null.setdefault(name, []).append(int(first[i]) + row)
    lengths = _lengths(old)
    starts = np.cumsum(lengths) - lengths
    place = np.where(updated, starts[owner] + np.arange(len(owner)) - first[owner], 0)
    rows_before: Any = old.flatten()
    aligned = rows_before.take(pa.array(place, mask=~updated))
    return columns_before(after, _as_texts(aligned), null)


def _converted(rows: pa.Table, stated: Mapping[str, MysqlType]) -> tuple[pa.Table, Mapping[int, str]]:
    """Return the columns with their stated types, and the reasons, by row, for values that are not of the type."""
    reasons: dict[int, str] = {}
    columns: dict[str, Any] = {}
    for name in rows.column_names:
        column: Any = rows.column(name).combine_chunks()
        if name in stated:
            column, found = converted(column, stated[name], name)
            reasons = {**found, **reasons}
        columns[name] = column
    return pa.table(columns), reasons


def _as_texts(rows: Any) -> dict[str, Array]:
    """Return the columns of an array of rows as texts, which they are in Canal's own messages."""
    found: dict[str, Array] = {}
    if not isinstance(rows.type, pa.StructType):
        return found
    for field, column in zip(rows.type, rows.flatten(), strict=True):
        if pa.types.is_nested(column.type):
            # No message of Canal's has such values.
            found[field.name] = pa.array([None if v is None else json_text(v) for v in column.to_pylist()], pa.string())
        else:
            found[field.name] = column.cast(pa.string())
    return found


def _struct(columns: Mapping[str, Array]) -> Any:
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _lengths(lists: Any) -> Indices:
    lengths: Indices = lists.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    return lengths
