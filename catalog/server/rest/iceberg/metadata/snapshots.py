"""Snapshots, branches and tags in JSON, and the logs of snapshots and of metadata files.

Source: Iceberg's table specification, "Snapshots", "Snapshot References", "Table Metadata Fields".
"""

from collections.abc import Collection
from typing import Any

from interbed.catalog.server.rest.iceberg.metadata.schemas import Document, InvalidMetadataError

MAIN = "main"
ROW_LINEAGE_VERSION = 3

_LOG_MAX = "write.metadata.previous-versions-max"
_LOG_MAX_DEFAULT = 100
_DELETES_OLD = "write.metadata.delete-after-commit.enabled"


class OutdatedSnapshotError(Exception):
    """The snapshot was made for an older state of the table: the client may make it again."""


def check_snapshot(snapshot: Document, document: Document) -> None:
    """Raise InvalidMetadataError for a snapshot that cannot be added, OutdatedSnapshotError for an outdated one."""
    for key in ("snapshot-id", "timestamp-ms"):
        if not isinstance(snapshot.get(key), int):
            raise InvalidMetadataError(f"The snapshot has no {key}")
    files = {key: snapshot.get(key) for key in ("manifest-list", "manifests")}
    if not isinstance(files["manifest-list"], str) and not isinstance(files["manifests"], list):
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
    if not isinstance(snapshot.get("added-rows"), int):
        raise InvalidMetadataError("Cannot add a snapshot: added-rows is null")


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
    """Return the document with the snapshots of branches and tags alone."""
    wanted = {ref["snapshot-id"] for ref in document.get("refs", {}).values()}
    return {**document, "snapshots": [each for each in document.get("snapshots", ()) if each["snapshot-id"] in wanted]}


def _number(properties: dict[str, str], name: str, default: int) -> int:
    try:
        return int(properties.get(name, default))
    except ValueError as error:
        raise InvalidMetadataError(f"The property '{name}' is {properties[name]!r}, which is no number") from error
