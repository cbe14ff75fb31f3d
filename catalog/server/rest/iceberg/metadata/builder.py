"""Updates applied to a metadata document, as Iceberg's reference implementation applies them.

A schema, spec or order that the table has already keeps its id; the id -1 means the last added one. Fields that no
update names are kept as they are. The base is not changed.
"""

from collections.abc import Iterable
from typing import Any

from interbed.catalog.server.rest.iceberg.metadata.documents import (
    FORMAT_VERSION,
    BranchShape,
    EncryptionKeyShape,
    PartitionStatisticsShape,
    SnapshotShape,
    StatisticsShape,
    TagShape,
    by_id,
    check_version,
    current_schema,
    default_order,
    default_spec,
    empty_document,
    shaped,
    stored_properties,
)
from interbed.catalog.server.rest.iceberg.metadata.parts import (
    FIRST_PARTITION_ID,
    MAIN,
    ROW_LINEAGE_VERSION,
    UNSORTED,
    OutdatedSnapshotError,
    check_all_specs,
    check_names,
    check_order,
    check_snapshot,
    check_spec,
    corrected_log,
    has_sequential_ids,
    last_partition_id,
    log_entry,
    next_id,
    ordered_log,
    same_order,
    same_spec,
    with_field_ids,
    with_previous_file,
)
from interbed.catalog.server.rest.iceberg.metadata.schemas import (
    Document,
    InvalidMetadataError,
    check_schema,
    highest_id,
    same_schema,
    without_nulls,
)
from interbed.catalog.server.rest.iceberg.metadata.updates import (
    AddEncryptionKey,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AddSpec,
    AssignUuid,
    RemoveEncryptionKey,
    RemovePartitionSpecs,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetSnapshotRef,
    SetStatistics,
    Update,
    UpgradeFormatVersion,
)

_LAST_ADDED = -1


def created(updates: Iterable[Update], now_ms: int) -> Document:
    """Return the document of a table that is created by updates, as those of a staged table. Raises as `updated`."""
    listed = list(updates)
    version = next((each.format_version for each in listed if isinstance(each, UpgradeFormatVersion)), 2)
    builder = _Builder(empty_document(version, now_ms), now_ms)
    for update in listed:
        builder.apply(update)
    made = builder.document
    if made["location"] is None:
        raise InvalidMetadataError("The new table has no location: the updates have no set-location")
    made["properties"] = stored_properties(made["properties"])
    return builder.finished()


def updated(base: Document, base_location: str, updates: Iterable[Update], now_ms: int) -> Document | None:
    """Return the document after updates, None if they change nothing. `base_location` is the base's metadata file.

    InvalidMetadataError for an update that cannot be applied, OutdatedSnapshotError for one that the client has to
    make again.
    """
    builder = _Builder(base, now_ms)
    for update in updates:
        builder.apply(update)
    if builder.document == base:
        return None
    made = builder.finished()
    # An entry of the log may be ahead of this clock, if the clock of an earlier writer was.
    entries = (entry["timestamp-ms"] for entry in made["snapshot-log"][-1:])
    made["last-updated-ms"] = max(now_ms, base["last-updated-ms"], *entries)
    made["metadata-log"] = with_previous_file(made, base_location, base["last-updated-ms"])
    return made


