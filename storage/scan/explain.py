"""Explanation of a plan: the files left after each step of pruning, their levels, and how the splits are read."""

from dataclasses import asdict, dataclass
from typing import Any

from interbed.storage.base.errors import plain_errors
from interbed.storage.io.stores.requests import RequestReport
from interbed.storage.scan.split import Plan, PlanStatistics


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitExplanation:
    """One split: a `raw` split is read file by file, any other is merged. Sizes in bytes."""

    bucket: int
    path: str
    files: int
    levels: tuple[int, ...]
    rows: int
    bytes: int
    raw: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedExplanation:
    """Rows and bytes in memory that were decoded for one `reason`.

    Rows are decoded values divided by `columns`, the greatest number of columns at once. Where only a part of a page is
    decoded, the bytes are those of the whole page, which was decompressed for it.
    """

    reason: str
    rows: int
    columns: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadExplanation:
    """Result of a read: the rows that it returned, and the values that were decoded for them."""

    rows: int
    decoded: tuple[DecodedExplanation, ...]


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Plan of a scan of a table, and in `reading` the result if it was carried out.

    `str` for people, `to_json` for programs.
    """

    table: str
    snapshot_id: int | None
    statistics: PlanStatistics
    splits: tuple[SplitExplanation, ...]
    reading: ReadExplanation | None = None
    requests: RequestReport | None = None
    """Requests for a table in an object store; None without any."""

    def to_json(self) -> dict[str, Any]:
        """Return the explanation as a JSON object."""
        found: dict[str, Any] = {
            "table": self.table,
            "snapshotId": self.snapshot_id,
            "statistics": {**asdict(self.statistics), "files_by_level": dict(self.statistics.files_by_level)},
            "splits": [asdict(s) for s in self.splits],
        }
        if self.reading is not None:
            found["reading"] = asdict(self.reading)
        if self.requests is not None:
            found["requests"] = self.requests.to_json()
        return found

    def __str__(self) -> str:
        if self.snapshot_id is None:
            return f"{self.table} has no snapshot; nothing to read"
        s = self.statistics
        levels = ", ".join(f"{count} on level {level}" for level, count in sorted(s.files_by_level.items()))
        lines = [
            f"{self.table} at snapshot {self.snapshot_id}",
            f"  manifests      {s.manifests_read} read of {s.manifests_total}",
            f"  files          {s.files_total}",
            f"    partitions   {s.files_after_partitions} left",
            f"    buckets      {s.files_after_buckets} left",
            f"    statistics   {s.files_after_statistics} left",
            f"    file indexes {s.files_after_indexes} left"
            + (f", {s.files_with_index_beside} with an index to look at" if s.files_with_index_beside else ""),
            f"  to read        {s.files_planned} files ({levels or 'none'}), {s.rows_planned:,} records, "
            f"{s.bytes_planned / 1024:,.0f} KiB",
            f"  splits         {s.splits_raw} raw, {s.splits_merged} to merge"
            + (", cut short by the limit" if s.limit_pushed else ""),
        ]
        lines += [
            f"    {'raw  ' if p.raw else 'merge'} {p.path}: {p.files} files on levels "
            f"{', '.join(map(str, p.levels))}, {p.rows:,} records, {p.bytes / 1024:,.0f} KiB"
            for p in self.splits
        ]
        if self.reading is not None:
            lines.append(f"  returned       {self.reading.rows:,} rows; decoded for them")
            lines += [
                f"    {d.reason}: {d.rows:,} rows of {d.columns} columns, {d.bytes / 1024:,.0f} KiB"
                for d in self.reading.decoded
            ]
        if self.requests is not None:
            lines.append(f"  store          {self.requests}")
        return "\n".join(lines)


def explain_plan(table: str, plan: Plan) -> Explanation:
    """Return the explanation of a plan."""
    return Explanation(
        table=table,
        snapshot_id=plan.snapshot_id,
        statistics=plan.statistics,
        splits=tuple(
            SplitExplanation(
                bucket=split.bucket,
                path=split.bucket_path,
                files=len(split.files),
                levels=tuple(sorted({f.level for f in split.files})),
                rows=split.row_count,
                bytes=split.byte_size,
                raw=split.raw_convertible,
            )
            for split in plan.splits
        ),
    )
