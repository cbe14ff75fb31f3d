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
from interbed.catalog.server.thrift.calls.events import EventHandler
from interbed.catalog.server.thrift.calls.locks import LockClients, LockHandler
from interbed.catalog.server.thrift.calls.partition_reads import PartitionReadHandler
from interbed.catalog.server.thrift.calls.partitions import PartitionWriteHandler
from interbed.catalog.server.thrift.calls.queries import QueryHandler
from interbed.catalog.server.thrift.calls.statistics import StatisticsHandler
from interbed.catalog.server.thrift.calls.tables import ConstraintHandler, TableHandler
from interbed.catalog.server.thrift.structs.requests import NO_PRIVILEGES
from interbed.thrift_idl.hive_metastore import ttypes

SERVICE_VERSION = "3.0"
"""The answer of Hive's metastores since 2.0 to getVersion; clients choose their calls by it."""


_NO_ROLES = "roles are not kept: every client may do everything, access is limited by connection"


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

    def get_role_names(self) -> list[str]:
        return ["admin", "public"]

    def list_roles(self, principal_name: str, principal_type: int) -> list[Any]:
        return []

    def get_principals_in_role(self, request: Any) -> Any:
        return ttypes.GetPrincipalsInRoleResponse(principalGrants=[])

    def get_role_grants_for_principal(self, request: Any) -> Any:
        return ttypes.GetRoleGrantsForPrincipalResponse(principalGrants=[])

    def get_privilege_set(self, hiveObject: Any, user_name: str, group_names: list[str]) -> Any:
        return ttypes.PrincipalPrivilegeSet(userPrivileges={}, groupPrivileges={}, rolePrivileges={})

    def list_privileges(self, principal_name: str, principal_type: int, hiveObject: Any) -> list[Any]:
        return []

    def create_role(self, role: Any) -> bool:
        raise MetastoreError(_NO_ROLES)

    def drop_role(self, role_name: str) -> bool:
        raise MetastoreError(_NO_ROLES)

    def grant_role(
        self,
        role_name: str,
        principal_name: str,
        principal_type: int,
        grantor: str,
        grantorType: int,
        grant_option: bool,
    ) -> bool:
        raise MetastoreError(_NO_ROLES)

    def revoke_role(self, role_name: str, principal_name: str, principal_type: int) -> bool:
        raise MetastoreError(_NO_ROLES)

    def grant_revoke_role(self, request: Any) -> Any:
        raise MetastoreError(_NO_ROLES)

    def grant_privileges(self, privileges: Any) -> bool:
        return _nothing_in(privileges)

    def revoke_privileges(self, privileges: Any) -> bool:
        return _nothing_in(privileges)

    def grant_revoke_privileges(self, request: Any) -> Any:
        return ttypes.GrantRevokePrivilegeResponse(success=_nothing_in(request.privileges))

    def refresh_privileges(self, objToRefresh: Any, authorizer: str, grantRequest: Any) -> Any:
        return ttypes.GrantRevokePrivilegeResponse(success=_nothing_in(grantRequest and grantRequest.privileges))

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


def _nothing_in(privileges: Any) -> bool:
    """Return whether a bag holds no privileges. Others are refused, because they would not be stored."""
    if privileges is not None and privileges.privileges:
        raise MetastoreError(NO_PRIVILEGES)
    return True


def all_handlers(metastore: Metastore, lock_clients: LockClients | None = None) -> list[object]:
    """Return the handlers of all methods; each method is defined by one of them.

    Without `lock_clients` a request never waits for a lock.
    """
    return [
        ServiceHandler(metastore.config),
        EmptyHandler(),
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