class _Builder:
    """The document in the middle of its updates."""

    def __init__(self, base: Document, now_ms: int) -> None:
        self.document = dict(base)
        known = (each for each in base["schemas"] if each["schema-id"] == base["current-schema-id"])
        self._base_specs = (base["partition-specs"], next(known, None))
        self._now_ms = now_ms
        self._last_schema: int | None = None
        self._last_spec: int | None = None
        self._last_order: int | None = None
        self._added: set[int] = set()
        self._once_main: list[int] = []
        self._has_removed = False
        # Branches and tags whose snapshot is removed, and that no update has removed or moved.
        self._dangling: dict[str, Document] = {}

    def finished(self) -> Document:
        """Return the document, checked as a whole."""
        document = self.document
        if self._dangling:
            name, ref = next(iter(self._dangling.items()))
            raise OutdatedSnapshotError(
                f"Cannot remove snapshot {ref['snapshot-id']}: the {ref['type']} '{name}' names it"
            )
        schema = current_schema(document)
        check_spec(default_spec(document), schema)
        check_order(default_order(document), schema)
        if (document["partition-specs"], schema) != self._base_specs:
            check_all_specs(document["partition-specs"], schema)
        if self._has_removed or len(self._once_main) > 1:
            document["snapshot-log"] = corrected_log(document, self._added, self._once_main, removed=self._has_removed)
        document["snapshot-log"] = ordered_log(document["snapshot-log"])
        return document

    def apply(self, update: Update) -> None:
        """Apply one update. InvalidMetadataError, OutdatedSnapshotError."""
        document = self.document
        match update:
            case AssignUuid():
                document["table-uuid"] = update.uuid
            case UpgradeFormatVersion():
                self._upgrade(update.format_version)
            case AddSchema() | SetCurrentSchema() | RemoveSchemas():
                self._apply_schema(update)
            case AddSpec() | SetDefaultSpec() | RemovePartitionSpecs():
                self._apply_spec(update)
            case AddSortOrder() | SetDefaultSortOrder():
                self._apply_order(update)
            case AddSnapshot() | SetSnapshotRef() | RemoveSnapshots() | RemoveSnapshotRef():
                self._apply_snapshot(update)
            case SetLocation():
                document["location"] = update.location.rstrip("/") or update.location
            case SetProperties() | RemoveProperties():
                document["properties"] = update.changed(document["properties"])
            case _:
                self._apply_file(update)

    def _upgrade(self, version: int) -> None:
        before = self.document[FORMAT_VERSION]
        check_version(version)
        if version < before:
            raise InvalidMetadataError(f"Cannot downgrade v{before} table to v{version}")
        self.document[FORMAT_VERSION] = version
        if version >= ROW_LINEAGE_VERSION:
            self.document.setdefault("next-row-id", 0)

    def _apply_schema(self, update: AddSchema | SetCurrentSchema | RemoveSchemas) -> None:
        document = self.document
        match update:
            case AddSchema():
                self._add_schema(update.schema)
            case SetCurrentSchema():
                number = _chosen(update.schema_id, self._last_schema, "schema", "schema")
                if all(each["schema-id"] != number for each in document["schemas"]):
                    raise InvalidMetadataError(f"Cannot set current schema to unknown schema: {number}")
                document["current-schema-id"] = number
            case RemoveSchemas():
                if document["current-schema-id"] in update.schema_ids:
                    raise InvalidMetadataError("Cannot remove the current schema")
                document["schemas"] = _without(document["schemas"], "schema-id", update.schema_ids)

    def _add_schema(self, schema: Document) -> None:
        document = self.document
        schema = without_nulls(schema)
        check_schema(schema, document[FORMAT_VERSION])
        document["last-column-id"] = max(document["last-column-id"], highest_id(schema))
        known = next((each for each in document["schemas"] if same_schema(each, schema)), None)
        number = known["schema-id"] if known is not None else next_id(document["schemas"], "schema-id", 0)
        if known is None:
            document["schemas"] = [*document["schemas"], {**schema, "type": "struct", "schema-id": number}]
        self._last_schema = number

    def _schema(self) -> Document:
        """Return the schema that specs and orders refer to. A new table may set its current schema after them, as
        DuckDB does: until then it is the last added one.
        """
        if self.document["current-schema-id"] == _LAST_ADDED and self._last_schema is not None:
            return by_id(self.document["schemas"], "schema-id", self._last_schema)
        return current_schema(self.document)

    def _apply_spec(self, update: AddSpec | SetDefaultSpec | RemovePartitionSpecs) -> None:
        document = self.document
        match update:
            case AddSpec():
                self._add_spec(update.spec)
            case SetDefaultSpec():
                number = _chosen(update.spec_id, self._last_spec, "spec", "partition spec")
                document["default-spec-id"] = by_id(document["partition-specs"], "spec-id", number)["spec-id"]
            case RemovePartitionSpecs():
                if document["default-spec-id"] in update.spec_ids:
                    raise InvalidMetadataError("Cannot remove the default partition spec")
                document["partition-specs"] = _without(document["partition-specs"], "spec-id", update.spec_ids)

    def _add_spec(self, spec: Document) -> None:
        document = self.document
        specs, schema = document["partition-specs"], self._schema()
        if document[FORMAT_VERSION] == 1:
            made = with_field_ids(spec, (), FIRST_PARTITION_ID - 1)
        else:
            made = with_field_ids(spec, specs, document["last-partition-id"])
        known = next((each for each in specs if same_spec(each, made)), None)
        if known is None:
            check_spec(made, schema)
            check_names(made, schema)
            if document[FORMAT_VERSION] == 1 and not has_sequential_ids(made):
                raise InvalidMetadataError(f"Spec does not use sequential IDs that are required in v1: {made}")
            made = {**made, "spec-id": next_id(specs, "spec-id", 0)}
            document["partition-specs"] = [*specs, made]
            document["last-partition-id"] = max(document["last-partition-id"], last_partition_id([made]))
        self._last_spec = (known or made)["spec-id"]

    def _apply_order(self, update: AddSortOrder | SetDefaultSortOrder) -> None:
        document = self.document
        if isinstance(update, SetDefaultSortOrder):
            number = _chosen(update.sort_order_id, self._last_order, "sort order", "sort order")
            document["default-sort-order-id"] = by_id(document["sort-orders"], "order-id", number)["order-id"]
            return
        orders, order = document["sort-orders"], update.sort_order
        check_order(order, self._schema())
        made = {"fields": [], **order}
        known = next((each for each in orders if same_order(each, made)), None)
        if known is None:
            number = max(1, next_id(orders, "order-id", 1))
            made = {**made, "order-id": number} if made["fields"] else UNSORTED
            document["sort-orders"] = [*orders, made]
        self._last_order = (known or made)["order-id"]

    def _apply_snapshot(self, update: AddSnapshot | SetSnapshotRef | RemoveSnapshots | RemoveSnapshotRef) -> None:
        match update:
            case AddSnapshot():
                self._add_snapshot(update.snapshot)
            case SetSnapshotRef():
                self._set_ref(update)
            case RemoveSnapshots():
                self._remove_snapshots(update.snapshot_ids)
            case RemoveSnapshotRef():
                self._remove_ref(update.ref_name)

    def _add_snapshot(self, snapshot: Document) -> None:
        document = self.document
        snapshot = shaped(snapshot, SnapshotShape, "snapshot")
        check_snapshot(snapshot, document)
        if document[FORMAT_VERSION] > 1:
            # A snapshot without a parent may have an older number. The highest number of the table stays: deletes of
            # the next snapshot must be newer than all rows.
            numbers = (document["last-sequence-number"], snapshot.get("sequence-number", 0))
            document["last-sequence-number"] = max(numbers)
        if document[FORMAT_VERSION] >= ROW_LINEAGE_VERSION:
            document["next-row-id"] = snapshot["first-row-id"] + snapshot["added-rows"]
        document["snapshots"] = [*document["snapshots"], snapshot]
        self._added.add(snapshot["snapshot-id"])

    def _set_ref(self, update: SetSnapshotRef) -> None:
        document, name = self.document, update.ref_name
        if update.type not in ("branch", "tag"):
            raise InvalidMetadataError(f"Invalid snapshot ref type: {update.type}")
        given = {
            "snapshot-id": update.snapshot_id,
            "type": update.type,
            "min-snapshots-to-keep": update.min_snapshots_to_keep,
            "max-snapshot-age-ms": update.max_snapshot_age_ms,
            "max-ref-age-ms": update.max_ref_age_ms,
        }
        ref = shaped(given, TagShape if update.type == "tag" else BranchShape, f"{update.type} {name}")
        if document["refs"].get(name) == ref:
            return
        self._dangling.pop(name, None)
        number = update.snapshot_id
        snapshot = next((each for each in document["snapshots"] if each["snapshot-id"] == number), None)
        if snapshot is None:
            raise InvalidMetadataError(f"Cannot set {name} to unknown snapshot: {number}")
        if name == MAIN:
            if update.type != "branch":
                raise InvalidMetadataError("Cannot set main to a tag, it must be a branch")
            entry = log_entry(snapshot, document["snapshot-log"], self._now_ms, added=number in self._added)
            document["current-snapshot-id"] = number
            document["snapshot-log"] = [*document["snapshot-log"], entry]
            self._once_main.append(number)
        document["refs"] = {**document["refs"], name: ref}

    def _remove_snapshots(self, numbers: list[int]) -> None:
        document, removed = self.document, set(numbers)
        if not any(each["snapshot-id"] in removed for each in document["snapshots"]):
            return
        for key in ("snapshots", "statistics", "partition-statistics"):
            document[key] = _without(document[key], "snapshot-id", removed)
        dangling = {name: ref for name, ref in document["refs"].items() if ref["snapshot-id"] in removed}
        for name in dangling:
            self._remove_ref(name)
        self._dangling |= dangling
        self._has_removed = True

    def _remove_ref(self, name: str) -> None:
        document = self.document
        self._dangling.pop(name, None)
        if name == MAIN:
            document["current-snapshot-id"] = None
        document["refs"] = {key: ref for key, ref in document["refs"].items() if key != name}

    def _apply_file(self, update: Update) -> None:
        """Apply an update of statistics or of encryption keys."""
        document = self.document
        match update:
            case SetStatistics():
                _replace(document, "statistics", shaped(update.statistics, StatisticsShape, "statistics file"))
            case RemoveStatistics():
                document["statistics"] = _without(document["statistics"], "snapshot-id", [update.snapshot_id])
            case SetPartitionStatistics():
                file = shaped(update.partition_statistics, PartitionStatisticsShape, "partition statistics file")
                _replace(document, "partition-statistics", file)
            case RemovePartitionStatistics():
                kept = _without(document["partition-statistics"], "snapshot-id", [update.snapshot_id])
                document["partition-statistics"] = kept
            case AddEncryptionKey():
                key = shaped(update.encryption_key, EncryptionKeyShape, "encryption key")
                keys = document.get("encryption-keys", [])
                if all(each.get("key-id") != key["key-id"] for each in keys):
                    document["encryption-keys"] = [*keys, key]
            case RemoveEncryptionKey():
                if "encryption-keys" in document:
                    kept = _without(document["encryption-keys"], "key-id", [update.key_id])
                    document["encryption-keys"] = kept
            case _:
                raise InvalidMetadataError(f"{type(update).__name__} is no update of a table")


def _chosen(number: int, last: int | None, what: str, shown: str) -> int:
    if number != _LAST_ADDED:
        return number
    if last is None:
        raise InvalidMetadataError(f"Cannot set last added {what}: no {shown} has been added")
    return last


def _without(owners: list[Any], key: str, removed: Iterable[Any]) -> list[Any]:
    gone = set(removed)
    return [each for each in owners if each.get(key) not in gone]


def _replace(document: Document, key: str, file: Document) -> None:
    document[key] = [*_without(document[key], "snapshot-id", [file["snapshot-id"]]), file]
