"""The calls about the service itself (fb303, session, configuration, empty answers), catalogs, databases and functions,
notification events, scheduled queries and statistics of runs; and the list of all handlers.

A handler's methods have the names and the order of arguments of Hive's interface definition. They only convert and call
the rules. `all_handlers` joins the handlers of this package.
"""

import dataclasses
import time
from typing import Any

from interbed.catalog.server.service.errors import (
    InvalidArgumentError,
    InvalidObjectError,
    InvalidOperationError,
    MetastoreError,
    NoSuchObjectError,
)
from interbed.catalog.server.service.model import Function, MetastoreDatabase
from interbed.catalog.server.service.names import normalized, required
from interbed.catalog.server.service.schedule import QueryState, RuntimeStatistics, ScheduledQuery
from interbed.catalog.server.service.service import ConfigValues, Metastore
from interbed.catalog.server.threads import current_catalog, session_settings
from interbed.catalog.server.thrift.calls.grants import NoDelegationHandler, NoGrantHandler, TokenStoreHandler
from interbed.catalog.server.thrift.calls.locks import LockClients, LockHandler
from interbed.catalog.server.thrift.calls.partitions import PartitionReadHandler, PartitionWriteHandler
from interbed.catalog.server.thrift.calls.statistics import StatisticsHandler
from interbed.catalog.server.thrift.calls.tables import ConstraintHandler, TableHandler
from interbed.catalog.server.thrift.structs import convert
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.catalog.server.thrift.structs.event_messages import event_to_thrift
from interbed.thrift_idl.hive_metastore import ttypes

_DATABASE = "name of a database"
_FUNCTION = "name of a function"

_Type = ttypes.ScheduledQueryMaintenanceRequestType


class CatalogHandler:
    """The calls about catalogs."""

    def __init__(self, metastore: Metastore) -> None:
        self._catalogs = metastore.catalogs
        self._databases = metastore.databases

    def get_metastore_db_uuid(self) -> str:
        return self._databases.identity()

    def get_catalogs(self) -> Any:
        return ttypes.GetCatalogsResponse(names=self._catalogs.names())

    def get_catalog(self, catName: Any) -> Any:
        return ttypes.GetCatalogResponse(catalog=convert.catalog_to_thrift(self._catalogs.get(catName.name)))

    def create_catalog(self, catalog: Any) -> None:
        if catalog.catalog is None:
            raise InvalidObjectError("the request has no catalog")
        self._catalogs.create(convert.catalog_from_thrift(catalog.catalog))

    def alter_catalog(self, rqst: Any) -> None:
        if rqst.newCat is None:
            raise InvalidOperationError("the request has no catalog")
        self._catalogs.alter(rqst.name, convert.catalog_from_thrift(rqst.newCat))

    def drop_catalog(self, catName: Any) -> None:
        self._catalogs.drop(catName.name, if_exists=bool(catName.ifExists))


class DatabaseHandler:
    """The calls about databases."""

    def __init__(self, metastore: Metastore) -> None:
        self._databases = metastore.databases

    def create_database(self, database: Any) -> None:
        self._create(convert.database_from_thrift(database))

    def create_database_req(self, createDatabaseRequest: Any) -> None:
        self._create(convert.database_from_request(createDatabaseRequest))

    def _create(self, database: MetastoreDatabase) -> None:
        # The server sets the time and ignores the client's.
        self._databases.create(dataclasses.replace(database, create_time=0))

    def get_database(self, name: str) -> Any:
        catalog, database = split_catalog(name)
        return convert.database_to_thrift(self._databases.get(catalog, required(database, _DATABASE)))

    def get_database_req(self, request: Any) -> Any:
        catalog, database = split_catalog(request.name, request.catalogName)
        return convert.database_to_thrift(self._databases.get(catalog, required(database, _DATABASE)))

    def get_databases(self, pattern: str) -> list[str]:
        catalog, name = split_catalog(pattern)
        return self._databases.names(catalog, name)

    def get_databases_req(self, request: Any) -> Any:
        catalog, pattern = split_catalog(request.pattern, request.catalogName)
        databases = self._databases.select(catalog, pattern)
        return ttypes.GetDatabaseObjectsResponse(databases=[convert.database_to_thrift(each) for each in databases])

    def get_all_databases(self) -> list[str]:
        return self._databases.names(current_catalog.get())

    def alter_database(self, dbname: str, db: Any) -> None:
        catalog, name = split_catalog(dbname)
        self._databases.alter(catalog, name or "", convert.database_from_thrift(db))

    def alter_database_req(self, alterDbReq: Any) -> None:
        catalog, name = split_catalog(alterDbReq.oldDbName)
        self._databases.alter(catalog, name or "", convert.database_from_thrift(alterDbReq.newDb))

    def drop_database(self, name: str, deleteData: bool, cascade: bool) -> None:
        catalog, database = split_catalog(name)
        self._databases.drop(
            catalog, required(database, _DATABASE), delete_data=bool(deleteData), cascade=bool(cascade)
        )

    def drop_database_req(self, req: Any) -> None:
        catalog, database = split_catalog(req.name, req.catalogName)
        self._databases.drop(
            catalog,
            required(database, _DATABASE),
            delete_data=bool(req.deleteData),
            cascade=bool(req.cascade),
            if_exists=bool(req.ignoreUnknownDb),
        )


