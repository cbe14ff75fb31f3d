"""Roles and grants managed by REST."""

from typing import Any

import pytest

from interbed.catalog.server.ops.logs import subject
from interbed.catalog.server.rest.endpoint import request_subject
from interbed.catalog.server.rest.mounted import guarded_own
from interbed.catalog.server.rest.own_interface import own_interface
from interbed.catalog.server.service.history.shown import entry_json
from tests.catalog.server.rest.access.served import ManagedAccess

ORDERS = {"kind": "table", "catalog": "hive", "database": "sales", "name": "orders"}
ON_ORDERS = "kind=table&catalog=hive&database=Sales&name=ORDERS"
SERVER = {"kind": "server"}


def grants(*privileges: str, to: str = "user:ann", on: Any = ORDERS, option: bool = False, more: Any = None) -> Any:
    """Return a body with grants on an object."""
    kind, _, name = to.partition(":")
    return {
        "grants": [
            {"privilege": each, "on": on, "to": {"kind": kind, "name": name}, "grant-option": option}
            for each in privileges
        ],
        **(more or {}),
    }


def member(key: str, **more: Any) -> Any:
    """Return a body with a member of a role."""
    kind, _, name = key.partition(":")
    return {"member": {"kind": kind, "name": name}, **more}


def listed(managed: ManagedAccess, query: str, by: str = "root") -> list[tuple[str, str]]:
    """Return privilege and grantee of the listed grants."""
    status, answer = managed.send("GET", f"grants?{query}", by=by)
    assert status == 200, answer
    return [(each["privilege"], each["to"]["name"]) for each in answer["grants"]]


def test_roles_are_created_given_and_dropped(managed: ManagedAccess) -> None:
    assert managed.send("POST", "roles", {"name": "Readers"}) == (204, None)
    assert managed.send("POST", "roles", {"name": "lake"})[0] == 204
    assert managed.send("POST", "roles/lake/members", member("role:readers"))[0] == 204
    assert managed.send("POST", "roles/readers/members", member("group:etl", **{"admin-option": True}))[0] == 204
    _, found = managed.send("GET", "roles")
    assert [each["name"] for each in found["roles"]] == ["admin", "lake", "public", "readers"]
    _, found = managed.send("GET", "roles/readers/members", by="gus")
    [one] = found["members"]
    assert (one["member"], one["admin-option"], one["grantor"]) == ({"kind": "group", "name": "etl"}, True, "root")
    assert managed.send("GET", "current", by="gus") == (
        200,
        {"name": "gus", "groups": ["etl"], "roles": ["lake", "public", "readers"]},
    )
    _, found = managed.send("GET", "memberships?kind=role&name=readers")
    assert [each["role"] for each in found["members"]] == ["lake"]
    remove = "roles/readers/members/remove"
    assert managed.send("POST", remove, member("group:etl", **{"admin-option-only": True}))[0] == 204
    assert managed.send("GET", "roles/readers/members", by="gus")[0] == 403
    assert managed.send("POST", remove, member("group:etl"))[0] == 204
    assert managed.send("POST", remove, member("group:etl"))[0] == 404
    assert managed.send("DELETE", "roles/readers") == (204, None)
    _, found = managed.send("GET", "roles")
    assert [each["name"] for each in found["roles"]] == ["admin", "lake", "public"]


def test_privileges_are_granted_listed_and_revoked_with_what_depends_on_them(managed: ManagedAccess) -> None:
    assert managed.send("POST", "grants", grants("SELECT", "INSERT", option=True), by="olga") == (204, None)
    assert managed.send("POST", "grants", grants("SELECT", to="user:bea"), by="ann") == (204, None)
    assert listed(managed, ON_ORDERS) == [("SELECT", "ann"), ("INSERT", "ann"), ("SELECT", "bea")]
    assert listed(managed, "grantee-kind=user&grantee=bea") == [("SELECT", "bea")]
    assert listed(managed, ON_ORDERS, by="bea") == [("SELECT", "bea")]
    status, revoked = managed.send("POST", "grants/revoke", grants("SELECT", more={"cascade": True}), by="olga")
    assert status == 200
    assert [(each["privilege"], each["to"]["name"], each["grantor"]) for each in revoked["grants"]] == [
        ("SELECT", "ann", "olga"),
        ("SELECT", "bea", "ann"),
    ]
    assert listed(managed, "") == [("INSERT", "ann")]
    only = grants("INSERT", more={"grant-option-only": True})
    assert managed.send("POST", "grants/revoke", only, by="olga")[0] == 200
    _, found = managed.send("GET", f"grants?{ON_ORDERS}")
    assert [each["grant-option"] for each in found["grants"]] == [False]


