"""One object of a metastore as it is copied, compared and exported: its kind, its name, and its fields as JSON.

The fields are those of Hive's interface without the ones that name the object, and without the ones that a server
generates (ids, write ids, privileges). Absent and empty fields are equal: clients and servers of different versions
leave out different fields.

A Thrift structure is an object with the field names of Hive's interface. Fields that are not set are left out. A map
with string keys is an object, any other map a list of pairs. Bytes are base64, a number that JSON lacks (nan, inf) is a
string.

The outcomes of objects are counted for the result of an import (`CopySummary`).
"""

import base64
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from thrift.Thrift import TType

from interbed.catalog.server.service.model import DEFAULT_CATALOG
from interbed.storage.base.decoding import bytes_of_base64
from interbed.storage.base.errors import InterbedError
from interbed.thrift_idl.hive_metastore import ttypes


class MigrationError(InterbedError):
    """The import, export or comparison cannot continue; the objects copied so far are complete in the target."""


class RefusedError(MigrationError):
    """A metastore answered a call about one object with an error; other objects may still be readable."""


class MissingMethodError(MigrationError):
    """A metastore does not know a method: it is of another version."""


_COMPOSED = frozenset((TType.STRUCT, TType.LIST, TType.SET, TType.MAP))

FOREIGN_KEYS = "foreignKeys "
"""The beginning of the name of a foreign key, see constraints_by_name."""

_NAMES = ("catName", "catalogName", "dbName", "tableName", "functionName", "table_db", "table_name", "fktable_db")
_MADE_BY_SERVERS = (
    *("privileges", "temporary", "writeId", "isStatsCompliant", "colStats", "accessType", "id", "txnId"),
    *("fileMetadata", "dictionary"),
)

_USER = ttypes.PrincipalType.USER
_NATIVE = ttypes.DatabaseType.NATIVE


def to_json(struct: Any, *, empty: bool = True) -> dict[str, Any]:
    """Return the set fields of a structure; unless `empty` without empty ones, at any depth."""
    fields = {}
    # A loop over fields, since each of them is of another kind.
    for spec in struct.thrift_spec:
        if spec is None:
            continue
        _, kind, name, about, _ = spec
        value = getattr(struct, name)
        if value is None:
            continue
        if kind == TType.STRING:
            fields[name] = value if isinstance(value, str) else base64.b64encode(value).decode("ascii")
        elif kind in _COMPOSED:
            composed = _composed_to_json(kind, about, value, empty)
            if empty or composed:
                fields[name] = composed
        elif kind == TType.DOUBLE and not math.isfinite(value):
            fields[name] = repr(float(value))
        else:
            fields[name] = value
    return fields


def from_json(structure: Any, fields: Mapping[str, Any]) -> Any:
    """Return a structure of this class. ValueError for a field that the class does not have, or a value of another
    shape.
    """
    if not isinstance(fields, Mapping):
        raise ValueError(f"{structure.__name__} has to be an object, not {type(fields).__name__}")
    specs = {spec[2]: spec for spec in structure.thrift_spec if spec is not None}
    unknown = fields.keys() - specs.keys()
    if unknown:
        raise ValueError(f"{structure.__name__} has no field {sorted(unknown)[0]!r}")
    return structure(**{name: _value_from_json(specs[name], value) for name, value in fields.items()})


def _composed_to_json(kind: int, about: Any, value: Any, empty: bool) -> Any:
    if kind == TType.STRUCT:
        return to_json(value, empty=empty)
    if kind in (TType.LIST, TType.SET):
        if about[0] == TType.STRUCT:
            return [to_json(item, empty=empty) for item in value]
        items = [_value_to_json(about[0], about[1], item, empty) for item in value]
        return items if kind == TType.LIST else sorted(items)
    pairs = [(key, _value_to_json(about[2], about[3], item, empty)) for key, item in value.items()]
    if about[0] == TType.STRING:
        return dict(sorted(pairs))
    return sorted([_value_to_json(about[0], about[1], key, empty), item] for key, item in pairs)


def _value_to_json(kind: int, about: Any, value: Any, empty: bool) -> Any:
    if kind in _COMPOSED:
        return _composed_to_json(kind, about, value, empty)
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value


def _value_from_json(spec: Any, value: Any) -> Any:
    return _from_json(spec[1], spec[3], value, spec[2])


def _from_json(kind: int, about: Any, value: Any, name: str) -> Any:
    if kind == TType.STRUCT:
        return from_json(about[0], value)
    if kind in (TType.LIST, TType.SET):
        if not isinstance(value, list):
            raise ValueError(f"{name} has to be a list, not {type(value).__name__}")
        items = [_from_json(about[0], about[1], item, name) for item in value]
        return items if kind == TType.LIST else set(items)
    if kind == TType.MAP:
        pairs = value.items() if isinstance(value, Mapping) else value
        return {
            _hashable(_from_json(about[0], about[1], key, name)): _from_json(about[2], about[3], item, name)
            for key, item in pairs
        }
    if kind == TType.STRING:
        if not isinstance(value, str):
            raise ValueError(f"{name} has to be a string, not {type(value).__name__}")
        return bytes_of_base64(value) if about == "BINARY" else value
    if kind == TType.DOUBLE:
        return float(value)
    if isinstance(value, bool) != (kind == TType.BOOL) or not isinstance(value, int):
        raise ValueError(f"{name} has to be {'true or false' if kind == TType.BOOL else 'a whole number'}")
    return value


