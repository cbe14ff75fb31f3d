"""Messages after which source tables are other tables or none, and the tables of the lake that have rows of these."""

from collections.abc import Container, Mapping

from interbed.catalog.client.api import Catalog
from interbed.ingest.errors import SourceChangedError
from interbed.ingest.flow.changes import EndedTables, SourceTable
from interbed.ingest.flow.messages import Messages, Positions
from interbed.ingest.tables.names import TableNames
from interbed.ingest.tables.table_sink import TableSink, open_sink


def error_of_ended(
    ended: EndedTables, message: Messages, names: TableNames, sinks: Mapping[str, TableSink]
) -> SourceChangedError | None:
    """Return the error of the message if one of the tables has rows of a source table that it ends.

    A table that has read on beyond the message is not affected.
    """
    for name, sink in sinks.items():
        if not (sink.positions or Positions()).new_in(message).all():
            continue
        error = sink.sources.ended_by(
            ended.names,
            message.place(0),
            wanted=lambda source, name=name: names.possible(source) == name,  # type: ignore[misc]
        )
        if error is not None:
            return error
    return None


def unread_sinks(
    catalog: Catalog, ended: EndedTables, names: TableNames, known: Container[str], group: str
) -> dict[str, TableSink]:
    """Open the tables that rows of ended source tables would go to, and that the group has read nothing for yet."""
    found = {}
    for each in ended.names:
        name = names.possible(SourceTable(each.database or "", each.name or ""))
        sink = None if name is None or name in known else open_sink(catalog, name, group)
        if name is not None and sink is not None and sink.positions is None:
            found[name] = sink
    return found