def test_effective_privileges_are_those_of_grants_roles_and_owners(managed: ManagedAccess) -> None:
    managed.send("POST", "roles", {"name": "readers"})
    managed.send("POST", "roles/readers/members", member("group:etl"))
    managed.send("POST", "grants", grants("SELECT", to="role:readers"))
    _, found = managed.send("GET", f"effective?principal=ann&groups=etl&{ON_ORDERS}")
    assert (found["privileges"], found["on"], found["groups"]) == (["SELECT"], ORDERS, ["etl"])
    assert "ALL" in managed.send("GET", f"effective?principal=olga&{ON_ORDERS}", by="olga")[1]["privileges"]
    assert managed.send("GET", f"effective?principal=gus&groups=etl&{ON_ORDERS}", by="gus")[0] == 200
    status, refused = managed.send("GET", f"effective?principal=olga&{ON_ORDERS}", by="gus")
    assert (status, refused["error"]["type"]) == (403, "Forbidden")


def test_a_denial_is_explained(managed: ManagedAccess) -> None:
    managed.send("POST", "grants", grants("SELECT"))
    status, found = managed.send("GET", f"why-denied?principal=ann&privilege=INSERT&{ON_ORDERS}")
    assert status == 200
    assert (found["permitted"], found["roles"]) == (False, ["role public"])
    assert [each["privilege"] for each in found["grants"]] == ["SELECT"]
    assert found["way-out"] == "GRANT INSERT ON table hive.sales.orders TO USER ann"
    _, found = managed.send("GET", f"why-denied?principal=ann&privilege=SELECT&{ON_ORDERS}", by="ann")
    assert (found["permitted"], found["way-out"]) == (True, "")
    assert found["reasons"] == ["SELECT on the table hive.sales.orders is granted: user ann"]
    _, found = managed.send("GET", f"why-denied?principal=olga&privilege=DROP&{ON_ORDERS}", by="olga")
    assert found["reasons"] == ["the user olga owns the table hive.sales.orders: user olga"]
    assert managed.send("GET", f"why-denied?principal=olga&privilege=DROP&{ON_ORDERS}", by="ann")[0] == 403


@pytest.mark.parametrize(
    ("by", "method", "address", "body", "status", "kind"),
    [
        ("ann", "POST", "roles", {"name": "mine"}, 403, "Forbidden"),
        ("ann", "DELETE", "roles/admin", None, 403, "Forbidden"),
        ("root", "DELETE", "roles/admin", None, 409, "InvalidOperation"),
        ("root", "DELETE", "roles/none", None, 404, "NoSuchObject"),
        ("root", "POST", "roles", {"name": "public"}, 409, "AlreadyExists"),
        ("root", "POST", "roles", {"name": "a b"}, 400, "InvalidObject"),
        ("root", "POST", "roles", {"name": "a", "to": 1}, 400, "BadRequestException"),
        ("ann", "GET", "roles/admin/members", None, 403, "Forbidden"),
        ("root", "POST", "roles/public/members", member("user:ann"), 409, "InvalidOperation"),
        ("root", "POST", "roles/admin/members", member("role:none"), 404, "NoSuchObject"),
        ("ann", "POST", "roles/admin/members", member("user:ann"), 403, "Forbidden"),
        ("ann", "GET", "memberships?kind=user&name=olga", None, 403, "Forbidden"),
        ("root", "GET", "memberships?kind=users&name=olga", None, 400, "BadRequest"),
        # What a caller does not see does not exist for it.
        ("ann", "POST", "grants", grants("SELECT"), 404, "NoSuchObject"),
        ("ann", "GET", f"grants?{ON_ORDERS}", None, 404, "NoSuchObject"),
        ("ann", "GET", f"effective?principal=ann&{ON_ORDERS}", None, 404, "NoSuchObject"),
        ("root", "POST", "grants", grants("SELECT", on={**ORDERS, "name": "none"}), 404, "NoSuchObject"),
        ("root", "POST", "grants", grants("SELECT", on={"kind": "table", "name": "t"}), 400, "InvalidObject"),
        ("root", "POST", "grants", grants("SELECT", on={**SERVER, "catalog": "hive"}), 400, "InvalidObject"),
        ("root", "POST", "grants", grants("READ"), 400, "BadRequestException"),
        ("root", "POST", "grants", grants("SELECT", to="user:"), 400, "InvalidObject"),
        ("root", "POST", "grants", grants(), 400, "InvalidObject"),
        ("root", "POST", "grants/revoke", grants("SELECT"), 404, "NoSuchObject"),
        ("root", "GET", "grants?grantee=ann", None, 400, "BadRequest"),
        # A misspelled parameter does not widen the answer.
        ("root", "GET", "grants?tabel=orders", None, 400, "BadRequest"),
        ("root", "GET", f"why-denied?principal=ann&privilege=READ&{ON_ORDERS}", None, 400, "BadRequest"),
        ("root", "GET", f"effective?{ON_ORDERS}", None, 400, "BadRequest"),
        (None, "GET", "roles", None, 403, "Forbidden"),
        (None, "POST", "grants", grants("SELECT"), 403, "Forbidden"),
    ],
)
def test_refused_requests_say_why(
    managed: ManagedAccess, by: str | None, method: str, address: str, body: Any, status: int, kind: str
) -> None:
    found, answer = managed.send(method, address, body, by=by)
    assert (found, answer["error"]["type"]) == (status, kind), answer
    assert answer["error"]["message"]
    assert managed.administration.grants(None) == []


