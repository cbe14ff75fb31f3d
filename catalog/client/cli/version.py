"""The commands for the versions of a table: tags, branches, rollback, expiry, orphan files, consumers.

interbed table -o warehouse=file:/tmp/lake expire-snapshots shop.orders --retain-max 10 --dry-run
"""

from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.client.cli.group import (
    CatalogChoice,
    is_of_iceberg,
    json_flag,
    refuse_options,
    show,
    show_json,
    table_name,
)
from interbed.storage.base.clock import moment_millis
from interbed.storage.base.terminal import print_line, print_lines
from interbed.storage.meta.options.version import ExpirationStrategy

if TYPE_CHECKING:
    from interbed.storage.meta.snapshot.tag import Tag
    from interbed.storage.table.table import Table

_tag = click.argument("tag", metavar="TAG")
_branch = click.argument("branch", metavar="BRANCH")
_snapshot = click.option("--snapshot", type=int, help="The id of the snapshot; the newest by default.")
_retained = click.option("--time-retained", metavar="SPAN", help="How long the tag stays, such as '7 d'.")
_older_than = click.option("--older-than", metavar="TIME", help="Such as '2026-01-31 12:00:00', in local time.")
_dry_run = click.option("--dry-run", is_flag=True, help="Only print what would be deleted.")


def tag_to_json(tag: "Tag") -> dict[str, Any]:
    """Return the tag as JSON values; times as ISO text, spans in seconds."""
    return {
        "tag": tag.name,
        "snapshot": tag.snapshot.id,
        "schema": tag.snapshot.schema_id,
        "records": tag.snapshot.total_record_count,
        "created": None if tag.created is None else tag.created.isoformat(),
        "retained_seconds": None if tag.retained is None else tag.retained.total_seconds(),
    }


