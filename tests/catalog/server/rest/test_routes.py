"""The table of routes: fixed before variable parts, and parts encoded as Java's clients do."""

from http import HTTPStatus
from urllib.parse import quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RequiredAccess,
    RestRequest,
    RestResponse,
    RestRoute,
    RouteTable,
)
from interbed.catalog.server.service.access.objects import Privilege


def _route(method: str, template: str, operation: str) -> RestRoute:
    def handler(request: RestRequest) -> RestResponse:
        return RestResponse(status=HTTPStatus.OK)

    needs = RequiredAccess(Privilege.USAGE, ObjectKind.SERVER)
    return RestRoute(method=method, template=template, operation=operation, needs=needs, handler=handler)


TABLE = RouteTable(
    [
        _route("GET", "v1/config", "config"),
        _route("GET", "v1/{prefix}/tables", "list"),
        _route("POST", "v1/{prefix}/tables/rename", "rename"),
        _route("GET", "v1/{prefix}/tables/{table}", "load"),
        _route("POST", "v1/{prefix}/tables/{table}", "commit"),
    ]
)


def test_a_fixed_part_goes_before_a_variable_one() -> None:
    found = TABLE.find("POST", "v1/p/tables/rename")
    assert found is not None
    assert found[0].operation == "rename"
    # Another method of the same path belongs to a table of that name.
    found = TABLE.find("GET", "v1/p/tables/rename")
    assert found is not None
    assert found[0].operation == "load"
    assert found[1] == {"prefix": "p", "table": "rename"}


def test_an_unknown_path_has_no_route() -> None:
    for path in ("", "v1", "v1//tables", "v1/p/tables/", "v1/p/tables/a/b", "v2/config"):
        assert TABLE.find("GET", path) is None
        assert TABLE.methods(path) == []
    assert TABLE.methods("v1/p/tables/rename") == ["GET", "POST"]


@given(st.text(min_size=1))
def test_any_name_is_one_part(name: str) -> None:
    try:
        encoded = quote_plus(name)
    except UnicodeEncodeError:
        return
    found = TABLE.find("GET", f"v1/{encoded}/tables/{encoded}")
    assert found is not None
    assert found[1] == {"prefix": name, "table": name}


def test_bytes_that_are_no_text_are_refused() -> None:
    with pytest.raises(UnicodeDecodeError):
        TABLE.find("GET", "v1/p/tables/%ff")


def test_two_routes_of_one_path_are_refused() -> None:
    with pytest.raises(ValueError, match="two routes"):
        RouteTable([_route("GET", "a/{x}", "one"), _route("GET", "a/{y}", "two")])
