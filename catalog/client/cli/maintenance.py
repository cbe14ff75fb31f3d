"""The command line of what keeps a table in order besides expiry: manifests, files that are gone, tags that are due.

interbed table -o warehouse=file:/tmp/lake compact-manifests shop.orders
"""

import click

from interbed.catalog.client.cli.group import CatalogChoice, json_flag, show, show_json, table_name
from interbed.storage.base.terminal import print_line, print_lines


def _tell_snapshot(snapshot_id: int | None, as_json: bool, without: str, done: str) -> None:
    """Print the snapshot that something was done in, or what is said without any."""
    if as_json:
        show_json({"snapshot": snapshot_id})
    else:
        print_line(without if snapshot_id is None else f"{done} snapshot {snapshot_id}")


@click.command("create-automatic-tags")
@table_name
@json_flag
@click.pass_obj
def create_automatic_tags(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Make the tags that 'tag.automatic-creation' asks for, as commits do."""
    with chosen.table(name) as opened:
        made = opened.create_automatic_tags()
    if as_json:
        show_json(made)
    else:
        print_line(f"made {', '.join(made)}" if made else "no tag is due")


@click.command("compact-manifests")
@table_name
@json_flag
@click.pass_obj
def compact_manifests(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Merge the manifests of a table as far as possible."""
    with chosen.any_table(name) as opened:
        _tell_snapshot(opened.compact_manifests(), as_json, "nothing to merge", "merged in")


@click.command("remove-unexisting-files")
@table_name
@click.option("--dry-run", is_flag=True, help="Only print what would be taken out of the table.")
@json_flag
@click.pass_obj
def remove_unexisting_files(chosen: CatalogChoice, name: str, dry_run: bool, as_json: bool) -> None:
    """Take data files that are gone out of the table; their rows are lost."""
    with chosen.table(name) as opened:
        gone = opened.remove_unexisting_files(dry_run=dry_run)
    if as_json:
        show_json(gone)
    else:
        print_lines(gone, empty="all files are there")


@click.command("mark-partition-done")
@table_name
@click.argument("partitions", metavar="COLUMN=VALUE[,COLUMN=VALUE]", nargs=-1, required=True)
@click.pass_obj
def mark_partition_done(chosen: CatalogChoice, name: str, partitions: tuple[str, ...]) -> None:
    """Mark partitions as complete, by what 'partition.mark-done-action' says."""
    specs = [dict(pair.split("=", 1) for pair in text.split(",") if "=" in pair) for text in partitions]
    with chosen.catalog(name) as catalog:
        done = catalog.mark_partitions_done(name, specs)
    for spec in done:
        print_line("marked " + "/".join(f"{key}={value}" for key, value in spec.items()))


@click.command("clear-consumers")
@table_name
@click.option("--including", default=".*", show_default=True, help="A regular expression for whole ids.")
@click.option("--excluding", help="Another one for ids that stay.")
@json_flag
@click.pass_obj
def clear_consumers(chosen: CatalogChoice, name: str, including: str, excluding: str | None, as_json: bool) -> None:
    """Forget consumers."""
    with chosen.table(name) as opened:
        gone = opened.clear_consumers(including, excluding)
    if as_json:
        show_json(gone)
    else:
        print_line(f"forgot {', '.join(gone)}" if gone else "no such consumer")


@click.command("publish-log")
@table_name
@json_flag
@click.pass_obj
def publish_log(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Publish the snapshots that are not in the table's log yet, as commits do."""
    with chosen.table(name) as opened:
        _tell_snapshot(opened.publish_log(), as_json, "no snapshot to publish", "published up to")


@click.command("publish-iceberg")
@table_name
@json_flag
@click.pass_obj
def publish_iceberg(chosen: CatalogChoice, name: str, as_json: bool) -> None:
    """Publish the newest snapshot as an Iceberg table's, as commits do with 'metadata.iceberg.storage'.

    Says how many rows readers of Iceberg see: of a table with a primary key, those of compacted files.
    """
    with chosen.table(name) as opened:
        published = opened.publish_iceberg()
        from interbed.iceberg.publish.coverage import published_coverage

        found = published_coverage(opened.store)
    if published is None or found is None:
        _tell_snapshot(None, as_json, "no snapshot to publish", "published")
    elif as_json:
        show_json({"snapshot": published, "rows": found.rows, "rows_shown": found.rows_shown})
    elif found.is_whole:
        print_line(f"published snapshot {published}; readers of Iceberg see all {found.rows} rows")
    else:
        print_line(
            f"published snapshot {published}; readers of Iceberg see {found.rows_shown} of {found.rows} rows, in "
            f"{found.files_shown} of {found.files} files: {found.way_out}"
        )


@click.command("fsck")
@table_name
@click.option("--repair", is_flag=True, help="Mend what can be mended without guessing.")
@json_flag
@click.pass_context
def fsck(context: click.Context, name: str, repair: bool, as_json: bool) -> None:
    """Say what is wrong with a table: missing files, unfinished changes. The exit code is 1 when something stays so."""
    with context.obj.table(name) as opened:
        result = opened.fsck(repair=repair)
    show(result, as_json)
    if not result.is_sound:
        context.exit(1)


@click.command("purge")
@table_name
@click.confirmation_option(prompt="This deletes all rows, versions, tags and branches of the table. Go on?")
@click.pass_obj
def purge(chosen: CatalogChoice, name: str) -> None:
    """Delete all that a table has but its schema; nobody may write to it meanwhile."""
    with chosen.table(name) as opened:
        opened.purge_files()
    print_line(f"{name} is empty")


CARE_COMMANDS: tuple[click.Command, ...] = (
    create_automatic_tags,
    compact_manifests,
    remove_unexisting_files,
    mark_partition_done,
    clear_consumers,
    publish_log,
    publish_iceberg,
    fsck,
    purge,
)
"""What `interbed table` has to say about keeping a table in order."""
