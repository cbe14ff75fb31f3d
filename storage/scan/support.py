"""Which tables this version reads and writes; others are refused by the option that makes them different."""

import logging
from functools import lru_cache

from interbed.storage.base.errors import NotSupportedError
from interbed.storage.meta.further_hook import further_hooks
from interbed.storage.meta.options.known.check import Judgement, judged
from interbed.storage.meta.store import TableStore

_log = logging.getLogger(__name__)


def check_readable(store: TableStore) -> None:
    """Raise NotSupportedError when reading the table needs what this version does not do.

    Options that are unknown, or without effect here, are logged once for each table.
    """
    _check_kind(store)
    judgement = judged(store.options.raw)
    _tell(store, judgement)
    if judgement.reading is not None:
        raise NotSupportedError(f"The table at {store.location} can't be read. {judgement.reading}")


def check_writable(store: TableStore) -> None:
    """Raise NotSupportedError when writing the table needs what this version does not do.

    MissingExtraError when what follows its commits needs a library that is not installed.
    """
    _check_kind(store)
    judgement = judged(store.options.raw)
    _tell(store, judgement)
    if judgement.writing is not None:
        raise NotSupportedError(f"The table at {store.location} can't be written. {judgement.writing}")
    # Whoever writes has what follows a commit.
    further_hooks(store.options.raw)


def _check_kind(store: TableStore) -> None:
    kind = store.options.text("type", "table").lower()
    if kind != "table":
        raise NotSupportedError(
            f"The table at {store.location} has 'type' = '{kind}'; this version knows 'table' only."
        )


def _tell(store: TableStore, judgement: Judgement) -> None:
    for note in judgement.notes:
        _log_once(store.location, note)


@lru_cache(maxsize=16_384)
def _log_once(location: str, note: str) -> None:
    _log.warning("The table at %s: %s", location, note)
