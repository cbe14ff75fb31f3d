"""A system table, read like a table: `catalog.get_table("db.t$snapshots").scan().to_arrow()`.

The system tables of metadata are snapshots, tags, branches, consumers, schemas, options and aggregate functions. Secret
values of options are masked.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa

from interbed.storage.base.errors import InvalidInputError
from interbed.storage.base.predicate.expr import Predicate
from interbed.storage.base.shown_text import all_masked
from interbed.storage.base.types.data_type import field_to_json, type_to_json
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.scan.starting_point import at_snapshot
from interbed.storage.version.references import branch_names
from interbed.storage.views.system import files
from interbed.storage.views.system.rows_table import (
    Row,
    RowsQuery,
    RowsTable,
    SystemTableKind,
    bigint,
    moment,
    text,
    wall_clock,
)


def _snapshots(store: FileStore) -> Sequence[Row]:
    return [
        (
            s.id,
            s.schema_id,
            s.commit_user,
            s.commit_identifier,
            s.commit_kind.value,
            wall_clock(s.time_millis),
            s.base_manifest_list,
            s.delta_manifest_list,
            s.changelog_manifest_list,
            s.total_record_count,
            s.delta_record_count,
            s.changelog_record_count,
            s.watermark,
            s.next_row_id,
            s.operation,
            s.writer_version,
        )
        for s in store.snapshots.all()
    ]


SNAPSHOTS = SystemTableKind(
    columns=(
        bigint("snapshot_id"),
        bigint("schema_id"),
        text("commit_user"),
        bigint("commit_identifier"),
        text("commit_kind"),
        moment("commit_time"),
        text("base_manifest_list"),
        text("delta_manifest_list"),
        text("changelog_manifest_list", nullable=True),
        bigint("total_record_count", nullable=True),
        bigint("delta_record_count", nullable=True),
        bigint("changelog_record_count", nullable=True),
        bigint("watermark", nullable=True),
        bigint("next_row_id", nullable=True),
        text("operation", nullable=True),
        text("writer_version", nullable=True),
    ),
    rows=_snapshots,
)


def _tags(store: FileStore) -> Sequence[Row]:
    return [
        (
            tag.name,
            tag.snapshot.id,
            tag.snapshot.schema_id,
            wall_clock(tag.snapshot.time_millis),
            tag.snapshot.total_record_count,
            tag.created,
            None if tag.retained is None else span_text(tag.retained),
        )
        for tag in sorted(TagManager(store.file_io, store.paths).all(), key=lambda tag: tag.name)
    ]


def span_text(span: timedelta) -> str:
    """Return a time span in the form of a Java Duration: `PT24H`, `PT1H30M`, `PT0.5S`."""
    seconds = span.total_seconds()
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [f"{hours:.0f}H" if hours else "", f"{minutes:.0f}M" if minutes else "", f"{rest:g}S" if rest else ""]
    return f"PT{''.join(parts) or '0S'}"


TAGS = SystemTableKind(
    columns=(
        text("tag_name"),
        bigint("snapshot_id"),
        bigint("schema_id"),
        moment("commit_time"),
        bigint("record_count", nullable=True),
        moment("create_time", nullable=True),
        text("time_retained", nullable=True),
    ),
    rows=_tags,
)


def _branches(store: FileStore) -> Sequence[Row]:
    directory = store.paths.branch_directory("x").rpartition("/")[0]
    modified = {s.path: s.modified_millis for s in store.file_io.list(directory)}
    return [(name, wall_clock(modified.get(store.paths.branch_directory(name)) or 0)) for name in branch_names(store)]


BRANCHES = SystemTableKind(columns=(text("branch_name"), moment("create_time")), rows=_branches)


def _consumers(store: FileStore) -> Sequence[Row]:
    return list(ConsumerManager(store.file_io, store.paths).all().items())


CONSUMERS = SystemTableKind(columns=(text("consumer_id"), bigint("next_snapshot_id")), rows=_consumers)


def _flat(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _schemas(store: FileStore) -> Sequence[Row]:
    return [
        (
            schema.id,
            _flat([field_to_json(field) for field in schema.fields]),
            _flat(list(schema.partition_keys)),
            _flat(list(schema.primary_keys)),
            _flat(all_masked(schema.options)),
            schema.comment,
            wall_clock(schema.time_millis),
        )
        for schema in store.schemas.list_all()
    ]


SCHEMAS = SystemTableKind(
    columns=(
        bigint("schema_id"),
        text("fields"),
        text("partition_keys"),
        text("primary_keys"),
        text("options"),
        text("comment", nullable=True),
        moment("update_time"),
    ),
    rows=_schemas,
)


def _options(store: FileStore) -> Sequence[Row]:
    newest = store.schemas.latest() or store.schema
    return sorted(all_masked(newest.options).items())


OPTIONS = SystemTableKind(columns=(text("key"), text("value")), rows=_options)


def _aggregation_fields(store: FileStore) -> Sequence[Row]:
    options = [(key, key.split("."), value) for key, value in store.schema.options.items()]
    rows: list[Row] = []
    for field in store.schema.fields:
        found = [
            (key, value)
            for key, parts, value in options
            if len(parts) > 2 and parts[0] == "fields" and parts[1] == field.name
        ]
        kind = type_to_json(field.type)
        rows.append(
            (
                field.name,
                kind if isinstance(kind, str) else _flat(kind),
                f"[{', '.join(value for _, value in found)}]",
                f"[{', '.join(key for key, _ in found)}]",
                field.description,
            )
        )
    return rows


AGGREGATION_FIELDS = SystemTableKind(
    columns=(
        text("field_name"),
        text("field_type"),
        text("function", nullable=True),
        text("function_options", nullable=True),
        text("comment", nullable=True),
    ),
    rows=_aggregation_fields,
)


SYSTEM_TABLES: Mapping[str, SystemTableKind] = {
    "aggregation_fields": AGGREGATION_FIELDS,
    "branches": BRANCHES,
    "buckets": files.BUCKETS,
    "consumers": CONSUMERS,
    "file_indexes": files.FILE_INDEXES,
    "file_key_ranges": files.FILE_KEY_RANGES,
    "files": files.FILES,
    "manifests": files.MANIFESTS,
    "options": OPTIONS,
    "partitions": files.PARTITIONS,
    "schemas": SCHEMAS,
    "snapshots": SNAPSHOTS,
    "statistics": files.STATISTICS,
    "table_indexes": files.TABLE_INDEXES,
    "tags": TAGS,
}
"""All kinds by name, except the views of changes."""


@dataclass(frozen=True)
class SystemTable(RowsTable):
    """A read-only system table of a table. `kind` is one of SYSTEM_TABLES."""

    name: str
    store: FileStore
    kind: str

    @staticmethod
    def of(table: str, store: FileStore, kind: str) -> "SystemTable":
        """Return the system table of a kind; raises InvalidInputError, with the known kinds, for another one."""
        if kind not in SYSTEM_TABLES:
            raise InvalidInputError(
                f"There is no system table {kind!r}; there are {', '.join(SYSTEM_TABLES)}, audit_log, binlog, ro and "
                "row_tracking."
            )
        return SystemTable(f"{table}${kind}", store, kind)

    @property
    def arrow_schema(self) -> pa.Schema:
        return pa.schema(SYSTEM_TABLES[self.kind].columns)

    def rows(self, wanted: Collection[str]) -> Sequence[Row]:
        return SYSTEM_TABLES[self.kind].rows(self.store)

    def copy(self, dynamic_options: Mapping[str, object]) -> "SystemTable":
        """Return the table with more options: `{"scan.tag-name": "a"}` shows the files of the tag."""
        return SystemTable(self.name, at_snapshot(self.store.with_options(dynamic_options)), self.kind)

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | Predicate | None = None,  # noqa: A002 - the field's word for it
        limit: int | None = None,
        snapshot_id: int | None = None,
    ) -> RowsQuery:
        if snapshot_id is None:
            return super().scan(columns, filter, limit)
        pinned = at_snapshot(self.store, snapshot_id).with_options({"scan.snapshot-id": str(snapshot_id)})
        return SystemTable(self.name, pinned, self.kind).scan(columns, filter, limit)
