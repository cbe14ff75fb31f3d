"""Answers that are kept: to reads of metadata, as the bytes that went out, until a change touches what they contain.

An answer is found by the bytes of the call, all but the sequence id. It stands for the generation of metadata that the
cache is at (see repository/generation.py); before answers are given out the cache is brought to the generation of the
moment, dropping what the events in between name. So a read that begins after a change was acknowledged sees it,
whichever process or server made the change.

Each answer depends on a scope: a table, the names in a database, everything in a database, and so on. Calls that are
not listed here are never kept.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from interbed.catalog.server.database.generation import GenerationChanges, Touch
from interbed.catalog.server.service.events import EventType
from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.thrift.edge.dispatch import Answer
from interbed.catalog.server.thrift.structs.convert import split_catalog

Scope = tuple[str, ...]
"""What an answer depends on: (catalog, database, table), or fewer of them for everything below. Instead of a database
or a table stands _NAMES for a list of their names, _TYPES for a list of tables with their types, and _ITSELF for what
the tables of a database have no part in.
"""

# No name has these characters.
_NAMES = "*names"
_TYPES = "*types"
_ITSELF = "*itself"

_LEAVES_NAMES = frozenset(
    {
        EventType.ADD_PARTITION,
        EventType.ALTER_PARTITION,
        EventType.DROP_PARTITION,
        EventType.INSERT,
        EventType.ADD_PRIMARYKEY,
        EventType.ADD_FOREIGNKEY,
        EventType.ADD_UNIQUECONSTRAINT,
        EventType.ADD_NOTNULLCONSTRAINT,
        EventType.ADD_DEFAULTCONSTRAINT,
        EventType.ADD_CHECKCONSTRAINT,
        EventType.DROP_CONSTRAINT,
        EventType.UPDATE_TABLE_COLUMN_STAT,
        EventType.UPDATE_PARTITION_COLUMN_STAT,
        EventType.DELETE_TABLE_COLUMN_STAT,
        EventType.DELETE_PARTITION_COLUMN_STAT,
    }
)
"""Events of a table after which the lists of tables are as before."""

ANSWER_BYTES_SHARE = 8
"""An answer may take one part in so many of the cache: a list of a million names must not drive out all others."""

_ENTRY_OVERHEAD_BYTES = 600
"""About what an entry costs beside its bytes: objects, keys, the index."""


class Entry:
    """An answer that is kept. `valid` becomes False when it is dropped."""

    __slots__ = ("after", "before", "key", "method", "outcome", "scope", "size", "valid")

    def __init__(self, key: bytes, answer: Answer, scope: Scope) -> None:
        self.key = key
        self.method = answer.method
        self.outcome = answer.outcome
        self.before = answer.before
        self.after = answer.after
        self.scope = scope
        self.size = len(key) + len(answer.before) + len(answer.after) + _ENTRY_OVERHEAD_BYTES
        self.valid = True


class AnswerCache:
    """Answers by the bytes of their calls, the least recently used of which go when there are too many bytes.

    `find` and `apply` are for one thread; `keep` is safe from any.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        self._by_scope: dict[Scope, dict[bytes, Entry]] = {}
        self._guard = threading.Lock()
        self._bytes = 0
        self.hits = 0
        """Answers that were given out, counted by whoever does it."""
        self.misses = 0
        """Answers that were offered, having been made the long way."""
        self.generation = -1
        """What the entries stand for; -1 before the first look, when nothing is kept."""

    @property
    def size(self) -> int:
        """Bytes in use, about."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes) -> Entry | None:
        """The answer as of `generation`; whoever sends it brings the cache up to date first."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def keep(self, key: bytes, answer: Answer, generation: int) -> bool:
        """Keep an answer that was made after the cache had come to this generation; whether it was kept.

        It is not if the cache has gone on since: the answer may be older than what made it go on.
        """
        finder = _SCOPES.get(answer.method)
        if finder is None:
            return False
        entry = Entry(key, answer, finder(answer.arguments)) if answer.lasting else None
        with self._guard:
            self.misses += 1
            if entry is None or entry.size * ANSWER_BYTES_SHARE > self._bytes_max:
                return False
            if generation != self.generation or generation < 0:
                return False
            old = self._entries.get(key)
            if old is not None:
                self._drop(old)
            while self._entries and self._bytes + entry.size > self._bytes_max:
                self._drop(next(iter(self._entries.values())))
            self._entries[key] = entry
            self._by_scope.setdefault(entry.scope, {})[key] = entry
            self._bytes += entry.size
        return True

    def apply(self, changes: GenerationChanges) -> None:
        """Come to a generation, dropping what was touched on the way."""
        if changes.generation == self.generation:
            return
        with self._guard:
            if changes.touched is None or changes.generation < self.generation or self.generation < 0:
                self._drop_all(list(self._by_scope))
            else:
                for touch in changes.touched:
                    self._drop_touched(touch)
            self.generation = changes.generation

    def clear(self) -> None:
        """Drop everything and forget the generation."""
        with self._guard:
            self._drop_all(list(self._by_scope))
            self.generation = -1

    def _drop_touched(self, touch: Touch) -> None:
        catalog, database, table = touch.catalog, touch.database, touch.table
        if catalog is None:
            self._drop_all(list(self._by_scope))
        elif database is None:
            self._drop_all([scope for scope in self._by_scope if scope[:1] in ((), (catalog,))])
        elif table is None:
            above: list[Scope] = [(), (catalog,), (catalog, _NAMES)]
            self._drop_all([*above, *(scope for scope in self._by_scope if scope[:2] == (catalog, database))])
        else:
            self._drop_all(_scopes_of_table(touch.type, catalog, database, table, renamed=touch.previous is not None))
            if touch.previous is not None:
                self._drop_all(_scopes_of_table(touch.type, *touch.previous, renamed=True))

    def _drop_all(self, scopes: Iterable[Scope]) -> None:
        for scope in scopes:
            for entry in list(self._by_scope.get(scope, {}).values()):
                self._drop(entry)

    def _drop(self, entry: Entry) -> None:
        entry.valid = False
        del self._entries[entry.key]
        self._bytes -= entry.size
        same = self._by_scope[entry.scope]
        del same[entry.key]
        if not same:
            del self._by_scope[entry.scope]


