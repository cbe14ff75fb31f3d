"""The lock that a catalog may hold while a snapshot is created."""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, runtime_checkable


@runtime_checkable
class CatalogLock(Protocol):
    """Excludes the other writers of one table; held only while a snapshot is checked and created."""

    def hold(self) -> AbstractContextManager[None]:
        """The lock as a context; acquiring waits a bounded time and raises CommitError when that is over."""
        ...


class NoLock:
    """No lock: the file system's exclusive creation is enough."""

    def hold(self) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()
