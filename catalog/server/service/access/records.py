"""Changes of roles, grants and policies as the history of metadata records them. They make no notification events."""

from typing import Any

from interbed.catalog.server.service.access.grants import AccessRepository, Grant, Grantee
from interbed.catalog.server.service.access.objects import SecuredObject
from interbed.catalog.server.service.access.policies import TablePolicy
from interbed.catalog.server.service.events import EventBody, NotificationEvent


def role_created(role: str) -> NotificationEvent:
    """Record of a new role."""
    return _of_role("CREATE_ROLE", role, {})


def role_dropped(role: str) -> NotificationEvent:
    """Record of the drop of a role."""
    return _of_role("DROP_ROLE", role, {})


def member_added(role: str, member: Grantee, *, admin_option: bool) -> NotificationEvent:
    """Record of a new member of a role, or of another admin option."""
    return _of_role("GRANT_ROLE", role, {"to": str(member), "admin_option": admin_option})


def member_removed(role: str, member: Grantee, *, admin_option_only: bool) -> NotificationEvent:
    """Record of the removal of a member of a role, or of its admin option."""
    return _of_role("REVOKE_ROLE", role, {"from": str(member), "admin_option_only": admin_option_only})


def granted(access: AccessRepository, grant: Grant) -> NotificationEvent:
    """Record of a grant."""
    return _of_grant(access, "GRANT", grant, {"to": str(grant.to), "grant_option": grant.grant_option})


def revoked(access: AccessRepository, grant: Grant, *, option_only: bool) -> NotificationEvent:
    """Record of the end of a grant, or of its grant option."""
    details = {"from": str(grant.to), "grantor": grant.grantor, "grant_option_only": option_only}
    return _of_grant(access, "REVOKE", grant, details)


def _of_role(change: str, role: str, details: dict[str, Any]) -> NotificationEvent:
    # The names of roles are in the column of names.
    return NotificationEvent(type=change, catalog=None, table=role, body=EventBody(details=details))


def _of_grant(access: AccessRepository, change: str, grant: Grant, details: dict[str, Any]) -> NotificationEvent:
    on = grant.on
    body = EventBody(
        details={
            "kind": str(on.kind),
            "object_id": access.number(on),
            **({} if on.column is None else {"column": on.column}),
            "privilege": str(grant.privilege),
            **details,
        }
    )
    return NotificationEvent(type=change, catalog=on.catalog, database=on.database, table=on.name, body=body)


def policy_set(access: AccessRepository, on: SecuredObject, policy: TablePolicy) -> NotificationEvent:
    """Record of a new or replaced policy of a table."""
    return _of_policy(access, "SET_POLICY", on, policy)


def policy_dropped(access: AccessRepository, on: SecuredObject, policy: TablePolicy) -> NotificationEvent:
    """Record of the end of a policy of a table."""
    return _of_policy(access, "DROP_POLICY", on, policy)


def _of_policy(access: AccessRepository, change: str, on: SecuredObject, policy: TablePolicy) -> NotificationEvent:
    details = {"kind": str(on.kind), "object_id": access.number(on), "policy": policy.to_json()}
    body = EventBody(details=details)
    return NotificationEvent(type=change, catalog=on.catalog, database=on.database, table=on.name, body=body)
