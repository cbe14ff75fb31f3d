"""Hive's metastore 4.0.1 as the server to compare with: its settings, and the accepted differences from it alone."""

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential.accepted import AcceptedDifference, OutcomeDifference
from tests.catalog.differential.servers import CallAnswer

SETTINGS = {
    # Without this setting, reading the last event is refused.
    "metastore.metastore.event.db.notification.api.auth": "false",
}


def _writers_wait_for_each_other(difference: OutcomeDifference) -> bool:
    if difference.method.startswith("lock"):
        kinds = {component.type for component in difference.arguments[0].component}
        if ttypes.LockType.SHARED_WRITE not in kinds:
            return False
    elif not difference.method.startswith("check_lock"):
        return False
    java, ours = difference.java, difference.ours
    return (
        isinstance(java, CallAnswer)
        and isinstance(ours, CallAnswer)
        and java.value["state"] == ttypes.LockState.ACQUIRED
        and ours.value["state"] == ttypes.LockState.WAITING
    )


ACCEPTED = (
    AcceptedDifference(
        "Without transactions writers wait for each other, as in Hive 2 and 3.", _writers_wait_for_each_other
    ),
)
"""Accepted differences from 4.0.1 alone."""
