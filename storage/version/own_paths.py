"""Which of the paths that metadata name may be deleted: those below the table's directory or its external paths.

Metadata may be those of a writer that need not be trusted: a manifest names a file's external path, and the plan of a
killed expiry whole paths. Such a file is read where it is said to be, but only deleted where the table may have put it,
and never through a symbolic link below one of these directories.
"""

import logging
import os
from collections.abc import Iterable, Iterator

from interbed.storage.base.errors import InterbedError
from interbed.storage.base.fileio.resolve import normalize_path
from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_stores import all_branches
from interbed.storage.version.own_names import shortened

_log = logging.getLogger(__name__)


def own_paths(store: TableStore, paths: Iterable[str]) -> list[str]:
    """Those of the paths that are below the table's own directories, in their order; the others are logged."""
    location = store.location.rstrip("/")
    given = list(paths)
    roots = [location]
    if any(not path.startswith(f"{location}/") for path in given):
        roots += _external_roots(store)
    judged = _Directories(roots, is_local=store.file_io.scheme == "file")
    own = [path for path in given if judged.holds(path)]
    if len(own) < len(given):
        foreign = sorted(set(given).difference(own))
        _log.warning(
            "Left %s: metadata of the table at %s name them, but they are outside of its directories, or behind a "
            "link. Delete them yourself if nobody needs them.",
            shortened(foreign, ""),
            location,
        )
    return own


def _external_roots(store: TableStore) -> Iterator[str]:
    yield from map(normalize_path, store.options.external_roots)
    for line in all_branches(store)[0]:
        for number in line.schemas.ids():
            try:
                yield from map(normalize_path, CoreOptions(line.schemas.schema(number).options).external_roots)
            except InterbedError as error:
                _log.warning("It is unknown which external paths the schema %d names: %s", number, error)


class _Directories:
    """Directories with all that is below them, but for what is behind links there."""

    def __init__(self, roots: Iterable[str], *, is_local: bool) -> None:
        self._roots = dict.fromkeys(root.rstrip("/") for root in roots)
        self._is_local = is_local
        self._judged: dict[str, bool] = {}

    def holds(self, path: str) -> bool:
        """Whether the path is that of a file below one of them."""
        directory = path.rpartition("/")[0]
        if directory not in self._judged:
            self._judged[directory] = any(self._is_below(directory, root) for root in self._roots)
        return self._judged[directory] and path.rpartition("/")[2] not in ("", ".", "..")

    def _is_below(self, directory: str, root: str) -> bool:
        if directory != root and not directory.startswith(f"{root}/"):
            return False
        inner = directory[len(root) + 1 :]
        if not {".", ".."}.isdisjoint(inner.split("/")):
            return False
        if not self._is_local:
            return True
        return os.path.realpath(directory) == os.path.join(os.path.realpath(root), inner).rstrip("/")
