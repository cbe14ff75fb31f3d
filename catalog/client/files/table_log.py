"""The topic of a table's log (`log.system`), when the table is dropped.

The table goes first, and then its topic: a process that dies in between, or a broker that does not answer, leaves a
topic that nobody needs, which is said, and never a table whose log is gone. A table of the same name does not write
into a topic that is left; it has to be deleted by hand.
"""

import logging

from interbed.storage.base.errors import InterbedError
from interbed.storage.base.fileio.api import FileIO
from interbed.storage.base.fileio.links import is_link
from interbed.storage.meta.options.log import LogSystem
from interbed.storage.meta.store import TableStore
from interbed.storage.table.opening import open_store

_log = logging.getLogger(__name__)


def table_with_log(file_io: FileIO, location: str) -> TableStore | None:
    """The table at the location if it has a log; None as well for a link, and when it can't be
    read, which others log.
    """
    if is_link(file_io, location):
        return None
    try:
        store = open_store(location, file_io)
        return None if store.options.log_system is LogSystem.NONE else store
    except InterbedError:
        return None


def delete_log(table: TableStore | None) -> None:
    """Delete the topic of a table that was dropped, if it has one; what stays is logged."""
    if table is None:
        return
    # Few tables have a log.
    from interbed.storage.log.kafka import delete_topic
    from interbed.storage.log.publisher import release
    from interbed.storage.log.sender import forget_sender
    from interbed.storage.log.settings import LogSettings

    try:
        release(table)
        forget_sender(table)
        delete_topic(LogSettings.of(table.options))
    except InterbedError as error:
        _log.warning(
            "The table at %s is dropped, but the topic of its log, '%s', stays; delete it by hand: %s",
            table.location,
            table.options.kafka_topic,
            error,
        )
