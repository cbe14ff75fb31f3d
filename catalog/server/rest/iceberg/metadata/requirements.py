"""Requirements of a commit, compared with the metadata of the table. The texts of failures are Iceberg's: clients and
their tests compare them.
"""

from collections.abc import Iterable

from interbed.catalog.server.rest.iceberg.metadata.base import Document
from interbed.catalog.server.rest.iceberg.metadata.updates import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUuid,
    AssertViewUuid,
    CommitRequirement,
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
