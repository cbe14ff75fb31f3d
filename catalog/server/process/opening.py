"""The database and the services of a server, opened by its settings."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.authorizing import authorizer_for
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.directories.locations import SCHEMES, LocationRules
from interbed.catalog.server.service.directories.remote_files import REMOTE_FILES
from interbed.catalog.server.service.history.entries import ChangeOrigin, HistoryPolicy
from interbed.catalog.server.service.names import shortened
from interbed.catalog.server.service.service import ConfigValues, Metastore
from interbed.catalog.server.service.trash import DIRECTORY_NAME, Trash
from interbed.catalog.server.service.warehouse import child, normalized_location
from interbed.catalog.server.setting_kinds import listed
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.shown_settings import client_values
from interbed.catalog.server.thrift.edge.call import (
    current_method,
    current_operation,
    current_request,
    current_session,
)
from interbed.catalog.server.thrift.edge.caller import present_caller
from interbed.storage.base.shown_text import escaped

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
    user = session.user if session.user is not None else session.certificate
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
