"""A catalog server on SQLite or PostgreSQL, assembled from its settings. The command is in command.py."""

import importlib
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from interbed.catalog.server.auth.attempts import AttemptMemory, SharedMemory
from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.auth.issued_tokens import OptimizerIdentity
from interbed.catalog.server.auth.principals import Mechanism
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.engine import parse_database_url
from interbed.catalog.server.database.session import SqlRepository, open_generation_reader
from interbed.catalog.server.ops.metrics import CacheFigures, PoolFigures, ServerMetrics
from interbed.catalog.server.ops.observers import ServerOperations, metrics_for, observers_for
from interbed.catalog.server.ops.vital_signs import OwnSigns, SharedBoard, WorkerPlace
from interbed.catalog.server.process.authenticating import (
    admission,
    authentication_for,
    certificates_for,
    credentials_for,
    delegation_for,
    delegation_handler_for,
    identity_for,
    identity_is_needed,
    impersonation_for,
    port_authentication,
    signing_for,
    with_delegation,
)
from interbed.catalog.server.process.opening import grant_handler_for, open_metastore
from interbed.catalog.server.process.workers import CLOSED, END_SOON, READY, Supervisor, received
from interbed.catalog.server.service.directories.remote_files import REMOTE_FILES
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.service.warehouse import normalized_location
from interbed.catalog.server.setting_kinds import listed, mechanisms_of, named_locations
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.threads import ThreadDeaths
from interbed.catalog.server.thrift.calls.locks import LockClients
from interbed.catalog.server.thrift.calls.service import all_handlers
from interbed.catalog.server.thrift.edge.cache import AnswerCache
from interbed.catalog.server.thrift.edge.call import (
    CallObserver,
)
from interbed.catalog.server.thrift.edge.codec import codec_named
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher
from interbed.catalog.server.thrift.edge.loop import EventLoop
from interbed.catalog.server.thrift.edge.pool import EdgeLimits, RowFigures
from interbed.catalog.server.thrift.edge.sockets import AnyService, HttpService, Service, server_context
from interbed.catalog.server.thrift.edge.transport import BufferedFraming, FramedFraming, listen

if TYPE_CHECKING:
    from interbed.catalog.server.rest.rows.streams import RowStreams

READY_LINE = "interbed catalog server listening on thrift://{host}:{port}"
"""The first line of standard output, printed when clients may connect."""

HTTP_LINE = "HTTP interfaces at {scheme}://{host}:{port}"
"""The second line, if there is a port for HTTP."""


