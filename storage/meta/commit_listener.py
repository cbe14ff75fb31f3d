"""Hooks of higher layers for tables that ask for them by an option; interbed.commit_listeners lists them."""

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
    """Hook that follows the commits of a table."""

    def check(self, schema: TableSchema, before: TableSchema | None) -> None:
        """Raise InvalidOptionError or NotSupportedError for a table that the hook can't serve.

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
    """Return the hooks that the options ask for; raises MissingExtraError where a hook needs a missing library."""
    return [_loaded(place) for key, (off, place) in COMMIT_LISTENERS.items() if options.get(key, off).lower() != off]


def without_hooks() -> dict[str, str]:
    """Return the options with which no table has hooks."""
    return {key: off for key, (off, _) in COMMIT_LISTENERS.items()}


def hook_of(store: FileStore, option: str) -> CommitListener | None:
    """Return the hook of an option; None where the table does not ask for it. Branches have none."""
    off, place = COMMIT_LISTENERS[option]
    asked = store.options.raw.get(option, off).lower() != off
    return _loaded(place) if asked and store.paths.branch == MAIN_BRANCH else None


def follow(store: FileStore) -> None:
    """Let all hooks of a table follow a change. Branches have none."""
    if store.paths.branch != MAIN_BRANCH:
        return
    try:
        hooks = commit_listeners(store.options.raw)
    except MissingExtraError as error:
        _log.warning("The hooks of %s did not follow a change: %s", store.location, error)
        return
    for hook in hooks:
        hook.follow(store)


def _loaded(place: str) -> CommitListener:
    module, _, attribute = place.partition(":")
    hook: CommitListener = getattr(import_module(module), attribute)
    return hook
