"""Roles, grants and policies of interbed's server, by its own interface `/interbed/v1/access` beside `/paimon`.

Its OpenAPI document is docs/access-openapi.yaml. Other servers have no such interface.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from interbed.catalog.client.errors import CatalogError
from interbed.catalog.client.grants import (
    AccessGrant,
    AccessPolicy,
    GrantHolder,
    GrantObject,
    Privileges,
    RoleMembership,
)
from interbed.catalog.client.rest.http import NOT_FOUND, RestHttp, RestRefusedError, catalog_error, encoded
from interbed.storage.base.errors import NotSupportedError

T = TypeVar("T")

_ROOT = "/v1/access"

_NO_ROUTE = "NOSUCHROUTE"


class RestGrants:
    """The roles, grants and policies of a server; `catalog` is the name of the catalog there. Thread-safe."""

    def __init__(self, http: RestHttp, catalog: str) -> None:
        self._http = http
        self._catalog = catalog

    def close(self) -> None:
        """Close the idle connections."""
        self._http.close()

    def roles(self) -> Sequence[str]:
        """Return the names of the roles."""
        return self._asked(lambda: [each["name"] for each in self._http.get(f"{_ROOT}/roles")["roles"]])

    def current_roles(self) -> Sequence[str]:
        """Return the roles of the caller, directly and by groups and other roles."""
        return self._asked(lambda: [str(each) for each in self._http.get(f"{_ROOT}/current")["roles"]])

    def create_role(self, name: str) -> None:
        self._asked(lambda: self._http.post(f"{_ROOT}/roles", {"name": name}))

    def drop_role(self, name: str) -> None:
        self._asked(lambda: self._http.delete(f"{_ROOT}/roles/{encoded(name)}"))

    def members(self, role: str) -> Sequence[RoleMembership]:
        """Return the members of a role."""
        return self._asked(lambda: [_membership(each) for each in self._http.get(_members(role))["members"]])

    def add_member(self, role: str, member: GrantHolder, *, admin_option: bool) -> None:
        """Make a grantee a member of a role."""
        body = {"member": _holder_json(member), "admin-option": admin_option}
        self._asked(lambda: self._http.post(_members(role), body, repeatable=True))

    def remove_member(self, role: str, member: GrantHolder, *, admin_option_only: bool) -> None:
        """Remove a member of a role, or only its admin option."""
        body = {"member": _holder_json(member), "admin-option-only": admin_option_only}
        self._asked(lambda: self._http.post(f"{_members(role)}/remove", body))

    def grants(self, on: GrantObject | None, to: GrantHolder | None) -> Sequence[AccessGrant]:
        """Return the grants on an object and to a grantee."""
        query = {} if on is None else self._object_json(on)
        if to is not None:
            query |= {"grantee-kind": to.kind, "grantee": to.name}
        return self._asked(lambda: [_grant(each) for each in self._http.get(f"{_ROOT}/grants", query)["grants"]])

    def grant(self, privileges: Privileges, to: GrantHolder, *, grant_option: bool) -> None:
        """Give privileges, all or none."""
        body = {"grants": self._grants_json(privileges, to, grant_option=grant_option)}
        self._asked(lambda: self._http.post(f"{_ROOT}/grants", body, repeatable=True))

    def revoke(self, privileges: Privileges, to: GrantHolder, *, grant_option_only: bool, cascade: bool) -> None:
        """Revoke privileges, all or none, or only their grant options."""
        body = {
            "grants": self._grants_json(privileges, to, grant_option=False),
            "grant-option-only": grant_option_only,
            "cascade": cascade,
        }
        self._asked(lambda: self._http.post(f"{_ROOT}/grants/revoke", body))

    def policies(self, on: GrantObject) -> Sequence[AccessPolicy]:
        """Return the policies of a table."""
        query = self._object_json(on)
        return self._asked(lambda: [_policy(each) for each in self._http.get(f"{_ROOT}/policies", query)["policies"]])

    def set_policy(self, on: GrantObject, policy: AccessPolicy) -> None:
        """Set a policy of a table, in place of the one of its name."""
        body = {
            "on": self._object_json(on),
            "name": policy.name,
            "expression": policy.expression,
            "to": [_holder_json(each) for each in policy.to],
            "except": [_holder_json(each) for each in policy.exempt],
            **({} if policy.column is None else {"column": policy.column}),
        }
        self._asked(lambda: self._http.post(f"{_ROOT}/policies", body, repeatable=True))

    def drop_policy(self, on: GrantObject, name: str) -> None:
        """Remove a policy of a table."""
        body = {"on": self._object_json(on), "name": name}
        self._asked(lambda: self._http.post(f"{_ROOT}/policies/drop", body))

    def _grants_json(self, privileges: Privileges, to: GrantHolder, *, grant_option: bool) -> list[dict[str, Any]]:
        common = {"to": _holder_json(to), "grant-option": grant_option}
        return [{"privilege": each, "on": self._object_json(on), **common} for each, on in privileges]

    def _object_json(self, on: GrantObject) -> dict[str, str]:
        catalog = None if on.kind == "server" else on.catalog or self._catalog
        named = {"kind": on.kind, "catalog": catalog, "database": on.database, "name": on.name, "column": on.column}
        return {key: value for key, value in named.items() if value is not None}

    def _asked(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except RestRefusedError as error:
            if error.status == NOT_FOUND and error.resource_type in ("", _NO_ROUTE):
                raise NotSupportedError(
                    f"The server of this catalog keeps no roles and grants that clients manage: it answers {error}"
                ) from error
            raise catalog_error(error) from error
        except (KeyError, TypeError) as error:
            raise CatalogError(
                f"{self._http.uri} is not the interface of interbed's server for roles and grants: {error!r}"
            ) from error


def _members(role: str) -> str:
    return f"{_ROOT}/roles/{encoded(role)}/members"


def _holder_json(holder: GrantHolder) -> dict[str, str]:
    return {"kind": holder.kind, "name": holder.name}


def _holder(found: Mapping[str, Any]) -> GrantHolder:
    return GrantHolder(kind=found["kind"], name=found["name"])


def _membership(each: Mapping[str, Any]) -> RoleMembership:
    return RoleMembership(
        role=each["role"],
        member=_holder(each["member"]),
        admin_option=each["admin-option"],
        grantor=each["grantor"],
        granted_at=each["granted-at"],
    )


def _policy(each: Mapping[str, Any]) -> AccessPolicy:
    return AccessPolicy(
        name=each["name"],
        expression=each["expression"],
        column=each["column"],
        to=tuple(map(_holder, each["to"])),
        exempt=tuple(map(_holder, each["except"])),
        created_by=each["created-by"],
        created_at=each["created-at"],
    )


def _grant(each: Mapping[str, Any]) -> AccessGrant:
    on = each["on"]
    return AccessGrant(
        privilege=each["privilege"],
        on=GrantObject(
            kind=on["kind"],
            catalog=on.get("catalog"),
            database=on.get("database"),
            name=on.get("name"),
            column=on.get("column"),
        ),
        to=_holder(each["to"]),
        grant_option=each["grant-option"],
        grantor=each["grantor"],
        granted_at=each["granted-at"],
    )