class FunctionHandler:
    """The calls about user-defined functions."""

    def __init__(self, metastore: Metastore) -> None:
        self._functions = metastore.functions

    def create_function(self, func: Any) -> None:
        self._functions.create(_complete(func))

    def alter_function(self, dbName: str, funcName: str, newFunc: Any) -> None:
        catalog, database = split_catalog(dbName)
        if newFunc is None:
            raise MetastoreError("the request has no function")
        self._functions.alter(catalog, normalized(database), funcName, _complete(newFunc))

    def drop_function(self, dbName: str, funcName: str) -> None:
        catalog, database = split_catalog(dbName)
        self._functions.drop(catalog, required(database, _DATABASE), required(funcName, _FUNCTION))

    def get_function(self, dbName: str, funcName: str) -> Any:
        catalog, database = split_catalog(dbName)
        found = self._functions.get(catalog, required(database, _DATABASE), required(funcName, _FUNCTION))
        return convert.function_to_thrift(found)

    def get_functions(self, dbName: str, pattern: str) -> list[str]:
        catalog, database = split_catalog(dbName)
        return self._functions.names(catalog, required(database, _DATABASE), pattern)

    def get_functions_req(self, request: Any) -> Any:
        catalog, database = split_catalog(request.dbName, request.catalogName)
        names = self._functions.names(catalog, required(database, _DATABASE), request.pattern)
        if request.returnNames is not False:
            return ttypes.GetFunctionsResponse(function_names=names)
        chosen = set(names)
        functions = self._functions.select(catalog, normalized(database))
        return ttypes.GetFunctionsResponse(
            functions=[convert.function_to_thrift(function) for function in functions if function.name in chosen]
        )

    def get_all_functions(self) -> Any:
        functions = self._functions.select(current_catalog.get())
        return ttypes.GetAllFunctionsResponse(functions=[convert.function_to_thrift(each) for each in functions])


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


class EventHandler:
    """The calls about the notification log."""

    def __init__(self, metastore: Metastore) -> None:
        self._notifications = metastore.notifications

    def get_current_notificationEventId(self) -> Any:
        return ttypes.CurrentNotificationEventId(eventId=self._notifications.current())

    def get_next_notification(self, rqst: Any) -> Any:
        catalog, database = _chosen(rqst.dbName, rqst.catName)
        found = self._notifications.after(
            rqst.lastEvent,
            rqst.maxEvents,
            catalog=catalog,
            database=database,
            tables=rqst.tableNames or (),
            types=rqst.eventTypeList or (),
            skipped_types=rqst.eventTypeSkipList or (),
        )
        return ttypes.NotificationEventResponse(events=[event_to_thrift(event) for event in found])

    def get_notification_events_count(self, rqst: Any) -> Any:
        catalog, database = _chosen(rqst.dbName, rqst.catName)
        count = self._notifications.count(
            rqst.fromEventId,
            up_to=rqst.toEventId,
            catalog=catalog,
            database=database,
            tables=rqst.tableNames or (),
            limit=rqst.limit,
        )
        return ttypes.NotificationEventsCountResponse(eventsCount=count)

    def fire_listener_event(self, rqst: Any) -> Any:
        data = rqst.data
        inserts = [] if data is None else [each for each in (data.insertData, *(data.insertDatas or ())) if each]
        if not inserts:
            # The call asks other servers to reload a table; no stored object changes.
            return ttypes.FireEventResponse(eventIds=[])
        if not rqst.dbName or not rqst.tableName:
            raise MetastoreError("an insert event names a database and a table")
        catalog, database = split_catalog(rqst.dbName, rqst.catName)
        ids = self._notifications.insert(
            catalog,
            database or "",
            rqst.tableName,
            [
                (each.partitionVal or rqst.partitionVals or (), each.filesAdded or (), bool(each.replace))
                for each in inserts
            ],
        )
        return ttypes.FireEventResponse(eventIds=ids)


