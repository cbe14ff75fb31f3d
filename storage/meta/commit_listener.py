"""Commit listeners of higher packages, for tables that ask for them by an option; see interbed.commit_listeners."""

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Protocol

from interbed.commit_listeners import COMMIT_LISTENERS
from interbed.storage.base.errors import MissingExtraError
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.meta.schema.table_schema import TableSchema

_log = logging.getLogger(__name__)


class CommitListener(Protocol):
    """Listener that follows the commits of a table."""

    def check(self, schema: TableSchema, before: TableSchema | None) -> None:
        """Raise InvalidOptionError or NotSupportedError for a table that the listener can't serve.

        `before` is the schema that is changed.
        """
        ...

    def follow(self, store: FileStore) -> None:
        """Follow a commit, or a change of the table's versions. Failures do not affect the change: raises nothing."""
        ...

    def publish(self, store: FileStore) -> int | None:
        """Follow the existing snapshots. Return the newest snapshot's id. Raises InterbedError."""
        ...


def commit_listeners(options: Mapping[str, str]) -> list[CommitListener]:
    """Return the listeners that the options ask for; raises MissingExtraError where one needs a missing library."""
    return [_loaded(place) for key, (off, place) in COMMIT_LISTENERS.items() if options.get(key, off).lower() != off]


def without_listeners() -> dict[str, str]:
    """Return the options with which no table has listeners."""
    return {key: off for key, (off, _) in COMMIT_LISTENERS.items()}


def listener_of(store: FileStore, option: str) -> CommitListener | None:
    """Return the listener of an option; None where the table does not ask for it. Branches have none."""
    off, place = COMMIT_LISTENERS[option]
    asked = store.options.raw.get(option, off).lower() != off
    return _loaded(place) if asked and store.paths.branch == MAIN_BRANCH else None


def follow(store: FileStore) -> None:
    """Let all listeners of a table follow a change. Branches have none."""
    if store.paths.branch != MAIN_BRANCH:
        return
    try:
        listeners = commit_listeners(store.options.raw)
    except MissingExtraError as error:
        _log.warning("The commit listeners of %s did not follow a change: %s", store.location, error)
        return
    for listener in listeners:
        listener.follow(store)


def _loaded(place: str) -> CommitListener:
    module, _, attribute = place.partition(":")
    listener: CommitListener = getattr(import_module(module), attribute)
    return listener
