"""Entries of Iceberg's tables and views in the metastore, as Iceberg's HiveCatalog writes them; and interbed's own
tables, in Paimon's format, as Iceberg tables of this interface.

The parameters repeat the properties of the metadata, figures of the newest snapshot, the schema and the spec, as far as
they are short. Only `table_type` and `metadata_location` count when a table is loaded. Source: Iceberg's
HMSTablePropertyHelper and HiveSchemaUtil.

Own tables are read, and never changed. `OwnTables` is the seam: the interface over the catalog of these tables
implements it, and mounted.py brings both together. The entry of such a table is that of Paimon's catalogs, and stays as
it is.
"""

import dataclasses
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from interbed.catalog.server.rest.iceberg.metadata.documents import (
    current_schema,
    default_order,
    default_spec,
)
from interbed.catalog.server.rest.iceberg.metadata.parts import current_snapshot
from interbed.catalog.server.rest.iceberg.metadata.schemas import Document
from interbed.catalog.server.rest.iceberg.names import IcebergName, read_only
from interbed.catalog.server.rest.interface import RestError, RestRequest
from interbed.catalog.server.service.model import (
    DEFAULT_CATALOG,
    EXTERNAL_TABLE,
    ICEBERG_KINDS,
    ICEBERG_METADATA,
    ICEBERG_TABLE,
    ICEBERG_TYPE,
    ICEBERG_VIEW,
    PARAMETER_EXTERNAL,
    VIRTUAL_VIEW,
    MetastoreColumn,
    MetastoreTable,
    SerDe,
    StorageDescriptor,
    TableKind,
)

LOCATION = ICEBERG_METADATA
PREVIOUS = "previous_metadata_location"
TABLE_TYPE = ICEBERG_TYPE
TABLE = ICEBERG_TABLE
VIEW = ICEBERG_VIEW

_WORDS = {**dict.fromkeys(ICEBERG_KINDS, TABLE), TableKind.ICEBERG_VIEW: VIEW}

FIELD_CHARACTERS_MAX = 32_672
"""Characters of a parameter that repeats a part of the metadata; a longer one is left out, as by Iceberg."""

_PURGE = "external.table.purge"
_TRANSLATED = {"gc.enabled": _PURGE}
_OWN = frozenset(
    (
        *(PARAMETER_EXTERNAL, TABLE_TYPE, LOCATION, PREVIOUS, "uuid", "transactional", "transactional_properties"),
        *("hive.metastore.table.owner", "storage_handler"),
    )
)
"""Parameters that no property of the metadata sets."""

_FIGURES = {"numFiles": "total-data-files", "numRows": "total-records", "totalSize": "total-files-size"}
_REPEATED = (
    *("current-snapshot-id", "current-snapshot-timestamp-ms", "current-snapshot-summary", "snapshot-count"),
    *("current-schema", "default-partition-spec", "default-sort-order"),
)

_HIVE_TYPES = {
    "long": "bigint",
    "time": "string",
    "uuid": "string",
    "timestamptz": "timestamp with local time zone",
    "timestamp_ns": "timestamp",
    "timestamptz_ns": "timestamp with local time zone",
    "fixed": "binary",
    "geometry": "binary",
    "geography": "binary",
    "unknown": "void",
}

_SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


def kind_of(entry: MetastoreTable) -> str | None:
    """Return TABLE or VIEW for an entry of Iceberg, None for any other."""
    return _WORDS.get(entry.kind)


def new_entry(
    catalog: str, database: str, name: str, document: Document, location: str, owner: str | None
) -> MetastoreTable:
    """Return the entry of a new table whose metadata file is at `location`."""
    plain = MetastoreTable(
        catalog=catalog,
        database=database,
        name=name,
        table_type=EXTERNAL_TABLE,
        owner=document["properties"].get("hive.metastore.table.owner") or owner,
        parameters={PARAMETER_EXTERNAL: "TRUE"},
    )
    return changed_entry(plain, {}, document, location, None)


def changed_entry(
    entry: MetastoreTable, before: Document, document: Document, location: str, previous: str | None
) -> MetastoreTable:
    """Return the entry after a commit that replaces the metadata file `previous`, with the document `before`."""
    parameters = _properties(entry.parameters, before.get("properties", {}), document["properties"])
    parameters |= {TABLE_TYPE: TABLE, LOCATION: location, "uuid": str(document["table-uuid"])}
    if previous is not None:
        parameters[PREVIOUS] = previous
    for key in _REPEATED:
        parameters.pop(key, None)
    parameters |= _repeated(document)
    return dataclasses.replace(
        entry, parameters=parameters, storage=_storage(entry.storage, current_schema(document), document["location"])
    )


