"""Snapshots, branches and tags in JSON, and the logs of snapshots and of metadata files.

Source: Iceberg's table specification, "Snapshots", "Snapshot References", "Table Metadata Fields".
"""

from collections.abc import Collection, Sequence
from typing import Any

from interbed.catalog.server.rest.iceberg.metadata.schemas import Document, InvalidMetadataError

MAIN = "main"
ROW_LINEAGE_VERSION = 3

_CLOCK_TOLERANCE_MS = 60_000
_LOG_MAX = "write.metadata.previous-versions-max"
_LOG_MAX_DEFAULT = 100
_DELETES_OLD = "write.metadata.delete-after-commit.enabled"


class OutdatedSnapshotError(Exception):
    """The snapshot was made for an older state of the table: the client may make it again."""


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
