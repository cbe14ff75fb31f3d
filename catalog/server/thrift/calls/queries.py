"""The calls about scheduled queries, and about statistics of runs."""

from typing import Any

from interbed.catalog.server.service.errors import InvalidArgumentError, InvalidOperationError, MetastoreError
from interbed.catalog.server.service.schedule import QueryState, RuntimeStatistics, ScheduledQuery
from interbed.catalog.server.service.service import Metastore
from interbed.thrift_idl.hive_metastore import ttypes

_Type = ttypes.ScheduledQueryMaintenanceRequestType


class QueryHandler:
    """The calls about scheduled queries and statistics of runs."""

    def __init__(self, metastore: Metastore) -> None:
        self._queries = metastore.queries
        self._statistics = metastore.run_statistics

    def get_scheduled_query(self, scheduleKey: Any) -> Any:
        found = self._queries.get(scheduleKey.clusterNamespace or "", scheduleKey.scheduleName or "")
        return ttypes.ScheduledQuery(
            scheduleKey=ttypes.ScheduledQueryKey(found.name, found.namespace),
            enabled=found.enabled,
            schedule=found.schedule,
            user=found.user,
            query=found.query,
            nextExecution=found.next_execution,
        )

    def scheduled_query_maintenance(self, request: Any) -> None:
        query = _query_from(request.scheduledQuery)
        if request.type == _Type.CREATE:
            self._queries.create(query)
        elif request.type == _Type.ALTER:
            self._queries.alter(query)
        elif request.type == _Type.DROP:
            self._queries.drop(query.namespace, query.name)
        else:
            raise MetastoreError("invalid request")

    def scheduled_query_poll(self, request: Any) -> Any:
        due = self._queries.poll(request.clusterNamespace or "")
        if due is None:
            return ttypes.ScheduledQueryPollResponse()
        execution_id, query = due
        return ttypes.ScheduledQueryPollResponse(
            scheduleKey=ttypes.ScheduledQueryKey(query.name, query.namespace),
            executionId=execution_id,
            query=f"/* schedule: {query.name} */{query.query or ''}",
            user=query.user,
        )

    def scheduled_query_progress(self, info: Any) -> None:
        try:
            state = QueryState(info.state)
        except ValueError as error:
            raise InvalidOperationError(f"invalid state: {info.state}") from error
        self._queries.progress(info.scheduledExecutionId, state, info.executorQueryId, info.errorMessage)

    def add_runtime_stats(self, stat: Any) -> None:
        self._statistics.add(RuntimeStatistics(create_time=0, weight=stat.weight or 0, payload=stat.payload or b""))

    def get_runtime_stats(self, rqst: Any) -> list[Any]:
        found = self._statistics.newest(
            -1 if rqst.maxWeight is None else rqst.maxWeight, -1 if rqst.maxCreateTime is None else rqst.maxCreateTime
        )
        return [
            ttypes.RuntimeStat(createTime=each.create_time, weight=each.weight, payload=each.payload) for each in found
        ]


def _query_from(thrift: Any) -> ScheduledQuery:
    key = getattr(thrift, "scheduleKey", None)
    if thrift is None or key is None or not key.scheduleName or not key.clusterNamespace:
        raise InvalidArgumentError("a scheduled query needs a name and a namespace")
    if len(key.scheduleName) > 256 or len(key.clusterNamespace) > 256:
        raise InvalidArgumentError("the name and the namespace of a scheduled query have 256 characters at most")
    return ScheduledQuery(
        namespace=key.clusterNamespace,
        name=key.scheduleName,
        enabled=bool(thrift.enabled),
        schedule=thrift.schedule,
        user=thrift.user,
        query=thrift.query,
        next_execution=thrift.nextExecution,
    )
