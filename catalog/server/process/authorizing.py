"""The authorizer of a server and the administration of its grants, assembled from the settings."""

import importlib
from collections.abc import Callable

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.authorizer import Authorizer, Caller
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.errors import AccessDeniedError, MetastoreError
from interbed.catalog.server.setting_kinds import listed
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.thrift.edge.call import current_session


def authorizer_for(settings: ServerSettings, store: SqlRepository) -> Authorizer | None:
    """Return the authorizer of a server, None if every client may do everything. MetastoreError for a class that
    cannot be used.
    """
    if settings.access_authorizer == "none":
        return None
    if settings.access_authorizer == "builtin":
        return BuiltinAuthorizer(store, admins=listed(settings.access_admins))
    return _own_authorizer(settings.access_authorizer)


def administration_for(
    settings: ServerSettings, store: SqlRepository, authorizer: Authorizer | None
) -> AccessAdministration | None:
    """Return the administration of roles and grants, None if the authorizer has none."""
    if not isinstance(authorizer, BuiltinAuthorizer):
        return None
    return AccessAdministration(store, authorizer, admins=listed(settings.access_admins))


def calling() -> Caller | None:
    """Return the caller of the present call, None for the process itself. AccessDeniedError for a client without a
    principal.
    """
    session = current_session.get()
    if session is None:
        return None
    if session.principal is None:
        raise AccessDeniedError("the call has no authenticated principal, so that it is refused")
    return Caller(session.principal.name, session.principal.groups)


def _own_authorizer(name: str) -> Authorizer:
    """Return an instance of a class of the user's."""
    module, _, class_name = name.partition(":")
    try:
        made: Callable[[], Authorizer] = getattr(importlib.import_module(module), class_name)
    except ImportError as error:
        raise MetastoreError(f"access_authorizer: the module {module} cannot be imported: {error}") from error
    except AttributeError as error:
        raise MetastoreError(f"access_authorizer: the module {module} has no class {class_name}") from error
    try:
        found = made()
    except TypeError as error:
        raise MetastoreError(f"access_authorizer: {name} cannot be made without arguments: {error}") from error
    if not callable(getattr(found, "decide", None)):
        raise MetastoreError(f"access_authorizer: {name} has no method `decide`")
    return found
