"""Statistics of runs, which Hive keeps for the plans to come (`hive.query.reexecution.stats.persist.scope`)."""

import dataclasses
import time
from collections.abc import Callable

from interbed.catalog.server.service.schedule.model import RuntimeStatistics
from interbed.catalog.server.service.store import Store

AGE_SECONDS_MAX = 3 * 86400
"""Older ones are forgotten: Hive's `metastore.runtime.stats.max.age`."""


class RuntimeStatisticsService:
    """The calls about statistics of runs. `clock` gives seconds since the epoch."""

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.time) -> None:
        self._store = store
        self._clock = clock

    def add(self, statistics: RuntimeStatistics) -> None:
        """Keep statistics; they bear the present time."""
        stamped = dataclasses.replace(statistics, create_time=int(self._clock()))
        self._store.write(lambda transaction: transaction.run_statistics.add(stamped))

    def newest(self, weight_max: int, created_before: int) -> list[RuntimeStatistics]:
        """The newest ones, until their weights come to `weight_max` (to any, if it is negative), created before a time
        (at any, unless it is positive).
        """
        limit = created_before if created_before > 0 else None
        found = self._store.read(lambda transaction: transaction.run_statistics.newest(limit))
        chosen: list[RuntimeStatistics] = []
        weight = 0
        for each in found:
            if weight_max >= 0 and weight >= weight_max:
                break
            chosen.append(each)
            weight += each.weight
        return chosen

    def expire(self) -> int:
        """Forget old ones; their number."""
        before = int(self._clock()) - AGE_SECONDS_MAX
        return self._store.write(lambda transaction: transaction.run_statistics.expire(before))
