"""Metadata of views: new documents, and the updates of commits, as Iceberg's reference implementation applies them.

Source: Iceberg's view specification.
"""

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from interbed.catalog.server.rest.iceberg.metadata.documents import ViewVersionShape, check_view, shaped
from interbed.catalog.server.rest.iceberg.metadata.parts import next_id
from interbed.catalog.server.rest.iceberg.metadata.schemas import (
    Document,
    InvalidMetadataError,
    check_schema,
    same_schema,
    without_nulls,
)
from interbed.catalog.server.rest.iceberg.metadata.updates import (
    AddSchema,
    AddViewVersion,
    AssignUuid,
    RemoveProperties,
    SetCurrentViewVersion,
    SetLocation,
    SetProperties,
    Update,
    UpgradeFormatVersion,
)

VERSION = 1
_LAST_ADDED = -1
_TABLE_VERSION_MAX = 3
_HISTORY_SIZE = "version.history.num-entries"
_HISTORY_SIZE_DEFAULT = 10
_DROPS_DIALECT = "replace.drop-dialect.allowed"
_BEHAVIOUR = ("summary", "representations", "default-catalog", "default-namespace", "schema-id")


def new_view(
    schema: Document, version: Document, location: str, properties: Mapping[str, str], now_ms: int
) -> Document:
    """Return the document of a new view. InvalidMetadataError."""
    empty: Document = {
        "view-uuid": str(uuid.uuid4()),
        "format-version": VERSION,
        "location": location,
        "schemas": [],
        "current-version-id": 0,
        "versions": [],
        "version-log": [],
        "properties": dict(properties),
    }
    builder = _ViewBuilder(empty, now_ms)
    builder.apply(AddSchema(schema=schema))
    builder.apply(AddViewVersion(view_version={**version, "version-id": 1, "schema-id": _LAST_ADDED}))
    builder.apply(SetCurrentViewVersion(view_version_id=_LAST_ADDED))
    return builder.finished()


def updated_view(base: Document, updates: Iterable[Update], now_ms: int) -> Document | None:
    """Return the document after updates, None if they change nothing. InvalidMetadataError."""
    builder = _ViewBuilder(base, now_ms)
    for update in updates:
        builder.apply(update)
    if builder.document == base:
        return None
    made = builder.finished()
    if made["properties"].get(_DROPS_DIALECT, "false").lower() != "true":
        _check_dialects(current_version(base), current_version(made))
    return made


def completed_view(document: Document) -> Document:
    """Return the document of a metadata file. InvalidMetadataError for one that lacks what every view has."""
    made = {**document, "properties": document.get("properties") or {}}
    made["version-log"] = document.get("version-log") or []
    check_view(made)
    current_version(made)
    return made


def registered_view(document: Document) -> Document:
    """Return the document of a metadata file that this server may not have written. InvalidMetadataError for one that
    is not a view's.
    """
    try:
        made = completed_view(document)
        version = current_version(made)
        if all(schema["schema-id"] != version["schema-id"] for schema in made["schemas"]):
            raise InvalidMetadataError(f"The metadata of the view has no schema {version['schema-id']}")
        _check_version(version)
        for schema in made["schemas"]:
            check_schema(schema, _TABLE_VERSION_MAX)
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidMetadataError(f"The metadata of the view is malformed: {error!r}") from error
    return made


def current_version(document: Document) -> Document:
    """Return the current version of a view. InvalidMetadataError if there is none."""
    return _version(document, document["current-version-id"])


def _version(document: Document, number: int) -> Document:
    found: Document | None = next((each for each in document["versions"] if each["version-id"] == number), None)
    if found is None:
        raise InvalidMetadataError(f"Cannot set current version to unknown version: {number}")
    return found