def test_a_server_without_grants_says_so(managed: ManagedAccess) -> None:
    plain = ManagedAccess(
        managed.metastore, managed.administration, guarded_own(managed.metastore, own_interface(managed.metastore))
    )
    status, answer = plain.send("GET", "roles")
    assert (status, answer["error"]["type"]) == (501, "NoRoles")
    assert "access_authorizer = builtin" in answer["error"]["message"]


def test_changes_are_in_the_audit_log_and_in_the_history(managed: ManagedAccess) -> None:
    sent = [
        ("POST", "roles", {"name": "readers"}, {"role": "readers"}),
        ("POST", "roles/readers/members", member("user:ann"), {"role": "readers", "principal": "user ann"}),
        (
            "POST",
            "grants",
            grants("SELECT", "INSERT", to="role:readers", option=True),
            {
                "grants": [
                    "SELECT on hive.sales.orders for role readers with grant option",
                    "INSERT on hive.sales.orders for role readers with grant option",
                ],
                "grant_count": 2,
            },
        ),
        (
            "POST",
            "grants/revoke",
            grants("INSERT", to="role:readers"),
            {"grants": ["INSERT on hive.sales.orders for role readers"], "grant_count": 1},
        ),
        ("POST", "roles/readers/members/remove", member("user:ann"), {"role": "readers", "principal": "user ann"}),
        ("DELETE", "roles/readers", None, {"role": "readers"}),
    ]
    for method, address, body, logged in sent:
        route, request = managed.routed(method, address, body)
        assert route.is_change
        assert subject(f"interbed.{route.operation}", request_subject(route, request)) == logged
        assert managed.send(method, address, body)[0] < 300
    route, request = managed.routed("POST", "grants", {"grants": 1})
    assert request_subject(route, request) == {}
    changes = [entry_json(each)["change"] for each in managed.administration.changes(None) if each.name == "orders"]
    assert changes == ["GRANT", "GRANT", "REVOKE"]


COLUMN = {**ORDERS, "kind": "column", "column": "ID"}
ON_COLUMN = "kind=column&catalog=hive&database=Sales&name=ORDERS&column=id"


def test_privileges_on_columns_are_managed_like_others(managed: ManagedAccess) -> None:
    assert managed.send("POST", "grants", grants("SELECT", on=COLUMN)) == (204, None)
    assert managed.send("POST", "grants", grants("INSERT")) == (204, None)
    _, found = managed.send("GET", f"grants?{ON_ORDERS}")
    assert [each["on"] for each in found["grants"]] == [ORDERS, {**COLUMN, "column": "id"}]
    assert listed(managed, ON_COLUMN) == [("SELECT", "ann")]
    _, found = managed.send("GET", f"effective?principal=ann&{ON_COLUMN}")
    assert found["privileges"] == ["SELECT", "INSERT"]
    _, found = managed.send("GET", f"why-denied?principal=ann&privilege=SELECT&{ON_ORDERS}")
    assert (found["permitted"], found["way-out"]) == (False, "GRANT SELECT ON table hive.sales.orders TO USER ann")
    assert any("granted on the column id of the table" in each for each in found["reasons"])
    _, found = managed.send("GET", f"why-denied?principal=bea&privilege=SELECT&{ON_COLUMN}")
    assert found["way-out"] == "GRANT SELECT (id) ON table hive.sales.orders TO USER bea"
    assert managed.send("POST", "grants/revoke", grants("SELECT", on=COLUMN))[0] == 200
    assert listed(managed, ON_ORDERS) == [("INSERT", "ann")]


def test_columns_that_cannot_be_are_refused_by_name(managed: ManagedAccess) -> None:
    for on, status, message in (
        ({**COLUMN, "column": "size"}, 404, "column size of the table hive.sales.orders does not exist"),
        ({**ORDERS, "kind": "column"}, 400, "kind column has catalog and database and name and column"),
        ({**ORDERS, "column": "id"}, 400, "kind table has catalog and database and name"),
        ({**COLUMN, "column": " "}, 400, "names no column"),
    ):
        found, answer = managed.send("POST", "grants", grants("SELECT", on=on))
        assert (found, message in answer["error"]["message"]) == (status, True), answer
    status, answer = managed.send("POST", "grants", grants("DELETE", on=COLUMN))
    assert (status, "columns have SELECT alone" in answer["error"]["message"]) == (400, True)
