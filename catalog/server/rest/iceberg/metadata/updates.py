"""Updates and requirements as clients send them: one msgspec type for each, distinguished by `action` and by `type`.

Source: Iceberg's REST specification, `TableUpdate`, `ViewUpdate`, `TableRequirement`, `ViewRequirement`.

Requirements are compared with the metadata of the table. The texts of failures are Iceberg's: clients and
their tests compare them.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from interbed.catalog.server.rest.iceberg.metadata.schemas import Document


class Update(msgspec.Struct, tag_field="action", rename="kebab", kw_only=True):
    """One change of metadata."""


class AssignUuid(Update, tag="assign-uuid"):
    uuid: str


class UpgradeFormatVersion(Update, tag="upgrade-format-version"):
    format_version: int


class AddSchema(Update, tag="add-schema"):
    schema: dict[str, Any]
    last_column_id: int | None = None


class SetCurrentSchema(Update, tag="set-current-schema"):
    schema_id: int


class AddSpec(Update, tag="add-spec"):
    spec: dict[str, Any]


class SetDefaultSpec(Update, tag="set-default-spec"):
    spec_id: int


class AddSortOrder(Update, tag="add-sort-order"):
    sort_order: dict[str, Any]


class SetDefaultSortOrder(Update, tag="set-default-sort-order"):
    sort_order_id: int


class AddSnapshot(Update, tag="add-snapshot"):
    snapshot: dict[str, Any]


class SetSnapshotRef(Update, tag="set-snapshot-ref"):
    ref_name: str
    type: str
    snapshot_id: int
    max_ref_age_ms: int | None = None
    max_snapshot_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None


class RemoveSnapshots(Update, tag="remove-snapshots"):
    snapshot_ids: list[int]


class RemoveSnapshotRef(Update, tag="remove-snapshot-ref"):
    ref_name: str


class SetLocation(Update, tag="set-location"):
    location: str


class SetProperties(Update, tag="set-properties"):
    updates: dict[str, str] | None = None
    updated: dict[str, str] | None = None
    """The name of `updates` in old clients."""

    def changed(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties after the update."""
        return {**properties, **(self.updates or self.updated or {})}


