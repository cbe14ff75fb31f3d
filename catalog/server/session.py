"""What a client has set for its connection (`setMetaConf`), where the calls find it."""

from contextvars import ContextVar

session_settings: ContextVar[dict[str, str] | None] = ContextVar("session_settings", default=None)
"""The settings of the connection that this thread serves; None outside of one."""
