"""Refusal of tables that this version can't read or write, with the option that is the reason."""

import logging
from functools import lru_cache

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.meta.commit_listener import commit_listeners
from interbed.storage.meta.file_store import FileStore
from interbed.storage.meta.options.known.check import OptionSupport, judged

_log = logging.getLogger(__name__)


def check_readable(store: FileStore) -> None:
    """Raise NotSupportedError when reading the table needs a feature that this version lacks.

    Options that are unknown, or without effect here, are logged once for each table.
    """
    _check_kind(store)
    judgement = judged(store.options.raw, partitioned=bool(store.schema.partition_keys))
    _log_notes(store, judgement)
    if judgement.reading is not None:
        raise NotSupportedError(f"The table at {store.location} can't be read. {judgement.reading}")


def check_writable(store: FileStore) -> None:
    """Raise NotSupportedError when writing the table needs a feature that this version lacks.

    Raises MissingExtraError when a listener of its commits needs a library that is not installed.
    """
    _check_kind(store)
    judgement = judged(store.options.raw, partitioned=bool(store.schema.partition_keys))
    _log_notes(store, judgement)
    if judgement.writing is not None:
        raise NotSupportedError(f"The table at {store.location} can't be written. {judgement.writing}")
    # Every writer calls the listeners of its commits.
    commit_listeners(store.options.raw)


def check_rows_in_files(store: FileStore, what: str) -> None:
    """Raise NotSupportedError for a table whose rows are put together from several files; `what` can't do that."""
    if store.options.data_evolution_enabled:
        raise NotSupportedError(
            f"{what} of the table at {store.location} is not possible: with 'data-evolution.enabled' = 'true' its rows "
            "are put together from files of some of their columns. Change columns by UPDATE or Table.update, replace "
            "whole partitions by an overwrite, or compact the table without an order."
        )


def _check_kind(store: FileStore) -> None:
    kind = store.options.text("type", "table").lower()
    if kind != "table":
        raise NotSupportedError(
            f"The table at {store.location} has 'type' = '{kind}'; this version knows 'table' only."
        )


def _log_notes(store: FileStore, judgement: OptionSupport) -> None:
    for note in judgement.notes:
        _log_once(store.location, note)


@lru_cache(maxsize=16_384)
def _log_once(location: str, note: str) -> None:
    _log.warning("The table at %s: %s", location, note)
