"""Which partitions are too old: by the time that their values name, or by when they were last written.

Source: documentation page `maintenance/manage-partitions`, paimon-core's strategies `values-time` and `update-time`.
"""

import logging
from collections.abc import Iterable, Mapping
from datetime import datetime

from interbed.storage.meta.options.partition_time import ExpirationStrategy, PartitionTime

_log = logging.getLogger(__name__)


def outdated(
    partitions: Iterable[tuple[Mapping[str, str], datetime]],
    before: datetime,
    *,
    strategy: ExpirationStrategy,
    time: PartitionTime,
    most: int | None = None,
) -> list[dict[str, str]]:
    """The partitions (values by column, and when they were last written) from before a time, in the order of their
    values; `most` of them at the most. One whose values name no time is left alone, which is logged.
    """
    found = []
    for spec, updated in partitions:
        at = updated if strategy is ExpirationStrategy.UPDATE_TIME else time.of(spec)
        if at is None:
            _log.warning(
                "The partition %s names no time and does not expire. Set 'partition.timestamp-pattern' and "
                "'partition.timestamp-formatter', set 'partition.expiration-strategy' to 'update-time', or drop it.",
                dict(spec),
            )
        elif at < before:
            found.append(dict(spec))
    return sorted(found, key=lambda spec: ",".join(spec.values()))[:most]