def _scopes_of_table(kind: str, catalog: str, database: str, table: str, *, renamed: bool) -> Iterator[Scope]:
    yield ()
    yield (catalog,)
    yield (catalog, database)
    yield (catalog, database, table)
    if kind not in _LEAVES_NAMES:
        yield (catalog, database, _TYPES)
        if renamed or kind != EventType.ALTER_TABLE:
            yield (catalog, database, _NAMES)


def _table(database: str | None, table: str | None, catalog: str | None = None) -> Scope:
    split, name = split_catalog(database, catalog)
    return (split, normalized(name), normalized(table))


def _database(database: str | None, catalog: str | None = None) -> Scope:
    split, name = split_catalog(database, catalog)
    return (split, normalized(name))


def _databases(pattern: str | None, catalog: str | None = None) -> Scope:
    return (split_catalog(pattern, catalog)[0], _NAMES)


def _plain(call: Any) -> Scope:
    return _table(call.db_name, call.tbl_name)


_SCOPES: dict[str, Callable[[Any], Scope]] = {
    "get_database": lambda call: (*_database(call.name), _ITSELF),
    "get_database_req": lambda call: (*_database(call.request.name, call.request.catalogName), _ITSELF),
    "get_databases": lambda call: _databases(call.pattern),
    "get_all_databases": lambda call: (DEFAULT_CATALOG, _NAMES),
    "get_table": lambda call: _table(call.dbname, call.tbl_name),
    "get_table_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_fields": lambda call: _table(call.db_name, call.table_name),
    "get_fields_with_environment_context": lambda call: _table(call.db_name, call.table_name),
    "get_fields_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_schema": lambda call: _table(call.db_name, call.table_name),
    "get_schema_with_environment_context": lambda call: _table(call.db_name, call.table_name),
    "get_schema_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_all_tables": lambda call: (*_database(call.db_name), _NAMES),
    "get_tables": lambda call: (*_database(call.db_name), _NAMES),
    "get_tables_by_type": lambda call: (*_database(call.db_name), _TYPES),
    "get_table_objects_by_name": lambda call: _database(call.dbname),
    "get_table_objects_by_name_req": lambda call: _database(call.req.dbName, call.req.catName),
    "get_partition": _plain,
    "get_partition_with_auth": _plain,
    "get_partition_by_name": _plain,
    "get_partitions": _plain,
    "get_partitions_with_auth": _plain,
    "get_partitions_by_names": _plain,
    "get_partitions_by_filter": _plain,
    "get_partitions_ps": _plain,
    "get_partitions_ps_with_auth": _plain,
    "get_num_partitions_by_filter": _plain,
    "get_partition_names": _plain,
    "get_partition_names_ps": _plain,
    "get_partitions_by_filter_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_partitions_ps_with_auth_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_partition_names_ps_req": lambda call: _table(call.req.dbName, call.req.tblName, call.req.catName),
    "get_table_column_statistics": _plain,
    "get_table_statistics_req": lambda call: _table(call.request.dbName, call.request.tblName, call.request.catName),
    "get_functions": lambda call: _database(call.dbName),
    "get_function": lambda call: _database(call.dbName),
    "get_all_functions": lambda call: (),
}
