"""The system tables of versions: snapshots, tags, branches, consumers."""

from collections.abc import Sequence
from datetime import timedelta

from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.snapshot.progress import ConsumerManager
from interbed.storage.meta.snapshot.tag import TagManager
from interbed.storage.version.branch_stores import branch_names
from interbed.storage.views.system.rows_table import Row, SystemTableKind, bigint, moment, text, wall_clock


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
    """A span as Java shows a Duration: `PT24H`, `PT1H30M`, `PT0.5S`."""
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
