"""The database, the services and the authorizer of a server, with the administration of its grants, by its settings."""

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.console_sessions import ConsoleSessions
from interbed.catalog.server.auth.principals import Mechanism
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import Authorizer
from interbed.catalog.server.service.access.policies import PolicyAdministration
from interbed.catalog.server.service.directories.locations import SCHEMES, LocationRules
from interbed.catalog.server.service.directories.remote_files import REMOTE_FILES
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.history.entries import ChangeOrigin, HistoryPolicy
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.service import ConfigValues, Metastore
from interbed.catalog.server.service.undrop.drops import DIRECTORY_NAME, Trash
from interbed.catalog.server.service.warehouse import child, normalized_location
from interbed.catalog.server.setting_kinds import listed, mechanisms_of
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.shown_settings import client_values
from interbed.catalog.server.thrift.calls.grants import GrantHandler
from interbed.catalog.server.thrift.edge.call import (
    current_method,
    current_operation,
    current_request,
    current_session,
    present_caller,
)
from interbed.storage.base.shown_text import escaped

if TYPE_CHECKING:
    from starlette.routing import Mount

    from interbed.catalog.server.http.application import HttpAnswers


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


def console_for(
    settings: ServerSettings,
    store: SqlRepository,
    metastore: Metastore,
    answers: "HttpAnswers",
    authentication: Authentication | None,
) -> "Mount | None":
    """Return the console of a server, None if it has none."""
    if settings.console == "off":
        return None
    # Only servers of HTTP load it.
    from interbed.catalog.server.console.mounted import console_mount

    takes_tokens = Mechanism.TOKEN in mechanisms_of(settings.authentication)
    return console_mount(
        metastore,
        answers,
        is_secure=settings.tls_certificate is not None,
        authentication=authentication,
        sessions=ConsoleSessions(store) if takes_tokens else None,
    )


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


UNDROP_SECONDS = 7 * 86400.0
"""How long dropped objects can be put back by default."""


@contextmanager
def open_metastore(
    settings: ServerSettings, origin: Callable[[], ChangeOrigin] | None = None
) -> Iterator[tuple[SqlRepository, Metastore]]:
    """Yield the database as it is, and the services of a server with these settings. `origin` returns that of a change;
    by default it is the request that the thread serves. MetastoreError.
    """
    REMOTE_FILES.configure(seconds=settings.store_seconds)
    recorded = (origin or _origin) if settings.history_seconds else None
    store = SqlRepository(settings.db, history=HistoryPolicy(origin=recorded))
    try:
        yield (
            store,
            Metastore(
                store,
                normalized_location(settings.warehouse),
                lease_seconds=settings.lock_lease_seconds,
                disconnect_seconds=settings.lock_disconnect_seconds,
                lock_components_max=settings.lock_components_max,
                config=ConfigValues(client_values(settings)),
                trash=trash_for(settings),
                partitions_max=settings.limit_partition_request if settings.limit_partition_request >= 0 else None,
                keeps_transactional=settings.transactional_tables == "keep",
                rules=rules_for(settings),
                deletion_roots=listed(settings.deletion_roots),
                protected=protected_by(settings),
                undrop_seconds=undrop_seconds_of(settings),
                user=_user,
                access=AccessGuard(authorizer_for(settings, store), present_caller),
                trusted=listed(settings.access_trusted),
            ),
        )
    finally:
        store.close()


def rules_for(settings: ServerSettings) -> LocationRules:
    """Return the rules for locations that the server accepts."""
    allowed = listed(settings.allowed_locations)
    return LocationRules(
        listed(settings.allowed_schemes) or SCHEMES,
        [normalized_location(settings.warehouse), *allowed] if allowed else (),
    )


def protected_by(settings: ServerSettings) -> list[str]:
    """Return files and directories of the server besides its database, which no deletion may include."""
    files = (settings.tls_certificate, settings.tls_key, settings.tls_client_ca, settings.optimizer_groups)
    found = [str(path) for path in (settings.audit_log, *files) if path is not None and str(path) != "-"]
    # The target of the log, if that is a file.
    found.extend(os.readlink(link) for link in ("/proc/self/fd/1", "/proc/self/fd/2") if os.path.exists(link))
    return [*(path for path in found if not path.startswith("pipe:")), tempfile.gettempdir(), sys.prefix]


def undrop_seconds_of(settings: ServerSettings) -> float:
    """Return how long dropped objects can be put back. A server with a trash keeps to it unless both are set."""
    if settings.undrop_seconds is not None:
        return settings.undrop_seconds
    return 0.0 if settings.trash_seconds else UNDROP_SECONDS


def _origin() -> ChangeOrigin:
    """Return the origin of the present change: the client's request, or the server itself."""
    session = current_session.get()
    if session is None:
        return ChangeOrigin(interface="server")
    method, request_id = current_operation.get() or (current_method.get() or "", current_request.get())
    interface, _, operation = method.rpartition(".")
    user = session.user
    if user is None and session.certificate is not None:
        user = session.certificate.subject
    return ChangeOrigin(
        principal=None if user is None else shortened(escaped(user)),
        interface=interface or "thrift",
        operation=operation or None,
        request_id=request_id,
    )


def _user() -> str | None:
    session = current_session.get()
    return None if session is None else session.user


def trash_for(settings: ServerSettings) -> Trash | None:
    """Return the trash, None if it is off."""
    if not settings.trash_seconds:
        return None
    root = settings.trash_directory or child(normalized_location(settings.warehouse), DIRECTORY_NAME)
    return Trash(normalized_location(root), keep_seconds=settings.trash_seconds)
