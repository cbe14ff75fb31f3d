"""The authorizer of a server and the administration of its grants, assembled from the settings."""

import importlib
from collections.abc import Callable

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.authorizer import Authorizer
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.policy_administration import PolicyAdministration
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.setting_kinds import listed
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.thrift.calls.grants import GrantHandler
from interbed.catalog.server.thrift.edge.caller import present_caller


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


def policies_for(store: SqlRepository, authorizer: Authorizer | None) -> PolicyAdministration | None:
    """Return the administration of row filters and column masks, None if the authorizer keeps no roles and grants."""
    return PolicyAdministration(store, authorizer) if isinstance(authorizer, BuiltinAuthorizer) else None


def grant_handler_for(settings: ServerSettings, store: SqlRepository, metastore: Metastore) -> GrantHandler | None:
    """Return the handler of the calls about roles and grants, None if there are none."""
    administration = administration_for(settings, store, metastore.access.authorizer)
    return None if administration is None else GrantHandler(administration, present_caller)


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
