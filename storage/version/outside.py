"""What a table has outside of its directory (`data-file.external-paths`)."""

import logging

from interbed.storage.meta.options.core import CoreOptions
from interbed.storage.meta.store import TableStore
from interbed.storage.version.branch_stores import all_branches
from interbed.storage.version.orphans import needed_files

_log = logging.getLogger(__name__)


def outside_of(store: TableStore) -> tuple[tuple[str, ...], set[str]]:
    """The external paths that schemas of any branch name, and the files in them that a version of any branch names.

    Versions that can't be read are logged. Raises CorruptFileError, InvalidOptionError and StorageAccessError.
    """
    roots: dict[str, None] = {}
    for line in all_branches(store)[0]:
        for number in line.schemas.ids():
            roots.update(dict.fromkeys(CoreOptions(line.schemas.schema(number).options).external_roots))
    if not roots:
        return (), set()
    needed = needed_files(store)
    for what, error in sorted(needed.unjudged.items()):
        _log.warning("It is unknown which files outside of %s the %s has: %s", store.location, what, error)
    own = store.location.rstrip("/") + "/"
    return tuple(roots), {path for path in needed.files if not path.startswith(own)}
