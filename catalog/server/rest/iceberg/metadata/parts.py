"""Parts of a metadata document in JSON: partition specs and sort orders; snapshots, branches and tags, and the logs.

Specs and orders are checked against a schema and compared, and their fields get ids. The logs are those of snapshots
and of metadata files.

Source: Iceberg's table specification, "Partitioning", "Sorting", "Snapshots", "Snapshot References", "Table Metadata
Fields", and Appendix C.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from interbed.catalog.server.rest.iceberg.metadata.schemas import (
    Document,
    InvalidMetadataError,
    columns,
    is_id,
    types_by_id,
)
from interbed.catalog.server.service.names import shortened

FIRST_PARTITION_ID = 1000
UNSORTED: Document = {"order-id": 0, "fields": []}

_TIMES = frozenset(("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"))
_DAYS = _TIMES | {"date"}
_HASHED = frozenset(("int", "long", "date", "time", "string", "uuid", "binary")) | _TIMES
_CUT = frozenset(("int", "long", "string", "binary"))
_NOT_IDENTITY = ("variant", "geometry", "geography")
_DIGITS_MAX = 10
"""Digits of the greatest argument of a transform."""
_ARGUMENT = re.compile(r"(bucket|truncate)\[(\d+)\]")

MAIN = "main"
ROW_LINEAGE_VERSION = 3

_CLOCK_TOLERANCE_MS = 60_000
_LOG_MAX = "write.metadata.previous-versions-max"
_LOG_MAX_DEFAULT = 100
_DELETES_OLD = "write.metadata.delete-after-commit.enabled"


def _source(field: Document) -> Any:
    """Return the id of the source column, None without one. Raises InvalidMetadataError for another value."""
    sources, source = field.get("source-ids"), field.get("source-id")
    if "source-id" not in field and isinstance(sources, list) and sources:
        source = sources[0]
    if source is not None and not is_id(source):
        raise InvalidMetadataError(f"The source-id of a field is no id of a column: {shortened(repr(source))}")
    return source


def _accepts(transform: str, kind: str) -> bool:
    """Return whether a transform applies to a primitive type; an unknown transform is kept as it is."""
    word = kind.partition("(")[0].partition("[")[0]
    if transform == "identity":
        return word not in _NOT_IDENTITY
    if transform in ("year", "month", "day"):
        return word in _DAYS
    if transform == "hour":
        return word in _TIMES
    found = _ARGUMENT.fullmatch(transform)
    if found is None:
        return True
    if found[1] == "bucket":
        return word in _HASHED or word in ("decimal", "fixed")
    return word in _CUT or word == "decimal"


def _check_field(field: Document, types: Mapping[int, Any], verb: str, what: str) -> None:
    transform, source = field.get("transform"), _source(field)
    if not isinstance(transform, str) or not isinstance(source, int):
        raise InvalidMetadataError(f"A {what} has no transform or no source-id")
    argument = _ARGUMENT.fullmatch(transform)
    if argument is not None and (len(argument[2]) > _DIGITS_MAX or not 0 < int(argument[2]) < 2**31):
        raise InvalidMetadataError(f"Invalid argument of a transform: {transform} (must be between 1 and 2^31 - 1)")
    if transform == "void":
        return
    kind = types.get(source)
    if kind is None:
        raise InvalidMetadataError(f"Cannot find source column for {what}: {_shown(field)}")
    if not isinstance(kind, str):
        raise InvalidMetadataError(f"Cannot {verb} by non-primitive source field: {kind.get('type')}")
    if not _accepts(transform, kind):
        raise InvalidMetadataError(f"Invalid source type {kind} for transform: {transform}")


def _shown(field: Document) -> str:
    name = field.get("name")
    shown = f"{field.get('transform')}({_source(field)})"
    return shown if name is None else f"{field.get('field-id')}: {name}: {shown}"


def check_spec(spec: Document, schema: Document) -> None:
    """Raise InvalidMetadataError if a spec does not fit the columns of a schema."""
    fields = fields_of(spec, "partition spec")
    types = types_by_id(schema) if fields else {}
    for field in fields:
        _check_field(field, types, "partition", "partition field")


def check_order(order: Document, schema: Document) -> None:
    """Raise InvalidMetadataError if a sort order does not fit the columns of a schema."""
    fields = fields_of(order, "sort order")
    types = types_by_id(schema) if fields else {}
    for field in fields:
        _check_field(field, types, "sort", "sort field")
        if field.get("direction") not in ("asc", "desc") or field.get("null-order") not in (
            "nulls-first",
            "nulls-last",
        ):
            raise InvalidMetadataError("A sort field has no valid direction or null-order")


def fields_of(owner: Document, what: str) -> list[Document]:
    """Return the fields of a spec or an order. InvalidMetadataError unless they are objects, whose ids are numbers."""
    fields = owner.get("fields", [])
    if not isinstance(fields, list) or not all(isinstance(field, dict) for field in fields):
        raise InvalidMetadataError(f"The fields of the {what} are no list of objects")
    for field in fields:
        number = field.get("field-id")
        if number is not None and not is_id(number):
            raise InvalidMetadataError(
                f"The field-id of the field {field.get('name')} of the {what} is no number: {number}"
            )
    return fields


def check_names(spec: Document, schema: Document) -> None:
    """Raise InvalidMetadataError if a partition field has no name, one of two fields, or that of another column."""
    fields = fields_of(spec, "partition spec")
    by_name = {name: field["id"] for name, field in columns(schema)} if fields else {}
    seen: set[str] = set()
    for field in fields:
        name = field.get("name")
        if not isinstance(name, str) or not name:
            raise InvalidMetadataError(f"Cannot use empty or null partition name: {name}")
        if name in seen:
            raise InvalidMetadataError(f"Cannot use partition name more than once: {name}")
        seen.add(name)
        column = by_name.get(name)
        if column is None or field.get("transform") == "void":
            continue
        if field.get("transform") != "identity":
            raise InvalidMetadataError(f"Cannot create partition from name that exists in schema: {name}")
        if column != _source(field):
            raise InvalidMetadataError(
                f"Cannot create identity partition sourced from different field in schema: {name}"
            )


def check_all_specs(specs: Iterable[Document], schema: Document) -> None:
    """Raise InvalidMetadataError if a field of any spec, also of a former one, does not fit its source column, or has
    the name of another column: Iceberg's library does not load a table with such a spec (up to 1.10 also if the source
    was dropped). A field whose source was dropped is allowed.
    """
    by_name = {name: field["id"] for name, field in columns(schema)}
    types = types_by_id(schema)
    for spec in specs:
        for field in fields_of(spec, "partition spec"):
            name, source, number = field.get("name"), _source(field), spec.get("spec-id")
            if isinstance(name, str) and by_name.get(name, source) != source:
                raise InvalidMetadataError(
                    f"The partition field {name} of the spec {number} has the name of a column that is not its source. "
                    "Give the column or the field another name"
                )
            if source in types:
                _check_field(field, types, "partition", f"partition field of the spec {number}")


def _key(field: Document) -> tuple[Any, str]:
    return _source(field), str(field.get("transform"))


def same_spec(left: Document, right: Document) -> bool:
    """Return whether two specs have the same fields; their ids may differ."""
    return [(*_key(field), field.get("name")) for field in left["fields"]] == [
        (*_key(field), field.get("name")) for field in right["fields"]
    ]


def same_order(left: Document, right: Document) -> bool:
    """Return whether two sort orders have the same fields."""

    def compared(order: Document) -> list[Any]:
        return [(*_key(field), field.get("direction"), field.get("null-order")) for field in order["fields"]]

    return compared(left) == compared(right)


def with_field_ids(spec: Document, known: Iterable[Document], last: int) -> Document:
    """Return a spec whose fields all have ids: those that the client gave, those of the same field in a `known` spec,
    or new ones after `last`. InvalidMetadataError for an id that is no number.
    """
    earlier = {_key(field): field["field-id"] for each in known for field in each["fields"] if "field-id" in field}
    fields = []
    for field in fields_of(spec, "partition spec"):
        number = field.get("field-id")
        if number is None:
            number = earlier.get(_key(field))
        if number is None:
            last += 1
            number = last
        fields.append({**field, "field-id": number})
    return {**spec, "fields": fields}


def last_partition_id(specs: Iterable[Document]) -> int:
    """Return the highest id of a partition field, 999 without any."""
    numbers = (field.get("field-id", 0) for spec in specs for field in spec["fields"])
    return max(numbers, default=FIRST_PARTITION_ID - 1)


def has_sequential_ids(spec: Document) -> bool:
    """Return whether the ids of the fields are 1000, 1001, and so on, as version 1 of the format needs them."""
    return all(field["field-id"] == FIRST_PARTITION_ID + place for place, field in enumerate(spec["fields"]))


def moved(owner: Document, ids: Mapping[int, int]) -> Document:
    """Return a spec or an order whose source columns have new ids. InvalidMetadataError for an unknown column."""
    fields = []
    for field in fields_of(owner, "partition spec"):
        source = _source(field)
        if source not in ids:
            raise InvalidMetadataError(f"Cannot find source column for partition field: {_shown(field)}")
        rest = {key: value for key, value in field.items() if key != "source-ids"}
        fields.append({**rest, "source-id": ids[source]})
    return {**owner, "fields": fields}


def next_id(owners: Sequence[Document], key: str, first: int) -> int:
    """Return the id of a new spec or order: one after the highest."""
    return max((owner[key] + 1 for owner in owners), default=first) if owners else first


class OutdatedSnapshotError(Exception):
    """The change of snapshots was made for an older state of the table: the client may make it again."""


def check_snapshot(snapshot: Document, document: Document) -> None:
    """Raise InvalidMetadataError for a snapshot that cannot be added, OutdatedSnapshotError for an outdated one."""
    if "manifest-list" not in snapshot and "manifests" not in snapshot:
        raise InvalidMetadataError("The snapshot has no manifest-list")
    for key, what in (
        ("schemas", "a schema"),
        ("partition-specs", "a partition spec"),
        ("sort-orders", "a sort order"),
    ):
        if not document[key]:
            raise InvalidMetadataError(f"Attempting to add a snapshot before {what} is added")
    number = snapshot["snapshot-id"]
    if any(each["snapshot-id"] == number for each in document["snapshots"]):
        raise InvalidMetadataError(f"Snapshot already exists for id: {number}")
    sequence, last = snapshot.get("sequence-number", 0), document.get("last-sequence-number", 0)
    if document["format-version"] == 1 and sequence != 0:
        raise InvalidMetadataError(f"Sequence number must be 0 in v1: {sequence}")
    if document["format-version"] > 1 and sequence <= last and snapshot.get("parent-snapshot-id") is not None:
        raise OutdatedSnapshotError(
            f"Cannot add snapshot with sequence number {sequence} older than last sequence number {last}"
        )
    if document["format-version"] >= ROW_LINEAGE_VERSION:
        _check_rows(snapshot, document)


def _check_rows(snapshot: Document, document: Document) -> None:
    first = snapshot.get("first-row-id")
    if first is None:
        raise InvalidMetadataError("Cannot add a snapshot: first-row-id is null")
    if first < document["next-row-id"]:
        raise OutdatedSnapshotError(
            f"Cannot add a snapshot, first-row-id is behind table next-row-id: {first} < {document['next-row-id']}"
        )
    if "added-rows" not in snapshot:
        raise InvalidMetadataError("Cannot add a snapshot: added-rows is null")


def log_entry(snapshot: Document, log: Sequence[Document], now_ms: int, *, added: bool) -> Document:
    """Return the entry of the log for a snapshot that becomes current.

    A snapshot that the same commit adds counts from its own time on, an older one (a rollback) from now on. Iceberg's
    library does not load a table whose log goes back, or is ahead of the table, by more than a minute.
    InvalidMetadataError for a time of the client that would do that: its clock is wrong. If the clock of an earlier
    client was ahead, the entry has the time of the last one.
    """
    number, last = snapshot["snapshot-id"], log[-1]["timestamp-ms"] if log else None
    at = snapshot["timestamp-ms"] if added else now_ms
    if at > now_ms + _CLOCK_TOLERANCE_MS:
        raise InvalidMetadataError(
            f"The snapshot {number} is from {at - now_ms} ms in the future (timestamp-ms {at}, now {now_ms}). Correct "
            "the clock of the client, or of the server, and commit again"
        )
    if last is None or at >= last - _CLOCK_TOLERANCE_MS:
        return {"timestamp-ms": at, "snapshot-id": number}
    if last > now_ms + _CLOCK_TOLERANCE_MS:
        return {"timestamp-ms": last, "snapshot-id": number}
    raise InvalidMetadataError(
        f"The snapshot {number} is from {last - at} ms before the current one (timestamp-ms {at} < {last}). "
        "Correct the clock of the client, and commit again"
    )


def ordered_log(log: list[Any]) -> list[Any]:
    """Return a log that another catalog has written out of order, with the times in order; another one as it is."""
    made: list[Any] = []
    for entry in log:
        last = made[-1]["timestamp-ms"] if made else entry["timestamp-ms"]
        is_late = entry["timestamp-ms"] < last - _CLOCK_TOLERANCE_MS
        made.append({**entry, "timestamp-ms": last} if is_late else entry)
    return made


def current_snapshot(document: Document) -> Document | None:
    """Return the newest snapshot of the main branch."""
    number = document.get("current-snapshot-id")
    return next((each for each in document.get("snapshots", ()) if each["snapshot-id"] == number), None)


def corrected_log(
    document: Document, added: Collection[int], once_main: Collection[int], *, removed: bool
) -> list[Any]:
    """Return the log of snapshots without those that a commit made current only between two of its updates.

    `added` are the snapshots of the commit, `once_main` those that its updates set. After the removal of a snapshot
    the history before it is cut: it would have a gap.
    """
    current = document.get("current-snapshot-id")
    between = {number for number in once_main if number in added and number != current}
    known = {each["snapshot-id"] for each in document["snapshots"]}
    log: list[Any] = []
    for entry in document["snapshot-log"]:
        if entry["snapshot-id"] in known:
            if entry["snapshot-id"] not in between:
                log.append(entry)
        elif removed:
            log.clear()
    return log


def with_previous_file(document: Document, location: str, timestamp_ms: int) -> list[Any]:
    """Return the log of metadata files after a commit that replaces the file of this location."""
    log = list(document.get("metadata-log", ()))
    most = max(1, _number(document["properties"], _LOG_MAX, _LOG_MAX_DEFAULT))
    return [*log[max(0, len(log) - most + 1) :], {"timestamp-ms": timestamp_ms, "metadata-file": location}]


def files_to_delete(before: Document, after: Document) -> list[str]:
    """Return the metadata files that a commit has dropped from the log, if the table wants them deleted."""
    if after.get("properties", {}).get(_DELETES_OLD, "false").lower() != "true":
        return []
    kept = {entry["metadata-file"] for entry in after.get("metadata-log", ())}
    return [entry["metadata-file"] for entry in before.get("metadata-log", ()) if entry["metadata-file"] not in kept]


def with_referenced_snapshots(document: Document) -> Document:
    """Return the document with the snapshots of branches and tags alone, and the current one, which metadata of a
    published table do not name as a branch.
    """
    wanted = {ref["snapshot-id"] for ref in document.get("refs", {}).values()} | {document.get("current-snapshot-id")}
    return {**document, "snapshots": [each for each in document.get("snapshots", ()) if each["snapshot-id"] in wanted]}


def _number(properties: dict[str, str], name: str, default: int) -> int:
    try:
        return int(properties.get(name, default))
    except ValueError as error:
        raise InvalidMetadataError(f"The property '{name}' is {properties[name]!r}, which is no number") from error