class Server(Protocol):
    """A running catalog server."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that clients connect to."""
        ...

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port for HTTP, None if it is not served."""
        ...

    def stop(self) -> None:
        """Stop it soon. Safe to call from a signal handler, and more than once."""
        ...


def run(settings: ServerSettings, *, on_ready: Callable[[Server], None] = lambda server: None) -> None:
    """Serve until `Server.stop` is called; `on_ready` gets the server. Migrates the database first.

    MetastoreError if the database or the warehouse cannot be used, OSError if an address or a certificate cannot be
    used.
    """
    if settings.workers == 1:
        with _prepared(settings) as (store, metastore):
            alone = _OneProcess(settings, store, metastore)
            on_ready(alone)
            alone.serve()
        return
    with ExitStack() as stack:
        with _prepared(settings) as (store, _):
            # Processes must not share connections to a database: each opens its own. Settings that cannot be used are
            # reported here.
            port_authentication(settings, authentication_for(settings, store), None)
        directory = None
        if settings.health_port is not None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="interbed-metrics-")))
        metrics = metrics_for(settings, directory)
        services = services_for(settings)
        listeners = [listen(host, port) for host, port, _ in services]
        identity = identity_for(settings)
        # Without an identity the optimizer is a client of the first port.
        address: tuple[str, int] = listeners[0 if identity is None else -1].getsockname()[:2]
        supervisor = Supervisor(
            listeners,
            partial(_serve_worker, settings, [each for _, _, each in services], metrics, identity, SharedMemory()),
            count=settings.workers,
            connections_max=settings.connections_max,
            companion=partial(_operate, settings, metrics, address, identity),
            has_http=settings.http_port is not None,
            on_death=lambda pid: None if metrics is None else metrics.process_died(pid),
        )
        supervisor.start()
        on_ready(supervisor)
        supervisor.serve()


@contextmanager
def _prepared(settings: ServerSettings) -> Iterator[tuple[SqlRepository, Metastore]]:
    """Yield the database, migrated and with the objects that every metastore contains."""
    with open_metastore(settings) as (store, metastore):
        schema.upgrade(store.engine)
        metastore.databases.bootstrap()
        yield store, metastore


def dispatcher_for(
    metastore: Metastore,
    observers: Sequence[CallObserver] = (),
    lock_clients: LockClients | None = None,
    grants: object | None = None,
    delegation: object | None = None,
) -> Dispatcher:
    """Return the dispatcher of all methods that the server answers. `grants` is the handler of roles and grants, and
    `delegation` that of delegation tokens, None where there are none.
    """
    return Dispatcher(all_handlers(metastore, lock_clients, grants, delegation), observers)


def lock_clients_for(settings: ServerSettings, metastore: Metastore, deaths: ThreadDeaths) -> LockClients:
    """Return the clients of locks in a process that serves; to be stopped after its loop."""
    # A waiting request renews its lease when it is served again.
    wait_seconds = min(settings.lock_wait_seconds, settings.lock_lease_seconds / 2)
    return LockClients(metastore.locks, wait_seconds=wait_seconds, deaths=deaths)


def services_for(settings: ServerSettings) -> list[tuple[str, int, AnyService]]:
    """Return host, port and protocol of each service. OSError if a certificate cannot be used."""
    tls = None
    mechanisms = mechanisms_of(settings.authentication)
    if settings.tls_certificate is not None:
        tls = server_context(
            settings.tls_certificate,
            settings.tls_key,
            settings.tls_client_ca,
            is_optional=len(mechanisms) > 1 and Mechanism.CERTIFICATE in mechanisms,
        )
    framing = partial(FramedFraming if settings.transport == "framed" else BufferedFraming, settings.message_bytes_max)
    thrift = Service(codec=codec_named(settings.protocol), framing=framing, tls=tls)
    services: list[tuple[str, int, AnyService]] = [(settings.host, settings.port, thrift)]
    if settings.http_port is not None:
        # Only servers of this port load it, and workers share what is loaded before they are forked.
        from interbed.catalog.server.http.thrift import thrift_server

        service = HttpService(make_server=partial(thrift_server, settings.http_path, tls))
        services.append((settings.host, settings.http_port, service))
    if identity_is_needed(settings):
        framing = partial(FramedFraming, settings.message_bytes_max)
        internal = Service(codec=codec_named("binary"), framing=framing, is_internal=True)
        services.append(("127.0.0.1", 0, internal))
    return services


def loop_for(
    settings: ServerSettings,
    store: SqlRepository,
    metastore: Metastore,
    metrics: ServerMetrics | None,
    *,
    services: Sequence[AnyService],
    listeners: Sequence[socket.socket] = (),
    on_closed: Callable[[], None] = lambda: None,
    on_tick: Callable[[float], None] = lambda wait_seconds: None,
    deaths: ThreadDeaths,
    lock_clients: LockClients,
    optimizer: OptimizerIdentity | None = None,
    attempts: AttemptMemory | None = None,
) -> EventLoop:
    """Return the loop of a process that serves, observed by the metrics. OSError if the audit log cannot be written.

    `attempts` is the memory of failed authentications that the workers share.
    """
    cache = AnswerCache(settings.cache_bytes, metastore.access) if settings.cache_bytes else None
    authentication = authentication_for(settings, store, attempts)
    delegation = delegation_for(settings, store)
    loop = EventLoop(
        dispatcher_for(
            metastore,
            observers_for(settings, metrics),
            lock_clients,
            grant_handler_for(settings, store, metastore),
            delegation_handler_for(delegation),
        ),
        connections_max=settings.connections_max,
        limits=EdgeLimits(
            message_seconds=settings.message_seconds,
            message_bytes_max=settings.message_bytes_max,
            partial_bytes_max=settings.partial_bytes_max,
            decoded_bytes_max=settings.decoded_bytes_max,
            reply_bytes_max=settings.reply_bytes_max,
        ),
        listeners=list(zip(listeners, services, strict=False)),
        cache=cache,
        generations=partial(open_generation_reader, parse_database_url(settings.db)),
        on_closed=on_closed,
        on_disconnect=lock_clients.closed,
        admit=admission(authentication),
        authentication=with_delegation(port_authentication(settings, authentication, optimizer), settings, delegation),
        on_tick=on_tick,
        deaths=deaths,
    )
    row_figures: Callable[[], RowFigures] | None = None
    for service in services:
        if isinstance(service, HttpService):
            # Only servers of this port load the REST interfaces.
            from interbed.catalog.server.http.application import HttpAnswers
            from interbed.catalog.server.process.opening import administration_for, console_for, policies_for
            from interbed.catalog.server.rest.iceberg.names import NamespaceMapping
            from interbed.catalog.server.rest.mounted import RestSettings, mounts
            from interbed.catalog.server.rest.rows.streams import RowLimits, RowStreams

            rows = RowStreams(
                RowLimits(
                    streams_max=settings.rows_streams_max,
                    seconds_max=settings.rows_seconds_max,
                    bytes_max=settings.rows_bytes_max,
                    memory_max=settings.rows_memory_max,
                )
            )
            row_figures = partial(_figures_of, rows)
            root = settings.iceberg_metadata_root
            rest = RestSettings(
                names=listed(settings.rest_interfaces),
                own_tables=settings.iceberg_own_tables == "on",
                metadata_root=None if root is None else normalized_location(root).rstrip("/"),
                warehouses={
                    name: normalized_location(location).rstrip("/")
                    for name, location in named_locations(settings.paimon_warehouses).items()
                },
                namespaces=NamespaceMapping(settings.iceberg_namespace_separator),
                credentials=credentials_for(settings, store, metastore.access, metastore.policies),
                signing=signing_for(settings, store, metastore.access, metastore.policies),
                administration=administration_for(settings, store, metastore.access.authorizer),
                policies=policies_for(store, metastore.access.authorizer),
                rows=rows,
            )
            answers = HttpAnswers(loop.shared, deaths)
            further = mounts(metastore, answers, rest)
            acting, certificates = impersonation_for(settings), certificates_for(settings, authentication)
            console = console_for(settings, store, metastore, answers, authentication)
            made = service.make_server(
                answers, loop.ended, deaths, further, authentication, acting, certificates, console
            )
            loop.serve_http(made)
    REMOTE_FILES.configure(seconds=settings.store_seconds, around=loop.waiting_outside)
    if metrics is not None:
        metrics.watch(
            connections=lambda: loop.connection_count,
            pool=lambda: PoolFigures(in_use=store.pool[0], idle=store.pool[1]),
            cache=None
            if cache is None
            else lambda: CacheFigures(hits=cache.hits, misses=cache.misses, size_bytes=cache.size),
            edge=lambda: loop.figures,
            stores=lambda: REMOTE_FILES.figures,
            rows=row_figures,
            deaths=deaths,
        )
    return loop


def _figures_of(rows: "RowStreams") -> RowFigures:
    return rows.figures


class _OneProcess:
    """A server in this process."""

    def __init__(self, settings: ServerSettings, store: SqlRepository, metastore: Metastore) -> None:
        metrics = metrics_for(settings, None)
        services = services_for(settings)
        listeners = [listen(host, port) for host, port, _ in services]
        self._addresses: list[tuple[str, int]] = [listener.getsockname()[:2] for listener in listeners]
        deaths = ThreadDeaths()
        identity = identity_for(settings)
        self._has_http = settings.http_port is not None
        self._lock_clients = lock_clients_for(settings, metastore, deaths)
        signs = OwnSigns()
        self._loop = loop_for(
            settings,
            store,
            metastore,
            metrics,
            services=[service for _, _, service in services],
            listeners=listeners,
            on_tick=signs.beat,
            deaths=deaths,
            lock_clients=self._lock_clients,
            optimizer=identity,
        )
        self._operating = ServerOperations(
            settings,
            store,
            metastore.locks,
            metrics,
            warehouse=normalized_location(settings.warehouse),
            trash=metastore.trash,
            dropped=metastore.dropped,
            guard=metastore.guard,
            delegation=DelegationTokenService(store),
            workers_problem=signs.problem,
            deaths=deaths,
            address=self._addresses[0 if identity is None else -1],
            optimizer=identity,
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that clients connect to."""
        return self._addresses[0]

    @property
    def http_address(self) -> tuple[str, int] | None:
        """Host and port for HTTP, None if it is not served."""
        return self._addresses[1] if self._has_http else None

    def serve(self) -> None:
        """Serve until it is stopped."""
        self._operating.start()
        try:
            self._loop.serve()
        finally:
            self._lock_clients.stop()
            self._operating.stop()

    def stop(self) -> None:
        """Stop serving as soon as possible."""
        self._operating.end_soon()
        self._loop.stop()


