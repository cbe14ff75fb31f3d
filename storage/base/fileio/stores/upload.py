"""An object that is sent while it is written: by one put where it is small, else in parts.

A put is repeated as a whole, and so is the beginning of an upload in parts, as long as its first part is still held.
The end of an upload carries a word of its own among the object's metadata: when the answer to it got lost, and the
store knows the upload no more, the object itself says whose it is.
"""

import io
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.stores import requests
from interbed.storage.base.fileio.stores.errors import is_missing_store, may_have_happened
from interbed.storage.base.fileio.stores.objects import WRITER, StoreObjects

PART_BYTES = 5 << 20
"""The parts of an upload; 10,000 of them, the most that S3 takes, are 50 GB."""

PARTS_AT_ONCE = 4


class Upload:
    """The bytes of one object, in their order; for one thread at a time. It raises what obstore raises."""

    def __init__(self, objects: StoreObjects, key: str) -> None:
        self._objects = objects
        self._key = key
        self._word = uuid.uuid4().hex
        self._held = bytearray()
        self._parts: Any = None

    def write(self, content: memoryview) -> None:
        """Take the bytes; a part is sent when it is full."""
        if self._parts is None and len(self._held) + len(content) <= PART_BYTES:
            self._held += content
            return
        if self._parts is not None:
            self._parts.write(content)
            return
        self._parts = self._objects.repeated(lambda: self._begun(content))
        self._held = bytearray()

    def close(self) -> None:
        """Send the rest and let the object appear."""
        from obstore.exceptions import BaseError

        if self._parts is None:
            self._objects.put(self._key, bytes(self._held))
            return
        try:
            self._parts.close()
        except (BaseError, OSError) as error:
            ended = isinstance(error, FileNotFoundError) and not is_missing_store(error)
            if not ended and not may_have_happened(error):
                raise
            if self._is_there():
                return
            if ended:
                raise StorageAccessError(
                    f"Can't write {self._objects.settings.location}/{self._key}: the store has ended the upload too "
                    "early; write it again."
                ) from None
            raise

    def abort(self) -> None:
        """End without an object."""
        self._held = bytearray()
        if self._parts is not None:
            _give_up(self._parts)

    def _begun(self, more: memoryview) -> Any:
        from obstore.exceptions import BaseError

        parts = requests.open_writer(
            self._objects.store,
            self._key,
            attributes={WRITER: self._word},
            buffer_size=PART_BYTES,
            max_concurrency=PARTS_AT_ONCE,
        )
        try:
            parts.write(bytes(self._held))
            parts.write(more)
        except BaseException:
            with suppress(OSError, BaseError):
                _give_up(parts)
            raise
        return parts

    def _is_there(self) -> bool:
        try:
            return self._objects.attribute(self._key, WRITER) == self._word
        except FileNotFoundError:
            return False


class UploadedFile(io.RawIOBase):
    """A file that is there, whole, once it is closed; after an error in its `with`, or if it is left open, it never is.

    `call` runs one step of the upload and translates its errors.
    """

    def __init__(self, upload: Upload, call: Callable[[Callable[[], Any]], Any]) -> None:
        self._upload = upload
        self._call = call
        self._written = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        """Take the bytes; a part is sent when it is full."""
        if self.closed:
            raise ValueError("The file is closed.")
        view = memoryview(content)
        flat = view if view.ndim == 1 and view.format == "B" else view.cast("B")
        if len(flat):
            self._call(lambda: self._upload.write(flat))
            self._written += len(flat)
        return len(flat)

    def close(self) -> None:
        """Send the rest and let the file appear."""
        if self.closed:
            return
        try:
            self._call(self._upload.close)
        except BaseException:
            self.abort()
            raise
        super().close()

    def abort(self) -> None:
        """End the upload without a file."""
        if self.closed:
            return
        super().close()
        # Whatever the store says to it, the error that led here is the one to report.
        with suppress(OSError):
            self._call(self._upload.abort)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # io would close it, and half a file would appear.
        if not self.closed:
            self.abort()


def _give_up(parts: Any) -> None:
    parts.__exit__(InterruptedError, InterruptedError("the upload was given up"), None)
