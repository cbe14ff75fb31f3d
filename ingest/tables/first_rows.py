"""The rows that a table of the source has before any of its changes."""

from interbed.catalog.client.api import Catalog
from interbed.ingest.flow.changes import BadMessage, Decoded
from interbed.ingest.flow.source_identity import identity_of
from interbed.ingest.tables.computed_columns import with_computed
from interbed.ingest.tables.table_sink import TableSettings, TableSink, create_sink, open_sink
from interbed.storage.base.errors import InvalidInputError


def first_rows(
    catalog: Catalog,
    name: str,
    decoded: Decoded,
    settings: TableSettings,
    group: str,
    sink: TableSink | None,
    *,
    only: bool,
) -> tuple[TableSink, list[BadMessage]]:
    """Write rows to the table, which is created or gets the columns that it lacks; its sink, and the bad messages.

    `sink` is that of the rows before, None for the first ones. With `only` the table has rows of one source table
    alone. Raises TypesChangedError when the table has got wider
    types, so that the rows before are gone.
    """
    bad = list(decoded.bad)
    for changes in decoded.changes:
        if sink is None:
            sink = open_sink(catalog, name, group)
        changes, refused = with_computed(changes, settings.computed, () if sink is None else sink.columns)
        bad += refused
        if sink is None:
            sink = create_sink(catalog, name, settings, group, changes.shape)
        sink.sources.admit(
            identity_of(changes),
            f"the first state of {changes.source}",
            only=only,
            chosen_key=bool(settings.primary_keys),
        )
        if lacking := sink.lacking(changes):
            written = sink.rows
            sink.follow(lacking, changes.source)
            if written:
                raise TypesChangedError
        bad += sink.write(changes)
    if sink is None:
        raise InvalidInputError(f"The source does not say which columns '{name}' is to have.")
    return sink, bad


class TypesChangedError(Exception):
    """A table was given wider types while it got its first rows: what was written has others, and is to come again."""
