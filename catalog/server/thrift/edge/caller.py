"""The caller that a thread serves, as authorizers know it."""

from interbed.catalog.server.auth.principals import Principal
from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.service.errors import AccessDeniedError
from interbed.catalog.server.thrift.edge.call import ClientSession, current_session


def present_caller() -> Caller | None:
    """Return the caller of the present call; None for the process itself, which serves no client, and for its
    optimizer. AccessDeniedError for a client without a principal.
    """
    session = current_session.get()
    return None if session is None else caller_of(session)


def present_principal() -> tuple[Principal, str] | None:
    """Return the principal of the present call and its address; None for a client that is not authenticated."""
    session = current_session.get()
    return None if session is None or session.principal is None else (session.principal, session.peer)


def caller_of(session: ClientSession) -> Caller | None:
    """Return the caller of a session; None for the server's own optimizer. AccessDeniedError for a client without a
    principal.
    """
    if session.principal is None:
        raise AccessDeniedError(
            "the request is not authenticated, and this server decides by principals what callers may do"
        )
    return session.caller
