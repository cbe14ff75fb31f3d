"""What Spark shows of a scan and of a commit in its UI and its status store, named as Paimon's connector names it.

Paimon's names are those of paimon-spark-common's PaimonMetrics; it has no `mergedSplits`, `plannedRecords` and
`commitAttempts`. How a metric adds up and is shown is said by interbed.spark.metric.Metrics.
"""

from collections.abc import Iterable

from interbed.storage.scan.split import Plan
from interbed.storage.write.commit_message import CommitMessage


def scan_metrics(plan: Plan, planning_millis: int) -> dict[str, int]:
    """What the planning of one scan found: manifests and files that were read, and those that need not be."""
    found = plan.statistics
    return {
        "planningDuration": planning_millis,
        "scannedSnapshotId": plan.snapshot_id or 0,
        "scannedManifests": found.manifests_read,
        "skippedTableFiles": found.files_total - found.files_planned,
        "resultedTableFiles": found.files_planned,
        "plannedRecords": found.rows_planned,
        "mergedSplits": found.splits_merged,
    }


def commit_metrics(
    messages: Iterable[CommitMessage], *, attempts: int, commit_millis: int, copies_rows: bool
) -> dict[str, int]:
    """What one commit added and took away. With `copies_rows` new files hold rows that stayed, too, so that the
    the number of rows that a statement changed is unknown.
    """
    messages = list(messages)
    new = [file for m in messages for file in m.data.new_files]
    added = len(new) + sum(len(m.compaction.after) for m in messages)
    gone = sum(len(m.data.deleted_files) + len(m.compaction.before) for m in messages)
    changelog = sum(len(m.data.changelog_files) + len(m.compaction.changelog) for m in messages)
    metrics = {
        "commitDuration": commit_millis,
        "commitAttempts": attempts,
        "addedTableFiles": added,
        "deletedTableFiles": gone,
        "appendedChangelogFiles": changelog,
        "partitionsWritten": len({m.partition for m in messages}),
        "bucketsWritten": len({m.bucket_id for m in messages}),
    }
    if not copies_rows:
        deleted = sum(file.delete_row_count or 0 for file in new)
        metrics["insertedRecords"] = sum(file.row_count for file in new) - deleted
        metrics["deletedRecords"] = deleted
    return metrics
