"""Operations of Paimon's document that this server refuses by name, with status 501.

Tokens for the data of a table, and rights on its rows and columns, need identities of clients, which the server does not
have.
"""

from functools import partial

from interbed.catalog.server.rest.interface import (
    AccessPrivilege,
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.rest.paimon.refusals import unsupported
from interbed.catalog.server.rest.paimon.tables import TABLE

_NO_TOKENS = "Tokens for the data of tables are not supported; set 'data-token.enabled' to false, and give the "
_NO_TOKENS += "credentials of the file system to the client."
_NO_RIGHTS = "Rights on rows and columns are not supported; set 'query-auth.enabled' of the table to false."

_REFUSED = (
    ("GET", f"{TABLE}/token", "getTableToken", ObjectKind.TABLE, _NO_TOKENS),
    ("POST", f"{TABLE}/auth", "authTableQuery", ObjectKind.TABLE, _NO_RIGHTS),
    (
        "POST",
        f"{TABLE}/rollback-schema",
        "rollbackSchema",
        ObjectKind.TABLE,
        "Rollbacks of schemas are not supported; change the schema instead.",
    ),
    (
        "POST",
        f"{TABLE}/replace",
        "replaceTable",
        ObjectKind.TABLE,
        "Replacing a table is not supported; drop it, and create it again.",
    ),
)


class UnsupportedRoutes:
    """The routes that are refused."""

    def routes(self) -> list[RestRoute]:
        """Return the routes of refused operations."""
        return [
            route(method, template, operation, AccessPrivilege.USAGE, kind, partial(_refuse, reason))
            for method, template, operation, kind, reason in _REFUSED
        ]


def _refuse(reason: str, request: RestRequest) -> RestResponse:
    raise unsupported(reason)
