"""What follows a commit: snapshots and tags whose time is over go, unless the table is `write-only`.

Source: documentation page `maintenance/manage-snapshots`, paimon-core's TableCommitImpl.
"""

import logging
import time
from collections.abc import Callable
from datetime import datetime

from interbed.storage.errors import InterbedError
from interbed.storage.store import TableStore
from interbed.storage.version.expire import SnapshotExpiry
from interbed.storage.version.tag_deletion import expire_tags

_log = logging.getLogger(__name__)


def maintain(store: TableStore, clock: Callable[[], float] = time.time) -> None:
    """Expire what is due. The commit stands whatever becomes of this: failures are logged, and tried again after the
    next commit.
    """
    if store.options.write_only:
        return
    try:
        if SnapshotExpiry(store, clock=clock).run().snapshots:
            # Whatever a tag keeps is only of importance when snapshots go, so tags are looked at then.
            expire_tags(store, datetime.fromtimestamp(clock()))
    except (InterbedError, OSError) as error:
        _log.warning("Old snapshots of %s were not expired: %s", store.location, error)