def _serve_worker(
    settings: ServerSettings,
    services: Sequence[AnyService],
    metrics: ServerMetrics | None,
    optimizer: OptimizerIdentity | None,
    attempts: AttemptMemory,
    link: socket.socket,
    place: WorkerPlace,
) -> None:
    """Run a worker process: serve the connections that arrive over the link until that ends."""

    def closed() -> None:
        with suppress(OSError):
            # The parent has ended: the loop notices that, too.
            link.send(CLOSED)

    with open_metastore(settings) as (store, metastore):
        deaths = ThreadDeaths(place)
        lock_clients = lock_clients_for(settings, metastore, deaths)
        loop = loop_for(
            settings,
            store,
            metastore,
            metrics,
            services=services,
            on_closed=closed,
            on_tick=place.beat,
            deaths=deaths,
            lock_clients=lock_clients,
            optimizer=optimizer,
            attempts=attempts,
        )

        def take() -> None:
            try:
                number, connected = received(link)
            except EOFError:
                loop.unwatch(link)
                loop.stop()
            else:
                loop.add(connected, services[number])

        loop.watch(link, take)
        link.send(READY)
        try:
            loop.serve()
        finally:
            lock_clients.stop()


def _operate(
    settings: ServerSettings,
    metrics: ServerMetrics | None,
    address: tuple[str, int],
    optimizer: OptimizerIdentity | None,
    link: socket.socket,
    board: SharedBoard,
) -> None:
    """Run the companion of the workers: health port, reaper, and the optimizer."""
    with open_metastore(settings) as (store, metastore):
        operating = ServerOperations(
            settings,
            store,
            metastore.locks,
            metrics,
            warehouse=normalized_location(settings.warehouse),
            trash=metastore.trash,
            dropped=metastore.dropped,
            guard=metastore.guard,
            delegation=DelegationTokenService(store),
            workers=lambda: board.serving,
            workers_problem=board.problem,
            address=address,
            optimizer=optimizer,
        )
        operating.start()
        link.send(READY)
        try:
            while said := link.recv(1):
                if said == END_SOON:
                    operating.end_soon()
        finally:
            operating.stop()


if __name__ == "__main__":
    # The command imports this module.
    importlib.import_module("interbed.catalog.server.process.command").server()