class _ViewBuilder:
    """The document of a view in the middle of its updates."""

    def __init__(self, base: Document, now_ms: int) -> None:
        self.document = dict(base)
        self._now_ms = now_ms
        self._last_schema: int | None = None
        self._last_version: int | None = None
        self._added: set[int] = set()
        self._entry: Document | None = None

    def apply(self, update: Update) -> None:
        """Apply one update. InvalidMetadataError."""
        document = self.document
        match update:
            case AssignUuid():
                if update.uuid != document["view-uuid"]:
                    raise InvalidMetadataError("Cannot reassign uuid")
            case UpgradeFormatVersion():
                if update.format_version != VERSION:
                    raise InvalidMetadataError(f"Unsupported format version: {update.format_version}")
            case AddSchema():
                self._add_schema(update.schema)
            case AddViewVersion():
                self._add_version(update.view_version)
            case SetCurrentViewVersion():
                self._set_current(update.view_version_id)
            case SetLocation():
                document["location"] = update.location.rstrip("/") or update.location
            case SetProperties() | RemoveProperties():
                document["properties"] = update.changed(document["properties"])
            case _:
                raise InvalidMetadataError(f"{type(update).__name__} is no update of a view")

    def _add_schema(self, schema: Document) -> None:
        schema = without_nulls(schema)
        check_schema(schema, _TABLE_VERSION_MAX)
        schemas = self.document["schemas"]
        known = next((each for each in schemas if same_schema(each, schema)), None)
        number = known["schema-id"] if known is not None else next_id(schemas, "schema-id", 0)
        if known is None:
            self.document["schemas"] = [*schemas, {**schema, "type": "struct", "schema-id": number}]
        self._last_schema = number

    def _add_version(self, version: Document) -> None:
        made = shaped(version, ViewVersionShape, "view version")
        if made.get("schema-id") == _LAST_ADDED:
            if self._last_schema is None:
                raise InvalidMetadataError("Cannot set last added schema: no schema has been added")
            made["schema-id"] = self._last_schema
        if all(each["schema-id"] != made.get("schema-id") for each in self.document["schemas"]):
            raise InvalidMetadataError(f"Cannot add version with unknown schema: {made.get('schema-id')}")
        _check_version(made)
        versions = self.document["versions"]
        known = next((each for each in versions if _behaviour(each) == _behaviour(made)), None)
        if known is None:
            number = max((made.get("version-id", 1), *(each["version-id"] + 1 for each in versions)))
            made = {**made, "version-id": number, "timestamp-ms": made.get("timestamp-ms", self._now_ms)}
            self.document["versions"] = [*versions, made]
            self._added.add(number)
        self._last_version = (known or made)["version-id"]

    def _set_current(self, number: int) -> None:
        if number == _LAST_ADDED:
            if self._last_version is None:
                raise InvalidMetadataError("Cannot set last version id: no current version id has been set")
            number = self._last_version
        if number == self.document["current-version-id"]:
            return
        version = _version(self.document, number)
        self.document["current-version-id"] = number
        at = version["timestamp-ms"] if number in self._added else self._now_ms
        self._entry = {"timestamp-ms": at, "version-id": number}

    def finished(self) -> Document:
        """Return the document with its history, without versions that are too old to be kept."""
        document = self.document
        current = current_version(document)
        if self._entry is not None:
            document["version-log"] = [*document["version-log"], self._entry]
        most = max(len(self._added | {current["version-id"]}), _history_size(document["properties"]))
        if len(document["versions"]) > most:
            _expire(document, current["version-id"], most)
        return document


def _expire(document: Document, current: int, most: int) -> None:
    newest = sorted(
        (each["version-id"] for each in document["versions"] if each["version-id"] != current), reverse=True
    )
    kept = {current, *newest[: most - 1]}
    document["versions"] = [each for each in document["versions"] if each["version-id"] in kept]
    log: list[Document] = []
    for entry in document["version-log"]:
        if entry["version-id"] in kept:
            log.append(entry)
        else:
            # The history before a missing version has a gap.
            log.clear()
    document["version-log"] = log


def _behaviour(version: Document) -> tuple[Any, ...]:
    return tuple(version.get(key) for key in _BEHAVIOUR)


def _check_version(version: Document) -> None:
    seen: set[str] = set()
    for each in version["representations"]:
        if each["type"] == "sql" and not ("sql" in each and "dialect" in each):
            raise InvalidMetadataError("A representation of the view version has no sql or no dialect")
    for dialect in _dialects(version):
        if dialect in seen:
            raise InvalidMetadataError(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        seen.add(dialect)


def _dialects(version: Document) -> list[str]:
    return [each["dialect"].lower() for each in version["representations"] if each.get("type") == "sql"]


def _check_dialects(before: Document, after: Document) -> None:
    old, new = _dialects(before), _dialects(after)
    if not set(old) <= set(new):
        raise InvalidMetadataError(
            f"Cannot replace view due to loss of view dialects ({_DROPS_DIALECT}=false):\n"
            f"Previous dialects: [{', '.join(old)}]\nNew dialects: [{', '.join(new)}]"
        )


def _history_size(properties: Mapping[str, str]) -> int:
    text = properties.get(_HISTORY_SIZE, str(_HISTORY_SIZE_DEFAULT))
    if not text.lstrip("-").isdecimal() or int(text) < 1:
        raise InvalidMetadataError(f"{_HISTORY_SIZE} must be positive but was {text}")
    return int(text)
