"""The calls about notification events."""

from typing import Any

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.structs.convert import split_catalog
from interbed.catalog.server.thrift.structs.event_messages import event_to_thrift
from interbed.thrift_idl.hive_metastore import ttypes


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