class RemoveProperties(Update, tag="remove-properties"):
    removals: list[str] | None = None
    removed: list[str] | None = None
    """The name of `removals` in old clients."""

    def changed(self, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties after the update."""
        removed = set(self.removals or self.removed or ())
        return {key: value for key, value in properties.items() if key not in removed}


class SetStatistics(Update, tag="set-statistics"):
    statistics: dict[str, Any]
    snapshot_id: int | None = None


class RemoveStatistics(Update, tag="remove-statistics"):
    snapshot_id: int


class SetPartitionStatistics(Update, tag="set-partition-statistics"):
    partition_statistics: dict[str, Any]


class RemovePartitionStatistics(Update, tag="remove-partition-statistics"):
    snapshot_id: int


class RemovePartitionSpecs(Update, tag="remove-partition-specs"):
    spec_ids: list[int]


class RemoveSchemas(Update, tag="remove-schemas"):
    schema_ids: list[int]


class AddEncryptionKey(Update, tag="add-encryption-key"):
    encryption_key: dict[str, Any]


class RemoveEncryptionKey(Update, tag="remove-encryption-key"):
    key_id: str


class AddViewVersion(Update, tag="add-view-version"):
    view_version: dict[str, Any]


class SetCurrentViewVersion(Update, tag="set-current-view-version"):
    view_version_id: int


TableUpdate = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetCurrentSchema
    | AddSpec
    | SetDefaultSpec
    | AddSortOrder
    | SetDefaultSortOrder
    | AddSnapshot
    | SetSnapshotRef
    | RemoveSnapshots
    | RemoveSnapshotRef
    | SetLocation
    | SetProperties
    | RemoveProperties
    | SetStatistics
    | RemoveStatistics
    | SetPartitionStatistics
    | RemovePartitionStatistics
    | RemovePartitionSpecs
    | RemoveSchemas
    | AddEncryptionKey
    | RemoveEncryptionKey
)

ViewUpdate = (
    AssignUuid
    | UpgradeFormatVersion
    | AddSchema
    | SetLocation
    | SetProperties
    | RemoveProperties
    | AddViewVersion
    | SetCurrentViewVersion
)


class CommitRequirement(msgspec.Struct, tag_field="type", rename="kebab", kw_only=True):
    """A condition that the metadata must satisfy before an update."""


class AssertCreate(CommitRequirement, tag="assert-create"):
    pass


class AssertTableUuid(CommitRequirement, tag="assert-table-uuid"):
    uuid: str


class AssertRefSnapshotId(CommitRequirement, tag="assert-ref-snapshot-id"):
    ref: str
    snapshot_id: int | None = None


class AssertLastAssignedFieldId(CommitRequirement, tag="assert-last-assigned-field-id"):
    last_assigned_field_id: int


class AssertCurrentSchemaId(CommitRequirement, tag="assert-current-schema-id"):
    current_schema_id: int


class AssertLastAssignedPartitionId(CommitRequirement, tag="assert-last-assigned-partition-id"):
    last_assigned_partition_id: int


class AssertDefaultSpecId(CommitRequirement, tag="assert-default-spec-id"):
    default_spec_id: int


class AssertDefaultSortOrderId(CommitRequirement, tag="assert-default-sort-order-id"):
    default_sort_order_id: int


class AssertViewUuid(CommitRequirement, tag="assert-view-uuid"):
    uuid: str


TableRequirement = (
    AssertCreate
    | AssertTableUuid
    | AssertRefSnapshotId
    | AssertLastAssignedFieldId
    | AssertCurrentSchemaId
    | AssertLastAssignedPartitionId
    | AssertDefaultSpecId
    | AssertDefaultSortOrderId
)


class RequirementFailedError(Exception):
    """A requirement does not hold: nothing was changed."""


def check_requirements(requirements: Iterable[CommitRequirement], base: Document | None) -> None:
    """Raise RequirementFailedError for the first requirement that does not hold; `base` is None without a table."""
    for requirement in requirements:
        reason = _failure(requirement, base)
        if reason is not None:
            raise RequirementFailedError(f"Requirement failed: {reason}")


def _failure(requirement: CommitRequirement, base: Document | None) -> str | None:
    if isinstance(requirement, AssertCreate):
        return None if base is None else "table already exists"
    if base is None:
        return "current table metadata is missing"
    if isinstance(requirement, AssertRefSnapshotId):
        return _ref_failure(requirement, base)
    expected, found, what = _compared(requirement, base)
    return None if expected == found else f"{what}: expected {_id(requirement)}{expected} != {found}"


def _id(requirement: CommitRequirement) -> str:
    return "" if isinstance(requirement, AssertTableUuid | AssertViewUuid) else "id "


def _compared(requirement: CommitRequirement, base: Document) -> tuple[object, object, str]:
    match requirement:
        case AssertTableUuid():
            return requirement.uuid.lower(), str(base["table-uuid"]).lower(), "UUID does not match"
        case AssertViewUuid():
            return requirement.uuid.lower(), str(base["view-uuid"]).lower(), "view UUID does not match"
        case AssertLastAssignedFieldId():
            return requirement.last_assigned_field_id, base["last-column-id"], "last assigned field id changed"
        case AssertCurrentSchemaId():
            return requirement.current_schema_id, base["current-schema-id"], "current schema changed"
        case AssertLastAssignedPartitionId():
            wanted = requirement.last_assigned_partition_id
            return wanted, base["last-partition-id"], "last assigned partition id changed"
        case AssertDefaultSpecId():
            return requirement.default_spec_id, base["default-spec-id"], "default partition spec changed"
        case AssertDefaultSortOrderId():
            return requirement.default_sort_order_id, base["default-sort-order-id"], "default sort order changed"
        case _:
            raise AssertionError(f"{requirement} is no requirement of a table or view")


def _ref_failure(requirement: AssertRefSnapshotId, base: Document) -> str | None:
    wanted, name = requirement.snapshot_id, requirement.ref
    found = base["refs"].get(name)
    if found is None:
        return None if wanted is None else f"branch or tag {name} is missing, expected {wanted}"
    if wanted is None:
        return f"{found['type']} {name} was created concurrently"
    if wanted != found["snapshot-id"]:
        return f"{found['type']} {name} has changed: expected id {wanted} != {found['snapshot-id']}"
    return None