def _properties(known: Mapping[str, str], before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    parameters = dict(known)
    for key in before:
        if key not in after and key not in _OWN:
            parameters.pop(_TRANSLATED.get(key, key), None)
    for key, value in after.items():
        if key not in _OWN:
            parameters[_TRANSLATED.get(key, key)] = value
    return parameters


def _repeated(document: Document) -> dict[str, str]:
    fields = {"snapshot-count": str(len(document["snapshots"])), "current-schema": _json(current_schema(document))}
    spec, order = default_spec(document), default_order(document)
    if spec["fields"]:
        fields["default-partition-spec"] = _json(spec)
    if order["fields"]:
        fields["default-sort-order"] = _json(order)
    snapshot = current_snapshot(document)
    if snapshot is not None:
        summary = snapshot.get("summary") or {}
        fields["current-snapshot-id"] = str(snapshot["snapshot-id"])
        fields["current-snapshot-timestamp-ms"] = str(snapshot["timestamp-ms"])
        fields["current-snapshot-summary"] = _json(summary)
        fields |= {key: str(summary[name]) for key, name in _FIGURES.items() if name in summary}
    return {key: text for key, text in fields.items() if len(text) <= FIELD_CHARACTERS_MAX}


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _storage(known: StorageDescriptor | None, schema: Document, location: str) -> StorageDescriptor:
    columns = hive_columns(schema)
    if known is not None:
        return dataclasses.replace(known, columns=columns, location=location)
    return StorageDescriptor(
        columns=columns,
        location=location,
        input_format="org.apache.hadoop.mapred.FileInputFormat",
        output_format="org.apache.hadoop.mapred.FileOutputFormat",
        serde=SerDe(library=_SERDE, parameters={}),
    )


def hive_columns(schema: Document) -> tuple[MetastoreColumn, ...]:
    """Return the columns of a schema for Hive, which does not distinguish names by their case: the first one counts."""
    columns: dict[str, MetastoreColumn] = {}
    for field in schema["fields"]:
        name = field["name"].strip()
        if name:
            column = MetastoreColumn(name=name, type=hive_type(field["type"]), comment=field.get("doc"))
            columns.setdefault(name.lower(), column)
    return tuple(columns.values())


def names_by_ids(before: Document, after: Document) -> dict[str, str]:
    """Return the names of the columns of the current schema after a commit by their names before it, as the ids of the
    fields show them; without those of dropped columns.
    """
    names = {field["id"]: field["name"].strip().lower() for field in current_schema(after)["fields"]}
    fields = current_schema(before)["fields"]
    return {field["name"].strip().lower(): names[field["id"]] for field in fields if field["id"] in names}


def hive_type(kind: Any) -> str:
    """Return Hive's name of a type."""
    if isinstance(kind, str):
        word = kind.partition("(")[0].partition("[")[0]
        return kind.replace(" ", "") if word == "decimal" else _HIVE_TYPES.get(word, word)
    match kind["type"]:
        case "struct":
            inner = ",".join(f"{field['name']}:{hive_type(field['type'])}" for field in kind["fields"])
            return f"struct<{inner}>"
        case "list":
            return f"array<{hive_type(kind['element'])}>"
        case _:
            return f"map<{hive_type(kind['key'])},{hive_type(kind['value'])}>"


def new_view_entry(
    catalog: str, database: str, name: str, document: Document, location: str, owner: str | None
) -> MetastoreTable:
    """Return the entry of a new view whose metadata file is at `location`."""
    plain = MetastoreTable(
        catalog=catalog, database=database, name=name, table_type=VIRTUAL_VIEW, owner=owner, parameters={}
    )
    return changed_view_entry(plain, {}, document, location, None)


def changed_view_entry(
    entry: MetastoreTable, before: Document, document: Document, location: str, previous: str | None
) -> MetastoreTable:
    """Return the entry after a commit of a view."""
    parameters = _properties(entry.parameters, before.get("properties", {}), document["properties"])
    parameters |= {TABLE_TYPE: VIEW, LOCATION: location, "uuid": str(document["view-uuid"])}
    if previous is not None:
        parameters[PREVIOUS] = previous
    version = next(each for each in document["versions"] if each["version-id"] == document["current-version-id"])
    schema: Document = next(
        (each for each in document["schemas"] if each["schema-id"] == version["schema-id"]), {"fields": []}
    )
    texts = [each["sql"] for each in version["representations"] if each.get("type") == "sql"]
    hive = [each["sql"] for each in version["representations"] if str(each.get("dialect")).lower() == "hive"]
    text = (hive or texts or [None])[0]
    return dataclasses.replace(
        entry,
        parameters=parameters,
        storage=_storage(entry.storage, schema, document["location"]),
        view_original_text=text,
        view_expanded_text=text,
    )


_WAY_OUT = (
    "it is in Paimon's format. Change it by interbed's catalog in Spark or Python, by the command line, or by a client "
    "of Paimon (/paimon)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMetadata:
    """Iceberg metadata of an own table: their JSON, and the location of the file, None for a table without rows."""

    location: str | None
    content: bytes


class OwnTables(Protocol):
    """Iceberg metadata of own tables. Safe for many threads."""

    @property
    def formats(self) -> tuple[str, str]:
        """The input and output formats in the entries of these tables."""
        ...

    def load(self, request: RestRequest, name: IcebergName, table_uuid: str) -> OwnMetadata:
        """Return the metadata of a table, which clients shall know by that UUID. RestError if there are none."""
        ...


class NoOwnTables:
    """No own tables: the interface has Iceberg's tables alone."""

    formats = ("", "")

    def load(self, request: RestRequest, name: IcebergName, table_uuid: str) -> OwnMetadata:
        """Raise AssertionError: there is no such table."""
        raise AssertionError(f"{name} is no own table")


def is_own(tables: OwnTables, entry: MetastoreTable) -> bool:
    """Return whether an entry is that of an own table that the interface has."""
    storage = entry.storage
    if storage is None or entry.is_view or entry.catalog != DEFAULT_CATALOG or kind_of(entry) is not None:
        return False
    return (storage.input_format, storage.output_format) == tables.formats


def refused_change(name: IcebergName) -> RestError:
    """Return the error for a change of an own table."""
    return read_only(name, _WAY_OUT)


def uuid_of(entry: MetastoreTable) -> str:
    """Return the UUID of an own table: by the number of its entry, which stays when the table is renamed."""
    return str(uuid.UUID(int=(8 << 76) | (2 << 62) | (entry.number or 0)))
