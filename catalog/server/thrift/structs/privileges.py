"""Privileges in the structures of the interface: none are kept, and none are forgotten silently.

Engines send privileges of the owner with each table that they make (Trino always, Hive by
`hive.security.authorization.createtable.owner.grants`). Whoever owns a table may do everything here, as everybody may,
so that these say nothing new. What is meant for others is refused.
"""

from typing import Any

from interbed.catalog.server.service.errors import MetastoreError

NO_PRIVILEGES = "privileges are not kept: everybody may do everything, access is limited by who may connect"


def check_only_the_owners(table: Any) -> None:
    """MetastoreError for a Table structure that comes with privileges of anybody but its owner."""
    given = table.privileges
    if given is None:
        return
    others = [
        *(f"the user {name}" for name, held in (given.userPrivileges or {}).items() if held and name != table.owner),
        *(f"the group {name}" for name, held in (given.groupPrivileges or {}).items() if held),
        *(f"the role {name}" for name, held in (given.rolePrivileges or {}).items() if held),
    ]
    if others:
        raise MetastoreError(f"{table.dbName}.{table.tableName} comes with privileges of {others[0]}: {NO_PRIVILEGES}")