@click.command()
@table_name
@json_flag
@click.pass_obj
def tags(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """List all tags, by their snapshots."""
    with chosen.table(name) as opened:
        found = [tag_to_json(tag) for tag in opened.versions.tags()]
    if as_json:
        show_json(found)
        return
    for tag in found:
        span = "" if tag["retained_seconds"] is None else f", from {tag['created']} for {tag['retained_seconds']:g} s"
        print_line(f"{tag['tag']}: snapshot {tag['snapshot']}, {tag['records']} records{span}")


@click.command("create-tag")
@table_name
@_tag
@_snapshot
@click.option("--timestamp", metavar="TIME", help="The first snapshot of this time or later instead.")
@_retained
@click.pass_obj
def create_tag(
    chosen: CatalogChoice,
    name: str,
    tag: str,
    snapshot: int | None,
    timestamp: str | None,
    time_retained: str | None,
) -> None:
    """Name a snapshot, so that it stays readable when it expires."""
    if snapshot is not None and timestamp is not None:
        raise click.UsageError("Give --snapshot or --timestamp, not both.")
    with chosen.table(name) as opened:
        if timestamp is None:
            made = opened.versions.create_tag(tag, snapshot, time_retained=time_retained)
        else:
            made = opened.versions.create_tag_from_timestamp(tag, timestamp, time_retained=time_retained)
    print_line(f"{tag} is snapshot {made.snapshot.id}")


@click.command("replace-tag")
@table_name
@_tag
@_snapshot
@_retained
@click.pass_obj
def replace_tag(chosen: CatalogChoice, name: str, tag: str, snapshot: int | None, time_retained: str | None) -> None:
    """Let a tag name another snapshot."""
    with chosen.table(name) as opened:
        made = opened.versions.replace_tag(tag, snapshot, time_retained=time_retained)
    print_line(f"{tag} is snapshot {made.snapshot.id}")


@click.command("rename-tag")
@table_name
@_tag
@click.argument("new_name", metavar="NEW_NAME")
@click.pass_obj
def rename_tag(chosen: CatalogChoice, name: str, tag: str, new_name: str) -> None:
    """Rename a tag of a table."""
    with chosen.table(name) as opened:
        opened.versions.rename_tag(tag, new_name)


@click.command("delete-tag")
@table_name
@_tag
@click.pass_obj
def delete_tag(chosen: CatalogChoice, name: str, tag: str) -> None:
    """Delete a tag, and the files that only it kept."""
    with chosen.table(name) as opened:
        opened.versions.delete_tag(tag)


@click.command("expire-tags")
@table_name
@_older_than
@json_flag
@click.pass_obj
def expire_tags(chosen: CatalogChoice, name: str, older_than: str | None, as_json: bool) -> None:
    """Delete the tags whose retention has ended, and those made before a time."""
    with chosen.table(name) as opened:
        gone = opened.versions.expire_tags(older_than)
    if as_json:
        show_json(gone)
    else:
        print_line(f"deleted {', '.join(gone)}" if gone else "no tag to expire")


@click.command()
@table_name
@json_flag
@click.pass_obj
def branches(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """List all branches but main."""
    with chosen.table(name) as opened:
        found = opened.versions.branches()
    if as_json:
        show_json(found)
    else:
        print_lines(found, empty="no branches")


@click.command("create-branch")
@table_name
@_branch
@click.option("--tag", help="Begin with what this tag keeps; without it the branch is empty.")
@click.pass_obj
def create_branch(chosen: CatalogChoice, name: str, branch: str, tag: str | None) -> None:
    """Create a branch, which is read and written as DATABASE.TABLE$branch_BRANCH."""
    with chosen.table(name) as opened:
        opened.versions.create_branch(branch, tag)


@click.command("rename-branch")
@table_name
@_branch
@click.argument("new_name", metavar="NEW_NAME")
@click.pass_obj
def rename_branch(chosen: CatalogChoice, name: str, branch: str, new_name: str) -> None:
    """Rename a branch of a table."""
    with chosen.table(name) as opened:
        opened.versions.rename_branch(branch, new_name)


@click.command("delete-branch")
@table_name
@_branch
@click.pass_obj
def delete_branch(chosen: CatalogChoice, name: str, branch: str) -> None:
    """Delete a branch of a table."""
    with chosen.table(name) as opened:
        opened.versions.delete_branch(branch)


@click.command("merge-branch")
@table_name
@_branch
@click.option("--into", default="main", show_default=True, help="The branch that gets the rows.")
@click.pass_obj
def merge_branch(chosen: CatalogChoice, name: str, branch: str, into: str) -> None:
    """Add the rows of a branch to the table or to another branch, without copying files; for append tables."""
    with chosen.table(name) as opened:
        snapshot_id = opened.versions.merge_branch(branch, into)
        print_line("nothing to merge" if snapshot_id is None else f"snapshot {snapshot_id}")


@click.command("fast-forward")
@table_name
@_branch
@click.pass_obj
def fast_forward(chosen: CatalogChoice, name: str, branch: str) -> None:
    """Replace the state of the table by that of a branch."""
    with chosen.table(name) as opened:
        opened.versions.fast_forward(branch)


@click.command()
@table_name
@click.argument("named", metavar="[TAG]", required=False)
@click.option("--snapshot", type=int, help="The id of the snapshot that becomes the newest.")
@click.option("--tag", help="The same as TAG.")
@click.option("--timestamp", metavar="TIME", help="The newest snapshot of this time or before instead.")
@click.option("--watermark", type=int, help="The newest snapshot of this watermark or before instead.")
@click.pass_obj
def rollback(
    chosen: CatalogChoice,
    name: str,
    named: str | None,
    snapshot: int | None,
    tag: str | None,
    timestamp: str | None,
    watermark: int | None,
) -> None:
    """Roll back the commits after a tag, a snapshot, a time or a watermark.

    interbed table rollback shop.orders before-import
    """
    if sum(given is not None for given in (named, snapshot, tag, timestamp, watermark)) != 1:
        raise click.UsageError("Give one of TAG, --snapshot, --timestamp and --watermark.")
    tag = named or tag
    with chosen.table(name) as opened:
        if timestamp is not None:
            newest = opened.versions.rollback_to_timestamp(timestamp)
        elif watermark is not None:
            newest = opened.versions.rollback_to_watermark(watermark)
        else:
            newest = opened.versions.rollback_to(_known_tag(opened, tag) if tag is not None else snapshot or 0)
    print_line(f"the newest snapshot is {newest.id}")


def _known_tag(table: "Table", tag: str) -> str:
    """Return the tag; raise TagNotFoundError, which suggests --snapshot for a number."""
    from interbed.storage.base.errors import TagNotFoundError
    from interbed.storage.base.shown_text import did_you_mean

    names = [each.name for each in table.versions.tags()]
    if tag in names:
        return tag
    hint = f" Snapshots are given by --snapshot {tag}." if tag.isdigit() else did_you_mean(tag, names)
    raise TagNotFoundError(f"{table.name} has no tag '{tag}'; it has {', '.join(names) or 'none'}.{hint}")


@click.command("expire-snapshots")
@table_name
@click.option("--retain-max", type=int, help="The most snapshots that stay.")
@click.option("--retain-min", type=int, help="The least snapshots that stay.")
@_older_than
@click.option("--max-deletes", type=int, help="The most snapshots that go.")
@_dry_run
@json_flag
@click.pass_obj
def expire_snapshots(
    chosen: CatalogChoice,
    name: str,
    retain_max: int | None,
    retain_min: int | None,
    older_than: str | None,
    max_deletes: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Delete old snapshots, and the files that nothing else needs. Defaults are the table's options."""
    with chosen.any_table(name) as opened:
        if is_of_iceberg(opened):
            refuse_options("an Iceberg table", {"--retain-max": retain_max, "--max-deletes": max_deletes})
            limit = None if older_than is None else moment_millis(older_than)
            expired: Any = opened.expire_snapshots(older_than=limit, retain_last=retain_min, dry_run=dry_run)
        else:
            expired = opened.expire_snapshots(
                retain_max=retain_max,
                retain_min=retain_min,
                older_than=older_than,
                max_deletes=max_deletes,
                dry_run=dry_run,
            )
    show(expired, as_json)


@click.command("expire-partitions")
@table_name
@click.option("--expiration-time", metavar="SPAN", help="How old partitions get, such as '30 d'.")
@click.option("--timestamp-formatter", metavar="LETTERS", help="How their times are written: yyyyMMdd.")
@click.option("--timestamp-pattern", metavar="PATTERN", help="How values make a time: '$dt $hour:00:00'.")
@click.option("--expire-strategy", type=click.Choice([str(s) for s in ExpirationStrategy]))
@click.option("--max-expires", type=int, help="The most partitions that go.")
@_dry_run
@json_flag
@click.pass_obj
def expire_partitions(chosen: CatalogChoice, /, name: str, dry_run: bool, as_json: bool, **given: Any) -> None:
    """Drop partitions that are too old. Defaults are the table's options."""
    with chosen.catalog(name) as catalog:
        gone = catalog.expire_partitions(name, dry_run=dry_run, **given)
    if as_json:
        show_json(gone)
        return
    for spec in gone:
        print_line(("would drop " if dry_run else "dropped ") + "/".join(f"{k}={v}" for k, v in spec.items()))
    if not gone:
        print_line("no partition to expire")


@click.command("remove-orphan-files")
@table_name
@_older_than
@_dry_run
@json_flag
@click.pass_obj
def remove_orphan_files(chosen: CatalogChoice, name: str, older_than: str | None, dry_run: bool, as_json: bool) -> None:
    """Delete files that no snapshot, tag or branch names, when they are older than a day or than a time.

    For Iceberg tables, when they are older than three days. For format tables, the files of killed writes.
    """
    with chosen.any_table(name) as opened:
        limit = None if older_than is None else moment_millis(older_than)
        show(opened.remove_orphan_files(limit, dry_run=dry_run), as_json)


@click.command()
@table_name
@json_flag
@click.pass_obj
def consumers(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Show the next snapshot of each streaming reader."""
    with chosen.table(name) as opened:
        found = opened.versions.consumers()
    if as_json:
        show_json(found)
    else:
        print_lines((f"{who}: next is snapshot {number}" for who, number in found.items()), empty="no consumers")


@click.command("reset-consumer")
@table_name
@click.argument("consumer", metavar="CONSUMER")
@click.option("--next-snapshot", type=int, help="Where it goes on; without it the consumer is forgotten.")
@click.pass_obj
def reset_consumer(chosen: CatalogChoice, name: str, consumer: str, next_snapshot: int | None) -> None:
    """Let a consumer continue from a snapshot, or delete it."""
    with chosen.table(name) as opened:
        opened.versions.reset_consumer(consumer, next_snapshot)


VERSION_COMMANDS: tuple[click.Command, ...] = (
    tags,
    create_tag,
    replace_tag,
    rename_tag,
    delete_tag,
    expire_tags,
    branches,
    create_branch,
    rename_branch,
    delete_branch,
    merge_branch,
    fast_forward,
    rollback,
    expire_snapshots,
    expire_partitions,
    remove_orphan_files,
    consumers,
    reset_consumer,
)
"""The commands of `interbed table` for versions."""
