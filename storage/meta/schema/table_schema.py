"""Schema of a table and its JSON file `schema/schema-<id>` (specification page `spec/schema`, version 3).

The rules for combinations of options need file formats, indexes, merge functions and buckets, and so are in a higher
layer than schemas: see `interbed.storage.table.option_rules`.
"""

import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from dataclasses import fields as members_of
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from interbed.storage.base.decoding import MemberType, read_object
from interbed.storage.base.errors import (
    CorruptFileError,
    InvalidInputError,
    InvalidOptionError,
    UnsupportedVersionError,
    plain_errors,
)
from interbed.storage.base.path_name import is_blank
from interbed.storage.base.shown_text import all_masked
from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataField,
    DataType,
    MapType,
    MultisetType,
    RowType,
    field_from_json,
    field_to_json,
)
from interbed.storage.io.api import FileIO
from interbed.storage.meta.manifest.entry import ROW_ID
from interbed.storage.meta.options.core import BUCKET, PARTITION, PRIMARY_KEY, CoreOptions
from interbed.storage.meta.paths import TablePaths

if TYPE_CHECKING:
    import pyarrow as pa

CURRENT_VERSION = 3

KEY_PREFIX = "_KEY_"
SEQUENCE_NUMBER = "_SEQUENCE_NUMBER"
VALUE_KIND = "_VALUE_KIND"
LEVEL = "_LEVEL"
SYSTEM_COLUMNS = frozenset({SEQUENCE_NUMBER, VALUE_KIND, LEVEL, ROW_ID})

REPLACES = "interbed.replaces"
"""Member of the file that marks a schema which replaced the table (schema.replacement)."""


