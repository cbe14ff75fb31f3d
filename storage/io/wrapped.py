"""A FileIO in front of another one, for those that change some of what it does."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from interbed.storage.io.api import FileIO, FileStatus

if TYPE_CHECKING:
    import pyarrow as pa


class WrappedFileIO:
    """Does everything as the `inner` one; see FileIO."""

    def __init__(self, inner: FileIO) -> None:
        self.inner = inner
        self.scheme = inner.scheme
        self.capabilities = inner.capabilities
        # For `read_ahead_of`, which knows what it means.
        self.read_ahead: Any = getattr(inner, "read_ahead", None)

    @property
    def exclusive_create(self) -> bool:
        """See FileIO."""
        return self.inner.exclusive_create

    def read_bytes(self, path: str) -> bytes:
        """See FileIO."""
        return self.inner.read_bytes(path)

    def open_input(self, path: str) -> "pa.NativeFile":
        """See FileIO."""
        return self.inner.open_input(path)

    def open_output(self, path: str) -> Any:
        """See FileIO."""
        return self.inner.open_output(path)

    def create_exclusive(self, path: str, content: bytes) -> bool:
        """See FileIO."""
        return self.inner.create_exclusive(path, content)

    def overwrite(self, path: str, content: bytes, *, durable: bool = True) -> None:
        """See FileIO."""
        self.inner.overwrite(path, content, durable=durable)

    def sync(self, paths: Iterable[str]) -> None:
        """See FileIO."""
        self.inner.sync(paths)

    def exists(self, path: str) -> bool:
        """See FileIO."""
        return self.inner.exists(path)

    def size(self, path: str) -> int:
        """See FileIO."""
        return self.inner.size(path)

    def list(self, path: str) -> list[FileStatus]:
        """See FileIO."""
        return self.inner.list(path)

    def make_directories(self, path: str) -> None:
        """See FileIO."""
        self.inner.make_directories(path)

    def delete(self, path: str, *, recursive: bool = False) -> bool:
        """See FileIO."""
        return self.inner.delete(path, recursive=recursive)

    def delete_quietly(self, paths: Iterable[str]) -> None:
        """See FileIO."""
        self.inner.delete_quietly(paths)

    def rename(self, source: str, target: str) -> bool:
        """See FileIO."""
        return self.inner.rename(source, target)
