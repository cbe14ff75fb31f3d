"""Snapshot and its JSON file `snapshot/snapshot-<id>` (specification page `spec/snapshot`, version 3)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from interbed.storage.base.errors import CorruptFileError, UnsupportedVersionError, plain_errors
from interbed.storage.meta.json_object import read_object

CURRENT_VERSION = 3
FIRST_SNAPSHOT_ID = 1
BATCH_COMMIT_IDENTIFIER = 2**63 - 1
"""Commit identifier of batch jobs, which commit once and have no sequence of commits."""


class CommitKind(StrEnum):
    """Type of the changes in a snapshot."""

    APPEND = "APPEND"
    COMPACT = "COMPACT"
    OVERWRITE = "OVERWRITE"
    ANALYZE = "ANALYZE"


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One version of a table. Counts are of unmerged records; sizes in bytes; `time_millis` since the epoch.

    `unknown` holds JSON members that this version of interbed does not know; they are written back.
    """

    id: int
    schema_id: int
    base_manifest_list: str
    delta_manifest_list: str
    commit_user: str
    commit_identifier: int
    commit_kind: CommitKind
    time_millis: int
    total_record_count: int
    delta_record_count: int
    base_manifest_list_size: int | None = None
    delta_manifest_list_size: int | None = None
    changelog_manifest_list: str | None = None
    changelog_manifest_list_size: int | None = None
    changelog_record_count: int | None = None
    index_manifest: str | None = None
    uuid: str | None = None
    writer_version: str | None = None
    watermark: int | None = None
    statistics: str | None = None
    properties: Mapping[str, str] | None = None
    next_row_id: int | None = None
    operation: str | None = None
    log_offsets: Mapping[str, int] | None = None
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the content of the snapshot file; absent members are left out, as in Paimon."""
        value: dict[str, Any] = {"version": CURRENT_VERSION}
        for name, member in _MEMBERS.items():
            content = getattr(self, name)
            if content is not None:
                value[member] = dict(content) if isinstance(content, Mapping) else content
        value.update(self.unknown)
        return json.dumps(value, indent=2, ensure_ascii=False)

    def is_same(self, other: "Snapshot") -> bool:
        """Return whether both are the same commit; their files may differ in members that were added to one of them."""
        if self.uuid is not None and other.uuid is not None:
            return self.id == other.id and self.uuid == other.uuid
        mine = (self.id, self.base_manifest_list, self.delta_manifest_list, self.commit_user)
        return mine == (other.id, other.base_manifest_list, other.delta_manifest_list, other.commit_user)

    @property
    def identity(self) -> str:
        """Text that no other commit of the table has, also if it gets the same id after a rollback."""
        return self.uuid or self.delta_manifest_list

    @property
    def changelog_has_expired(self) -> bool:
        """Whether the changelog was deleted while a tag kept the rows: its records are counted, but it is not named."""
        return self.changelog_manifest_list is None and bool(self.changelog_record_count)

    def without_changelog(self) -> "Snapshot":
        """Return the snapshot without its expired changelog; the number of records of it stays."""
        return replace(self, changelog_manifest_list=None, changelog_manifest_list_size=None)

    @staticmethod
    def from_json(text: str | bytes, *, source: str = "snapshot") -> "Snapshot":
        """Return the snapshot of a file's content.

        Raises CorruptFileError and UnsupportedVersionError naming `source`.
        """
        value = read_object(text, _MEMBER_TYPES, source=source, what="a snapshot file")
        try:
            version = value.get("version") or 1
            if not 1 <= version <= CURRENT_VERSION:
                raise UnsupportedVersionError(
                    f"{source} has version {version}; this version of interbed reads versions 1 to {CURRENT_VERSION}."
                )
            known = {name: value[member] for name, member in _MEMBERS.items() if value.get(member) is not None}
            known["commit_kind"] = CommitKind(known["commit_kind"])
            # Files of versions 1 and 2 may lack the counts; a missing count reads as zero, as in Paimon.
            known.setdefault("total_record_count", 0)
            known.setdefault("delta_record_count", 0)
            rest = {k: v for k, v in value.items() if k not in _KNOWN_MEMBERS}
            return Snapshot(**known, unknown=rest)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptFileError(f"{source} is not a snapshot file: {error}") from error


_MEMBERS = {
    "uuid": "uuid",
    "id": "id",
    "schema_id": "schemaId",
    "base_manifest_list": "baseManifestList",
    "base_manifest_list_size": "baseManifestListSize",
    "delta_manifest_list": "deltaManifestList",
    "delta_manifest_list_size": "deltaManifestListSize",
    "changelog_manifest_list": "changelogManifestList",
    "changelog_manifest_list_size": "changelogManifestListSize",
    "index_manifest": "indexManifest",
    "commit_user": "commitUser",
    "writer_version": "writerVersion",
    "commit_identifier": "commitIdentifier",
    "commit_kind": "commitKind",
    "time_millis": "timeMillis",
    "log_offsets": "logOffsets",
    "total_record_count": "totalRecordCount",
    "delta_record_count": "deltaRecordCount",
    "changelog_record_count": "changelogRecordCount",
    "watermark": "watermark",
    "statistics": "statistics",
    "properties": "properties",
    "next_row_id": "nextRowId",
    "operation": "operation",
}
_TEXTS = frozenset(
    {
        *("uuid", "baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "commitUser"),
        *("writerVersion", "commitKind", "statistics", "operation"),
    }
)
_OBJECTS = frozenset({"logOffsets", "properties"})
_KNOWN_MEMBERS = frozenset(_MEMBERS.values()) | {"version"}
_MEMBER_TYPES: Mapping[str, type] = {
    member: str if member in _TEXTS else dict if member in _OBJECTS else int for member in sorted(_KNOWN_MEMBERS)
}