def _hashable(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


class RecordKind(StrEnum):
    """The kind of an object; the values are the types in an export file."""

    CATALOG = "catalog"
    DATABASE = "database"
    FUNCTION = "function"
    TABLE = "table"
    TABLE_STATISTICS = "table statistics"
    PARTITION = "partition"
    PARTITION_STATISTICS = "partition statistics"
    CONSTRAINT = "constraint"
    ROLE = "role"
    ROLE_MEMBER = "role member"
    GRANT = "grant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The name of an object, as far as it reaches: a catalog has no database, a database no table."""

    kind: RecordKind
    catalog: str
    database: str | None = None
    name: str | None = None
    """The name of a table or a function."""
    partition: str | None = None
    column: str | None = None
    """The column of statistics."""
    constraint: str | None = None
    """`primaryKeys name`: the list of the interface and the constraint's name. Of a member of a role and of a grant it
    is the text that distinguishes it; a role is in the place of the catalog.
    """

    def __str__(self) -> str:
        catalog = None if self.catalog == DEFAULT_CATALOG and self.database is not None else self.catalog
        parts = [part for part in (catalog, self.database, self.name) if part is not None]
        text = ".".join(parts)
        if self.partition is not None:
            text += f"/{self.partition}"
        for detail in (self.column, self.constraint):
            if detail is not None:
                text += f" ({detail})"
        return text


# The class of each kind's structure; constraints have several, see CONSTRAINTS.
STRUCTURES: Mapping[RecordKind, Any] = {
    RecordKind.CATALOG: ttypes.Catalog,
    RecordKind.DATABASE: ttypes.Database,
    RecordKind.FUNCTION: ttypes.Function,
    RecordKind.TABLE: ttypes.Table,
    RecordKind.TABLE_STATISTICS: ttypes.ColumnStatisticsObj,
    RecordKind.PARTITION: ttypes.Partition,
    RecordKind.PARTITION_STATISTICS: ttypes.ColumnStatisticsObj,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstraintFields:
    """The interface's names for one kind of constraint."""

    structure: Any
    database: str
    table: str
    name: str


CONSTRAINTS: Mapping[str, ConstraintFields] = {
    "primaryKeys": ConstraintFields(
        structure=ttypes.SQLPrimaryKey, database="table_db", table="table_name", name="pk_name"
    ),
    "foreignKeys": ConstraintFields(
        structure=ttypes.SQLForeignKey, database="fktable_db", table="fktable_name", name="fk_name"
    ),
    "uniqueConstraints": ConstraintFields(
        structure=ttypes.SQLUniqueConstraint, database="table_db", table="table_name", name="uk_name"
    ),
    "notNullConstraints": ConstraintFields(
        structure=ttypes.SQLNotNullConstraint, database="table_db", table="table_name", name="nn_name"
    ),
    "defaultConstraints": ConstraintFields(
        structure=ttypes.SQLDefaultConstraint, database="table_db", table="table_name", name="dc_name"
    ),
    "checkConstraints": ConstraintFields(
        structure=ttypes.SQLCheckConstraint, database="table_db", table="table_name", name="dc_name"
    ),
}
"""The names by that of the list in the interface's SQLAllTableConstraints."""


_LEFT_OUT: Mapping[RecordKind, frozenset[str]] = {
    RecordKind.CATALOG: frozenset(("name",)),
    RecordKind.DATABASE: frozenset(("name", *_NAMES, *_MADE_BY_SERVERS)),
    RecordKind.FUNCTION: frozenset(_NAMES),
    RecordKind.TABLE: frozenset((*_NAMES, *_MADE_BY_SERVERS)),
    RecordKind.PARTITION: frozenset((*_NAMES, *_MADE_BY_SERVERS)),
    RecordKind.TABLE_STATISTICS: frozenset(("colName",)),
    RecordKind.PARTITION_STATISTICS: frozenset(("colName",)),
    RecordKind.CONSTRAINT: frozenset((*_NAMES, "fktable_name", *(about.name for about in CONSTRAINTS.values()))),
}


def fields_of(kind: RecordKind, struct: Any) -> dict[str, Any]:
    """Return the fields of an object that are copied, as JSON."""
    left_out = _LEFT_OUT[kind]
    fields = {name: value for name, value in to_json(struct, empty=False).items() if name not in left_out}
    # The meaning of missing fields: only some servers send them.
    if fields.get("ownerType") == _USER:
        del fields["ownerType"]
    if fields.get("type") == _NATIVE and kind is RecordKind.DATABASE:
        del fields["type"]
    return fields


def constraint_fields(constraints: list[Any]) -> dict[str, Any]:
    """Return the fields of a constraint: a structure for each of its columns, in their order."""
    columns = [fields_of(RecordKind.CONSTRAINT, each) for each in constraints]
    return {"columns": sorted(columns, key=lambda column: (column.get("key_seq", 0), str(column.get("column_name"))))}


def constraints_by_name(kind: str, found: list[Any]) -> dict[str, list[Any]]:
    """Return the structures of one list of the interface, grouped by constraint."""
    result: dict[str, list[Any]] = {}
    for struct in found:
        # Names are case-insensitive; some metastores return them in their original case.
        name = (getattr(struct, CONSTRAINTS[kind].name) or "").lower()
        result.setdefault(f"{kind} {name}", []).append(struct)
    return result


def struct_of(key: Key, fields: Mapping[str, Any]) -> Any:
    """Return the structure of an object, with the names of its key. ValueError for fields that do not fit."""
    struct = from_json(STRUCTURES[key.kind], fields)
    match key.kind:
        case RecordKind.CATALOG:
            struct.name = key.catalog
        case RecordKind.DATABASE:
            struct.name, struct.catalogName = key.database, key.catalog
        case RecordKind.FUNCTION:
            struct.functionName, struct.dbName, struct.catName = key.name, key.database, key.catalog
        case RecordKind.TABLE | RecordKind.PARTITION:
            struct.tableName, struct.dbName, struct.catName = key.name, key.database, key.catalog
        case RecordKind.TABLE_STATISTICS | RecordKind.PARTITION_STATISTICS:
            struct.colName = key.column
        case RecordKind.CONSTRAINT:
            raise ValueError("a constraint has several structures")
    return struct


def constraint_structs(key: Key, fields: Mapping[str, Any]) -> list[Any]:
    """Return the structures of a constraint, one for each column."""
    kind, _, name = (key.constraint or "").partition(" ")
    about = CONSTRAINTS.get(kind)
    if about is None or not isinstance(fields.get("columns"), list):
        raise ValueError(f"{key.constraint!r} is no constraint of a known kind")
    found = []
    for column in fields["columns"]:
        struct = from_json(about.structure, column)
        setattr(struct, about.database, key.database)
        setattr(struct, about.table, key.name)
        setattr(struct, about.name, name)
        struct.catName = key.catalog
        found.append(struct)
    return found


FAILURES_NAMED_MAX = 1000
"""Failures that are named; further ones are only counted."""


class CopyOutcome(StrEnum):
    """The outcome of an object's import."""

    COPIED = "copied"
    UPDATED = "updated"
    """It existed already and was updated."""
    UNCHANGED = "unchanged"
    DIFFERENT = "different"
    """It existed already and differs; it was left alone as requested."""
    FAILED = "failed"


@dataclass(slots=True, kw_only=True)
class CopySummary:
    """Counts, and notes for a person, and (object, reason) of failures."""

    counts: dict[RecordKind, Counter[CopyOutcome]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    dry_run: bool = False

    def count(self, kind: RecordKind, outcome: CopyOutcome, number: int = 1) -> None:
        """Add `number` objects to the counts."""
        if number:
            self.counts.setdefault(kind, Counter())[outcome] += number

    def add_failure(self, name: str, reason: str) -> None:
        """Name an object that could not be copied; further ones than FAILURES_NAMED_MAX are only counted."""
        if len(self.failures) < FAILURES_NAMED_MAX:
            self.failures.append((name, reason))

    def number(self, kind: RecordKind, outcome: CopyOutcome) -> int:
        """Return the number of objects of a kind with an outcome."""
        return self.counts.get(kind, Counter())[outcome]

    @property
    def succeeded(self) -> bool:
        """Whether every object was copied or existed already."""
        return not any(counts[CopyOutcome.FAILED] for counts in self.counts.values())

    def to_json(self) -> dict[str, Any]:
        """Return the summary as `--json` prints it."""
        return {
            "dry_run": self.dry_run,
            "seconds": round(self.seconds, 3),
            "counts": {kind.value: {o.value: n for o, n in self.counts[kind].items()} for kind in self._kinds()},
            "notes": self.notes,
            "failures": [{"object": name, "reason": reason} for name, reason in self.failures],
        }

    def __str__(self) -> str:
        lines = []
        for kind in self._kinds():
            counts = self.counts[kind]
            counted = ", ".join(f"{counts[outcome]:,} {outcome}" for outcome in CopyOutcome if counts[outcome])
            lines.append(f"{_plural(kind):<22}{counted}")
        lines.extend(f"note: {note}" for note in self.notes)
        lines.extend(f"failed: {name}: {reason}" for name, reason in self.failures)
        total = sum(sum(counts.values()) for counts in self.counts.values())
        done = "would be copied as listed above" if self.dry_run else "looked at"
        lines.append(f"{total:,} objects {done} in {self.seconds:.1f} s")
        return "\n".join(lines)

    def _kinds(self) -> list[RecordKind]:
        return [kind for kind in RecordKind if kind in self.counts]


def _plural(kind: RecordKind) -> str:
    return str(kind) if kind.value.endswith("statistics") else f"{kind}s"
