"""Row filters and column masks managed by REST."""

from typing import Any

import pytest

from interbed.catalog.server.ops.logs import subject
from interbed.catalog.server.rest.endpoint import request_subject
from interbed.catalog.server.rest.mounted import guarded_own
from interbed.catalog.server.rest.own_interface import own_interface
from tests.catalog.server.rest.access.served import ManagedAccess

ORDERS = {"kind": "table", "catalog": "hive", "database": "sales", "name": "orders"}
ON_ORDERS = "kind=table&catalog=hive&database=Sales&name=ORDERS"
ANN = {"kind": "user", "name": "ann"}
PUBLIC = {"kind": "role", "name": "public"}


def policy(expression: str = "id > 2", **more: Any) -> Any:
    """Return the body of a policy of the table."""
    return {"on": ORDERS, "name": "rows", "expression": expression, "to": [ANN], **more}


def test_policies_are_set_listed_replaced_and_dropped(managed: ManagedAccess) -> None:
    assert managed.send("POST", "policies", policy(), by="olga") == (204, None)
    mask = policy("NULL", name="hide", column="id", to=[PUBLIC], **{"except": [ANN]})
    assert managed.send("POST", "policies", mask) == (204, None)
    status, found = managed.send("GET", f"policies?{ON_ORDERS}", by="olga")
    assert status == 200
    shown = [{key: value for key, value in each.items() if key != "created-at"} for each in found["policies"]]
    assert shown == [
        {
            "name": "hide",
            "kind": "mask",
            "column": "id",
            "expression": "NULL",
            "to": [PUBLIC],
            "except": [ANN],
            "created-by": "root",
        },
        {
            "name": "rows",
            "kind": "filter",
            "column": None,
            "expression": "id > 2",
            "to": [ANN],
            "except": [],
            "created-by": "olga",
        },
    ]
    assert managed.send("POST", "policies", policy("id > 3"), by="olga")[0] == 204
    _, found = managed.send("GET", f"policies?{ON_ORDERS}")
    assert [each["expression"] for each in found["policies"]] == ["NULL", "id > 3"]
    for name in ("hide", "rows"):
        assert managed.send("POST", "policies/drop", {"on": ORDERS, "name": name}, by="olga") == (204, None)
    assert managed.send("GET", f"policies?{ON_ORDERS}") == (200, {"policies": []})


@pytest.mark.parametrize(
    ("by", "method", "address", "body", "status"),
    [
        ("ann", "POST", "policies", policy(), 404),
        ("ann", "POST", "policies/drop", {"on": ORDERS, "name": "rows"}, 404),
        ("ann", "GET", f"policies?{ON_ORDERS}", None, 404),
        ("olga", "POST", "policies", policy("none > 2"), 400),
        ("olga", "POST", "policies", policy(to=[]), 400),
        ("olga", "POST", "policies", policy(to=[{"kind": "role", "name": "none"}]), 404),
        ("olga", "POST", "policies", policy(name="a b"), 400),
        ("olga", "POST", "policies", policy(exempt=[ANN]), 400),
        ("olga", "POST", "policies", policy(on={**ORDERS, "name": "none"}), 404),
        ("olga", "POST", "policies", policy(on={"kind": "server"}), 400),
        ("olga", "POST", "policies/drop", {"on": ORDERS, "name": "rows"}, 404),
        ("olga", "GET", "policies?kind=database&catalog=hive&database=sales", None, 400),
        ("olga", "GET", "policies", None, 400),
        ("olga", "GET", f"policies?{ON_ORDERS}&of=ann", None, 400),
    ],
)
def test_other_requests_are_refused(
    managed: ManagedAccess, by: str, method: str, address: str, body: Any, status: int
) -> None:
    assert managed.send(method, address, body, by=by)[0] == status


def test_a_reader_without_all_may_not_see_or_set_policies(managed: ManagedAccess) -> None:
    granted = {"privilege": "SELECT", "on": ORDERS, "to": ANN}
    assert managed.send("POST", "grants", {"grants": [granted]})[0] == 204
    for method, address, body in (("POST", "policies", policy()), ("GET", f"policies?{ON_ORDERS}", None)):
        status, answer = managed.send(method, address, body, by="ann")
        assert (status, answer["error"]["type"]) == (403, "Forbidden")


def test_changes_are_in_the_audit_log(managed: ManagedAccess) -> None:
    for address, body in (("policies", policy()), ("policies/drop", {"on": ORDERS, "name": "rows"})):
        route, request = managed.routed("POST", address, body)
        assert route.is_change
        assert subject(f"interbed.{route.operation}", request_subject(route, request)) == {
            "policy": "rows of hive.sales.orders"
        }


def test_a_server_without_grants_says_so(managed: ManagedAccess) -> None:
    plain = guarded_own(managed.metastore, own_interface(managed.metastore, managed.administration))
    status, answer = ManagedAccess(managed.metastore, managed.administration, plain).send("POST", "policies", policy())
    assert (status, answer["error"]["type"]) == (501, "NoRoles")
