"""Operations of Paimon's document that this server refuses by name, with status 501.

Tokens for the data of a table need identities of clients, which the server does not have.
"""

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


class UnsupportedRoutes:
    """The routes that are refused."""

    def routes(self) -> list[RestRoute]:
        """Return the routes of refused operations."""
        return [route("GET", f"{TABLE}/token", "getTableToken", AccessPrivilege.USAGE, ObjectKind.TABLE, _refuse_token)]


def _refuse_token(request: RestRequest) -> RestResponse:
    raise unsupported(
        "Tokens for the data of tables are not supported; set 'data-token.enabled' to false, and give the credentials "
        "of the file system to the client."
    )