def _chosen(name: str | None, catalog: str | None) -> tuple[str | None, str | None]:
    """Return catalog and database of a request; None for both, if it names no database and so selects all."""
    if not name and not catalog:
        return None, None
    return split_catalog(name, catalog)


SERVICE_VERSION = "3.0"
"""The answer of Hive's metastores since 2.0 to getVersion; clients choose their calls by it."""


class ServiceHandler:
    """The calls of fb303 and of the session. `shutdown` ends a client's session, never the server."""

    def __init__(self, config: ConfigValues) -> None:
        self._config = config
        self._started_at = int(time.time())

    def getName(self) -> str:
        return "interbed catalog server"

    def getVersion(self) -> str:
        return SERVICE_VERSION

    def getStatus(self) -> int:
        return ttypes.fb_status.ALIVE  # type: ignore[no-any-return]

    def getStatusDetails(self) -> str:
        return ""

    def getCounters(self) -> dict[str, int]:
        return {}

    def getCounter(self, key: str) -> int:
        return 0

    def getOptions(self) -> dict[str, str]:
        return {}

    def getOption(self, key: str) -> str:
        return ""

    def setOption(self, key: str, value: str) -> None:
        return None

    def getCpuProfile(self, profileDurationInSec: int) -> str:
        return ""

    def aliveSince(self) -> int:
        return self._started_at

    def reinitialize(self) -> None:
        return None

    def shutdown(self) -> None:
        return None

    def set_ugi(self, user_name: str, group_names: list[str]) -> list[str]:
        return [user_name or "", *(group_names or [])]

    def flushCache(self) -> None:
        return None

    def getMetaConf(self, key: str) -> str:
        own = self._config.of_session(key)
        return (session_settings.get() or {}).get(key, own)

    def setMetaConf(self, key: str, value: str) -> None:
        self._config.check_settable(key, value)
        settings = session_settings.get()
        if settings is not None:
            settings[key] = value or ""

    def get_config_value(self, name: str, defaultValue: str) -> str:
        return self._config.value(name, defaultValue)


class EmptyHandler:
    """The calls about objects that interbed does not have; clients continue when there are none."""

    def get_type(self, name: str) -> Any:
        raise NoSuchObjectError(f"there is no type {name}")

    def create_type(self, type: Any) -> bool:
        raise MetastoreError("types of one's own are not kept")

    def drop_type(self, type: str) -> bool:
        raise NoSuchObjectError(f"there is no type {type}")

    def get_type_all(self, name: str) -> dict[str, Any]:
        return {}

    def get_materialization_invalidation_info(self, creation_metadata: Any, validTxnList: str) -> Any:
        return ttypes.Materialization(sourceTablesUpdateDeleteModified=True, sourceTablesCompacted=False)


def all_handlers(
    metastore: Metastore,
    lock_clients: LockClients | None = None,
    grants: object | None = None,
    delegation: object | None = None,
) -> list[object]:
    """Return the handlers of all methods; each method is defined by one of them.

    Without `lock_clients` a request never waits for a lock. `grants` has the methods about roles and grants where these
    are kept, `delegation` those about delegation tokens where these are issued.
    """
    return [
        ServiceHandler(metastore.config),
        EmptyHandler(),
        NoGrantHandler() if grants is None else grants,
        NoDelegationHandler() if delegation is None else delegation,
        TokenStoreHandler(metastore),
        CatalogHandler(metastore),
        DatabaseHandler(metastore),
        TableHandler(metastore),
        ConstraintHandler(metastore),
        PartitionReadHandler(metastore),
        PartitionWriteHandler(metastore),
        StatisticsHandler(metastore),
        QueryHandler(metastore),
        FunctionHandler(metastore),
        EventHandler(metastore),
        LockHandler(metastore, lock_clients if lock_clients is not None else LockClients(metastore.locks)),
    ]


def _complete(function: Any) -> Function:
    """Return the function of a request; MetastoreError if it lacks a field that Hive 4's metastore requires: names,
    owner's type, kind. Functions that older metastores stored may lack them.
    """
    for field in ("dbName", "functionName", "ownerType", "functionType"):
        if getattr(function, field) is None:
            raise MetastoreError(f"the function has no {field}")
    return convert.function_from_thrift(function)
