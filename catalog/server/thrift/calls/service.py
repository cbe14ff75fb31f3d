"""The calls about the service itself (fb303, session, configuration, empty answers), and the list of all handlers.

A handler's methods have the names and the order of arguments of Hive's interface definition. They only convert and call
the rules. `all_handlers` joins the handlers of this package.
"""

import time
from typing import Any

from interbed.catalog.server.service.errors import MetastoreError, NoSuchObjectError
from interbed.catalog.server.service.service import ConfigValues, Metastore
from interbed.catalog.server.session import session_settings
from interbed.catalog.server.thrift.calls.databases import CatalogHandler, DatabaseHandler, FunctionHandler
from interbed.catalog.server.thrift.calls.delegation import NoDelegationHandler, TokenStoreHandler
from interbed.catalog.server.thrift.calls.events import EventHandler
from interbed.catalog.server.thrift.calls.grants import NoGrantHandler
from interbed.catalog.server.thrift.calls.locks import LockClients, LockHandler
from interbed.catalog.server.thrift.calls.partition_reads import PartitionReadHandler
from interbed.catalog.server.thrift.calls.partitions import PartitionWriteHandler
from interbed.catalog.server.thrift.calls.queries import QueryHandler
from interbed.catalog.server.thrift.calls.statistics import StatisticsHandler
from interbed.catalog.server.thrift.calls.tables import ConstraintHandler, TableHandler
from interbed.thrift_idl.hive_metastore import ttypes

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
