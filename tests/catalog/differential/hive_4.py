"""Hive's metastore 4.0.1 as the other side: how it is set up, and the differences from it alone that are kept."""

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential.kept import Difference, Kept
from tests.catalog.differential.sides import Answered

SETTINGS = {
    # Otherwise asking for the last event is refused.
    "metastore.metastore.event.db.notification.api.auth": "false",
}


def _writers_wait_for_each_other(difference: Difference) -> bool:
    if difference.method.startswith("lock"):
        kinds = {component.type for component in difference.arguments[0].component}
        if ttypes.LockType.SHARED_WRITE not in kinds:
            return False
    elif not difference.method.startswith("check_lock"):
        return False
    java, ours = difference.java, difference.ours
    return (
        isinstance(java, Answered)
        and isinstance(ours, Answered)
        and java.value["state"] == ttypes.LockState.ACQUIRED
        and ours.value["state"] == ttypes.LockState.WAITING
    )


KEPT = (Kept("Without transactions writers wait for each other, as in Hive 2 and 3.", _writers_wait_for_each_other),)
"""What differs from 4.0.1 alone."""
