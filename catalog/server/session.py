"""State of the connection that a call serves: the settings of its client (`setMetaConf`), whether it is open, and
whether its client may be answered later.
"""

from collections.abc import Callable
from contextvars import ContextVar

session_settings: ContextVar[dict[str, str] | None] = ContextVar("session_settings", default=None)
"""The settings of the connection that this thread serves; None outside of one."""


class ClientLink:
    """An open connection of a client.

    `speaks_for_client` is False where a client may have a connection for each request (HTTP): its end does not mean
    that the client has ended. `is_in_process` is True where the client is this process itself, without a connection:
    it ends with the process. `waits_until` is the time on the monotonic clock until when the served request may wait.
    """

    __slots__ = ("is_closed", "is_in_process", "speaks_for_client", "waits_until")

    def __init__(self, *, speaks_for_client: bool = True, is_in_process: bool = False) -> None:
        self.speaks_for_client = speaks_for_client and not is_in_process
        self.is_in_process = is_in_process
        self.is_closed = False
        self.waits_until: float | None = None


class AnswerLaterError(Exception):
    """The request is to be served again later: `start` is called with a function that does so, from any thread.

    A call may raise it where `may_answer_later` is set, before it has made a change that must not be made twice. No
    thread is occupied meanwhile.
    """

    def __init__(self, start: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("the request is served again later")
        self.start = start


current_link: ContextVar[ClientLink | None] = ContextVar("current_link", default=None)
"""The connection that this thread serves; None outside of one."""

current_catalog: ContextVar[str] = ContextVar("current_catalog", default="hive")
"""The catalog of names that a call gives without one."""

may_answer_later: ContextVar[bool] = ContextVar("may_answer_later", default=False)
"""Whether the call that this thread serves may raise AnswerLaterError."""
