"""A call as the server reports it to its observers: metrics, the slow-call log, the audit log."""

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from interbed.catalog.server.auth.principals import Mechanism, Principal
from interbed.catalog.server.service.access.authorizer import Caller
from interbed.catalog.server.session import ClientLink


class CallOutcome(StrEnum):
    """Result kind of a call."""

    OK = "ok"
    REFUSED = "refused"
    """Answered with an exception of the interface: no such table, already exists."""
    FAILED = "failed"
    """Answered with an internal error."""
    UNKNOWN = "unknown"
    """A method that is not served."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSession:
    """The client of a connection. `user` is the name that set_ugi sent, None before; it is not authenticated.
    `certificate` is the subject of the client's verified TLS certificate, and `common_names` the names in it.
    `principal` is the authenticated client, and `user` is its name then; None where the server serves every client. A
    client with a `refusal` gets it in answer to every call. `settings` are those that setMetaConf has set; they end
    with the connection. `link` is the connection as the calls know it. `caller` is the principal as authorizers know
    it; None without one, and for the server's own optimizer.
    """

    peer: str
    user: str | None = None
    certificate: str | None = None
    common_names: tuple[str, ...] | None = None
    principal: Principal | None = None
    refusal: str | None = None
    settings: dict[str, str] = field(default_factory=dict, compare=False)
    link: ClientLink = field(default_factory=ClientLink, compare=False)
    caller: Caller | None = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # Made once: cached answers are found by it.
        caller = None
        if self.principal is not None and self.principal.mechanism is not Mechanism.OPTIMIZER:
            caller = Caller(name=self.principal.name, groups=self.principal.groups)
        object.__setattr__(self, "caller", caller)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that has ended. `arguments` is the decoded Thrift structure, or the parts of a REST path by their names;
    None where nothing was decoded. `is_change` is None where the name of the method decides.
    """

    request_id: str
    method: str
    session: ClientSession
    seconds: float
    outcome: CallOutcome
    error: str | None = None
    arguments: Any = None
    is_change: bool | None = None


class CallObserver(Protocol):
    """Observer of every call, notified on the thread that served it; must be quick and must not raise."""

    def observed(self, call: Call) -> None: ...


def notify(observers: Iterable[CallObserver], call: Call) -> None:
    """Notify all observers of a call."""
    for observer in observers:
        observer.observed(call)


current_request: ContextVar[str | None] = ContextVar("current_request", default=None)
"""The id of the request that this thread serves, for log records."""

current_method: ContextVar[str | None] = ContextVar("current_method", default=None)
"""The method that this thread serves, for log records."""

current_operation: ContextVar[tuple[str, str] | None] = ContextVar("current_operation", default=None)
"""Method and id of the REST request that this thread serves. Calls of Hive's interface may be made for it, with methods
and ids of their own.
"""

current_session: ContextVar[ClientSession | None] = ContextVar("current_session", default=None)
"""The session that this thread serves, for log records. A thread serves one connection: it is set at its beginning and
by set_ugi.
"""