@plain_errors
@dataclass(frozen=True, kw_only=True)
class TableSchema:
    """One version of a table's schema.

    `unknown` holds JSON members of the file that this version of interbed does not know; they are written back.
    """

    id: int
    fields: tuple[DataField, ...]
    highest_field_id: int
    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    time_millis: int = 0
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        shown = {**{f.name: getattr(self, f.name) for f in members_of(self)}, "options": all_masked(self.options)}
        return f"TableSchema({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    # -- views -----------------------------------------------------------------------------------------------------

    @cached_property
    def core(self) -> CoreOptions:
        """Options of the table as typed properties."""
        return CoreOptions(self.options)

    @cached_property
    def row_type(self) -> RowType:
        """All columns as one row type."""
        return RowType(self.fields)

    @cached_property
    def arrow(self) -> "pa.Schema":
        """Arrow schema of the table's rows."""
        from interbed.storage.base.types.arrow import fields_to_schema

        return fields_to_schema(self.fields)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names, in order."""
        return tuple(f.name for f in self.fields)

    @cached_property
    def by_name(self) -> Mapping[str, DataField]:
        """Columns of the table by name."""
        return {f.name: f for f in self.fields}

    @property
    def is_replacement(self) -> bool:
        """Whether the schema replaced the table."""
        return self.unknown.get(REPLACES) is True

    @property
    def has_primary_key(self) -> bool:
        """Whether this is a primary-key table."""
        return bool(self.primary_keys)

    @cached_property
    def trimmed_primary_keys(self) -> tuple[str, ...]:
        """Primary key without the partition columns, by which rows are ordered inside a bucket."""
        if not self.primary_keys:
            return ()
        trimmed = tuple(k for k in self.primary_keys if k not in self.partition_keys)
        if not trimmed:
            raise InvalidInputError(
                f"The primary key ({', '.join(self.primary_keys)}) is the same as the partition key; "
                "every partition would hold one row. Add a column to the primary key."
            )
        return trimmed

    @cached_property
    def bucket_keys(self) -> tuple[str, ...]:
        """Columns whose hash selects the bucket."""
        return self.core.bucket_key or self.trimmed_primary_keys

    @cached_property
    def partition_fields(self) -> tuple[DataField, ...]:
        """Partition columns of the table."""
        return tuple(self.by_name[n] for n in self.partition_keys)

    @cached_property
    def key_fields(self) -> tuple[DataField, ...]:
        """Trimmed primary-key columns, under the table's own names."""
        return tuple(self.by_name[n] for n in self.trimmed_primary_keys)

    @cached_property
    def partition_types(self) -> tuple[DataType, ...]:
        """Types of the partition columns."""
        return tuple(f.type for f in self.partition_fields)

    @cached_property
    def key_types(self) -> tuple[DataType, ...]:
        """Types of the trimmed primary-key columns."""
        return tuple(f.type for f in self.key_fields)

    def fields_named(self, names: Iterable[str]) -> tuple[DataField, ...]:
        """Return the columns of those names, in the names' order; raises KeyError."""
        return tuple(self.by_name[n] for n in names)

    # -- JSON ------------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the content of the schema file."""
        value: dict[str, Any] = {
            "version": CURRENT_VERSION,
            "id": self.id,
            "fields": [field_to_json(f) for f in self.fields],
            "highestFieldId": self.highest_field_id,
            "partitionKeys": list(self.partition_keys),
            "primaryKeys": list(self.primary_keys),
            "options": dict(self.options),
        }
        if self.comment is not None:
            value["comment"] = self.comment
        value["timeMillis"] = self.time_millis
        value.update(self.unknown)
        return json.dumps(value, indent=2, ensure_ascii=False)

    @staticmethod
    def from_json(text: str | bytes, *, source: str = "schema") -> "TableSchema":
        """Return the schema of a schema file's content; `source` names the file in errors.

        Raises CorruptFileError and UnsupportedVersionError.
        """
        value = read_object(text, _MEMBER_TYPES, source=source, what="a schema file")
        try:
            version = value.get("version") or 1
            if not 1 <= version <= CURRENT_VERSION:
                raise UnsupportedVersionError(
                    f"{source} has version {version}; this version of interbed reads versions 1 to {CURRENT_VERSION}."
                )
            options = {str(k): str(v) for k, v in (value.get("options") or {}).items()}
            if version == 1:
                options.setdefault(BUCKET, "1")
            if version <= 2:
                options.setdefault("file.format", "orc")
            fields = tuple(field_from_json(f) for f in value["fields"])
            schema = TableSchema(
                id=value["id"],
                fields=fields,
                highest_field_id=int(value.get("highestFieldId", max((f.id for f in fields), default=-1))),
                partition_keys=tuple(value.get("partitionKeys") or ()),
                primary_keys=tuple(value.get("primaryKeys") or ()),
                options=options,
                comment=value.get("comment"),
                time_millis=int(value.get("timeMillis") or 0),
                unknown={k: v for k, v in value.items() if k not in _MEMBER_TYPES},
            )
            _check_names(schema)
            return schema
        except CorruptFileError as error:
            raise CorruptFileError(f"{source} is not a schema file: {error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptFileError(f"{source} is not a schema file: {error}") from error


_MEMBER_TYPES: Mapping[str, MemberType] = {
    "version": int,
    "id": int,
    "fields": list,
    "highestFieldId": int,
    "partitionKeys": list,
    "primaryKeys": list,
    "options": dict,
    "comment": str,
    "timeMillis": int,
}


def _check_names(schema: TableSchema) -> None:
    """Raise ValueError for a file whose keys are no columns, or whose columns have one name."""
    names = schema.names
    if len(set(names)) != len(names):
        raise ValueError("two columns have one name")
    for key in (*schema.partition_keys, *schema.primary_keys):
        if key not in schema.by_name:
            raise ValueError(f"the key {key!r} is no column")


@plain_errors
@dataclass(frozen=True, slots=True, init=False)
class Schema:
    """Schema for the creation of a table; `Schema.from_pyarrow_schema` has pypaimon's name and arguments.

    If two columns or nested fields have the same id, all of them get new ids.
    """

    fields: tuple[DataField, ...]
    partition_keys: tuple[str, ...]
    primary_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None

    def __init__(
        self,
        fields: Iterable[DataField] = (),
        partition_keys: Iterable[str] | None = None,
        primary_keys: Iterable[str] | None = None,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> None:
        object.__setattr__(self, "fields", numbered(fields))
        object.__setattr__(self, "partition_keys", tuple(partition_keys or ()))
        object.__setattr__(self, "primary_keys", tuple(primary_keys or ()))
        object.__setattr__(self, "options", {str(k): str(v) for k, v in (options or {}).items()})
        object.__setattr__(self, "comment", comment)

    @staticmethod
    def from_pyarrow_schema(
        pa_schema: "pa.Schema",
        partition_keys: Sequence[str] | None = None,
        primary_keys: Sequence[str] | None = None,
        options: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> "Schema":
        """Return a schema with the columns of an Arrow schema.

        Raises SchemaMismatchError for types without counterpart.
        """
        from interbed.storage.base.types.arrow import FieldIds, fields_from_arrow

        return Schema(
            fields=fields_from_arrow(list(pa_schema), FieldIds()),
            partition_keys=partition_keys,
            primary_keys=primary_keys,
            options=options,
            comment=comment,
        )

    def to_table_schema(self, *, time_millis: int | None = None) -> TableSchema:
        """Return version 0 of a table's schema, normalised as Paimon does and validated.

        The options `primary-key` and `partition` replace missing keys and are removed; primary-key columns become NOT
        NULL. Raises InvalidInputError naming the mistake.
        """
        _check_fields(self.fields)
        options = dict(self.options)
        primary_keys = self.primary_keys
        if PRIMARY_KEY in options:
            named = CoreOptions(options).names(PRIMARY_KEY)
            if primary_keys:
                raise InvalidOptionError("The primary key is given twice, by argument and by option 'primary-key'.")
            primary_keys = named
            del options[PRIMARY_KEY]
        partition_keys = self.partition_keys
        if PARTITION in options:
            named = CoreOptions(options).names(PARTITION)
            if partition_keys:
                raise InvalidOptionError("The partition key is given twice, by argument and by option 'partition'.")
            partition_keys = named
            del options[PARTITION]
        keys = set(primary_keys)
        fields = tuple(
            f
            if f.name not in keys
            else DataField(
                id=f.id,
                name=f.name,
                type=f.type.with_nullable(False),
                description=f.description,
                default_value=f.default_value,
            )
            for f in self.fields
        )
        schema = TableSchema(
            id=0,
            fields=fields,
            highest_field_id=highest_field_id(fields),
            partition_keys=partition_keys,
            primary_keys=primary_keys,
            options=options,
            comment=self.comment,
            time_millis=int(time.time() * 1000) if time_millis is None else time_millis,
        )
        validate_schema(schema)
        return schema


def numbered(fields: Iterable[DataField]) -> tuple[DataField, ...]:
    """Return the same fields, with new ids if two of them, nested ones included, have the same id.

    Columns are numbered in order; the fields inside of one come between it and the next.
    """
    given = tuple(fields)
    ids = list(_ids(RowType(given)))
    return given if len(ids) == len(set(ids)) else _renumbered(given, itertools.count())


def _ids(data_type: DataType) -> Iterator[int]:
    if isinstance(data_type, RowType):
        yield from (f.id for f in data_type.fields)
    for child in data_type.children():
        yield from _ids(child)


def _renumbered(fields: Iterable[DataField], ids: Iterator[int]) -> tuple[DataField, ...]:
    # Take the id before those of the fields inside.
    return tuple(replace(f, id=next(ids), type=_renumbered_type(f.type, ids)) for f in fields)


def _renumbered_type(data_type: DataType, ids: Iterator[int]) -> DataType:
    match data_type:
        case RowType(fields=fields):
            return RowType(_renumbered(fields, ids), nullable=data_type.nullable)
        case ArrayType(element=element) | MultisetType(element=element):
            return replace(data_type, element=_renumbered_type(element, ids))
        case MapType(key=key, value=value):
            return replace(data_type, key=_renumbered_type(key, ids), value=_renumbered_type(value, ids))
        case _:
            return data_type


def highest_field_id(fields: Iterable[DataField]) -> int:
    """Return the largest field id, nested rows included; -1 without fields."""

    return max(_ids(RowType(fields)), default=-1)


def _check_fields(fields: Sequence[DataField]) -> None:
    """Raise InvalidInputError for fields whose texts and ids a schema file cannot hold."""
    for each in fields:
        if not isinstance(each.name, str) or not isinstance(each.id, int) or isinstance(each.id, bool):
            raise InvalidInputError(f"A column has a name and a number as its id, not {each.name!r} and {each.id!r}.")
        _check_text("name of a column", each.name)
        _check_text(f"comment of the column {each.name!r}", each.description)
        _check_text(f"default value of the column {each.name!r}", each.default_value)
        _check_fields_within(each.type)


def _check_fields_within(data_type: DataType) -> None:
    if isinstance(data_type, RowType):
        _check_fields(data_type.fields)
    else:
        for child in data_type.children():
            _check_fields_within(child)


def _check_text(what: str, text: object) -> None:
    if text is None:
        return
    if not isinstance(text, str):
        raise InvalidInputError(f"The {what} is text, not {text!r}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"The {what} has a character that UTF-8 does not have: {text!r}.") from error


def _check_fields_once(data_type: DataType, column: str) -> None:
    """Raise InvalidInputError for a ROW with two fields of one name, of which a dict can hold one."""
    names = data_type.names if isinstance(data_type, RowType) else ()
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InvalidInputError(f"The column {column!r} is {data_type}, which has the field {twice!r} twice.")
    for child in data_type.children():
        _check_fields_once(child, column)


def _blank_names(data_type: DataType) -> set[tuple[int, str]]:
    """Return the ids and names of fields, nested ones included, whose names are empty or blank."""
    own = data_type.fields if isinstance(data_type, RowType) else ()
    found = {(each.id, each.name) for each in own if is_blank(each.name)}
    return found.union(*(_blank_names(child) for child in data_type.children()))


def validate_schema(schema: TableSchema, before: TableSchema | None = None) -> None:
    """Check texts, names, keys and buckets; option_rules has the other checks. Raises InvalidInputError.

    Blank names that the table had `before` are not refused: another program wrote them.
    """
    _check_text("comment of the table", schema.comment)
    _check_fields(schema.fields)
    blank = _blank_names(RowType(schema.fields)) - _blank_names(RowType(() if before is None else before.fields))
    if blank:
        raise InvalidInputError(f"A column or a field of a ROW has the blank name {min(blank)[1]!r}; give it another.")
    names = schema.names
    if not names:
        raise InvalidInputError("A table needs at least one column.")
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InvalidInputError(f"The column {name!r} is defined twice.")
        seen.add(name)
        if name in SYSTEM_COLUMNS or name.startswith(KEY_PREFIX):
            raise InvalidInputError(f"The column name {name!r} is reserved for the format; choose another.")
    for column in schema.fields:
        _check_fields_once(column.type, column.name)
    for what, keys in (
        ("primary key", schema.primary_keys),
        ("partition key", schema.partition_keys),
        ("option 'bucket-key'", schema.core.bucket_key),
    ):
        _validate_keys(schema, what, keys)
    _validate_bucket(schema)


def _validate_keys(schema: TableSchema, what: str, keys: Sequence[str]) -> None:
    for key in keys:
        if key not in schema.by_name:
            raise InvalidInputError(
                f"The {what} names the column {key!r}, which the table does not have: {', '.join(schema.names)}."
            )
        if not isinstance(schema.by_name[key].type, AtomicType):
            raise InvalidInputError(f"The {what} names the column {key!r}, whose nested type can't be part of a key.")
    if len(set(keys)) != len(keys):
        raise InvalidInputError(f"The {what} names a column twice: {', '.join(keys)}.")


def _validate_bucket(schema: TableSchema) -> None:
    core = schema.core
    if core.bucket == 0 or core.bucket < -2:
        raise InvalidOptionError(f"Option 'bucket' takes a positive number, -1 or -2, not '{core.bucket}'.")
    if schema.has_primary_key:
        _ = schema.trimmed_primary_keys
        outside = [k for k in core.bucket_key if k not in schema.primary_keys]
        if outside:
            raise InvalidOptionError(f"Option 'bucket-key' names {outside[0]!r}, which is not part of the primary key.")
        in_partition = [k for k in core.bucket_key if k in schema.partition_keys]
        if in_partition:
            raise InvalidOptionError(f"Option 'bucket-key' names the partition column {in_partition[0]!r}.")
    elif core.bucket > 0 and not core.bucket_key:
        raise InvalidOptionError(
            "A table without a primary key and with a fixed number of buckets needs the option 'bucket-key'."
        )
    if core.bucket == -1 and core.bucket_key:
        raise InvalidOptionError("Option 'bucket-key' needs a fixed number of buckets; set 'bucket', too.")


class OptionRules(Protocol):
    """Check of the options of a whole schema."""

    def __call__(
        self, schema: TableSchema, before: TableSchema | None = None, at: "tuple[FileIO, TablePaths] | None" = None
    ) -> None:
        """Raise InvalidOptionError for options that contradict each other, the keys or the columns, or the files.

        Raises NotSupportedError for features that this version lacks. `before` is the table that is changed, which is
        `at` this location: it may keep options that Java Paimon allowed.
        """
        ...
