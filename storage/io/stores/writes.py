"""Writes of objects: uploads in parts, and exclusive puts, which never overwrite an object.

A small object is written by one put, a large one in parts. A put is repeated as a whole, and so is the beginning of an
upload in parts, while its first part is still in memory. An exclusive put has the condition
`If-None-Match: *` in S3 and Azure, `x-goog-if-generation-match: 0` in Google's store. Each exclusive put and the end of
each upload have a unique word in the metadata of the object: when a response is lost, the word shows which writer
created the object.

AWS, Google and Azure guarantee that they honour the condition. Other services with S3's protocol may refuse it, or
ignore it and overwrite. Each process probes a bucket once by two puts of one new object. The probe can't show that a
service checks first and writes in a second step; such a service needs the option `s3.conditional-put`.
"""

import io
import logging
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.stores import requests
from interbed.storage.io.stores.objects import WRITER, StoreObjects
from interbed.storage.io.stores.requests import (
    is_expired,
    is_missing_store,
    is_not_implemented,
    may_have_happened,
    status_of,
)

_log = logging.getLogger(__name__)

_honoured: dict[tuple[str, str], bool] = {}
"""Endpoint and bucket -> whether conditions are honoured there, as far as this process has probed them."""
_probing = threading.Lock()


class ExclusivePuts:
    """Exclusive puts of one bucket; threads may share it.

    They use a client without retries: after a hidden retry it would not be known which writer created the object.
    """

    def __init__(self, objects: StoreObjects) -> None:
        settings = objects.settings
        self._objects = objects
        self._key = (settings.endpoint or "", settings.bucket)
        self._known = settings.honours_conditions
        self._backoff = settings.limits.backoff

    def are_honoured(self, directory: str, prefix: str) -> bool:
        """Return whether the object store honours the condition; it is probed once by objects in the directory.

        Raises StorageAccessError where nothing can be written there. `prefix` and a key are a path for messages.
        """
        if self._known is not None:
            return self._known
        with _probing:
            known = _honoured.get(self._key)
            if known is None:
                known = _honoured[self._key] = self._probe(directory, prefix)
                if not known:
                    _log.warning(
                        "%s ignores the condition of a put that the object does not exist (If-None-Match: *): two "
                        "commits at once could overwrite each other, so they need a catalog lock there.",
                        "/".join(filter(None, self._key)),
                    )
            return known

    def put(self, key: str, content: bytes, path: str) -> bool:
        """Create the object; return False when another writer created it.

        After an error other than a refusal the request is repeated, and then the object decides. Raises
        StorageAccessError.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        word, unclear, renewed = uuid.uuid4().hex, False, False
        retries = self._backoff.start(f"creating {path}", _log)
        while True:
            last = retries.is_exhausted
            reason: Exception
            used = self._objects.store
            try:
                requests.put(self._objects.once, key, content, mode="create", attributes={WRITER: word})
                return True
            except AlreadyExistsError as error:
                reason = error
                mine = self._is_mine(key, word, content if unclear else None, path, error)
                if mine is not None:
                    return mine
                # No object exists. S3 answers 409 to simultaneous requests, of which none may have succeeded.
                if status_of(error) != 409 or last:
                    if unclear:
                        raise self._error("create", path, error) from None
                    return False
            except (BaseError, OSError, ValueError) as error:
                if is_expired(error) and not renewed and self._objects.renew(used):
                    renewed = True
                    continue
                if not may_have_happened(error):
                    refused = self._error("create", path, error)
                    # It is not known what came of an earlier attempt.
                    raise (StorageAccessError(str(refused)) if unclear else refused) from None
                if last:
                    mine = self._is_mine(key, word, content, path, error)
                    if mine is not None:
                        return mine
                    # The object may still appear, so the caller has to treat the state as unknown.
                    raise self._error("create", path, error) from None
                unclear, reason = True, error
            # False only when the time ran out just now: the next attempt is the last one then.
            retries.pause(self._error("create", path, reason))

    def _error(self, action: str, path: str, error: BaseException) -> StorageAccessError:
        return self._objects.error(action, path, error)

    def _is_mine(self, key: str, word: str, content: bytes | None, path: str, error: Exception) -> bool | None:
        """Return whether this call created the object, also when its put was carried out twice; None without an object.

        If the service dropped the metadata, the content decides, where it is given. Raises the error as
        StorageAccessError when the object can't be read.
        """
        from obstore.exceptions import BaseError

        try:
            theirs = self._objects.attribute(key, WRITER)
            return theirs == word if theirs is not None or content is None else self._objects.read(key) == content
        except FileNotFoundError as missing:
            if is_missing_store(missing):
                raise self._error("create", path, error) from None
            return None
        except (BaseError, OSError):
            # Not an error that `changed_nothing`.
            raise StorageAccessError(str(self._error("create", path, error))) from None

    def _probe(self, directory: str, prefix: str) -> bool:
        retries = replace(self._backoff, timeout_seconds=None).start(f"probing {prefix}", _log)
        while True:
            try:
                return self._probe_once(directory, prefix)
            except StorageAccessError as error:
                # The outcome of the put is not known; probe again with another object.
                is_unclear = error.__context__ is not None and may_have_happened(error.__context__)
                if not is_unclear or not retries.pause(error):
                    raise

    def _probe_once(self, directory: str, prefix: str) -> bool:
        from obstore.exceptions import AlreadyExistsError, BaseError

        key = f"{directory}/.exclusive-{uuid.uuid4()}.tmp".lstrip("/")
        path = f"{prefix}{key}"
        try:
            requests.put(self._objects.once, key, b"1", mode="create")
            try:
                requests.put(self._objects.once, key, b"2", mode="create")
            except AlreadyExistsError:
                return True
            return False
        except AlreadyExistsError:
            # The service refuses even a new object.
            return False
        except (BaseError, OSError, ValueError) as error:
            if is_not_implemented(error):
                return False
            raise self._error("try exclusive creation by", path, error) from None
        finally:
            try:
                self._objects.remove([key])
            except (BaseError, OSError) as error:
                _log.debug("Left %s: %s", path, self._error("delete", path, error))


PART_BYTES = 5 << 20
"""Size of the parts of an upload; 10,000 parts, the most that S3 allows, are 50 GB."""

PARTS_AT_ONCE = 4


class Upload:
    """Upload of one object, in the order of its bytes; for one thread at a time. Raises the errors of obstore."""

    def __init__(self, objects: StoreObjects, key: str) -> None:
        self._objects = objects
        self._key = key
        self._word = uuid.uuid4().hex
        self._held = bytearray()
        self._parts: Any = None

    def write(self, content: memoryview) -> None:
        """Write the bytes; a part is sent when it is full."""
        if self._parts is None and len(self._held) + len(content) <= PART_BYTES:
            self._held += content
            return
        if self._parts is not None:
            self._parts.write(content)
            return
        self._parts = self._objects.repeated(lambda: self._begun(content))
        self._held = bytearray()

    def close(self) -> None:
        """Send the remaining bytes and create the object."""
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
        """End the upload without creating an object."""
        self._held = bytearray()
        if self._parts is not None:
            _abort(self._parts)

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
                _abort(parts)
            raise
        return parts

    def _is_there(self) -> bool:
        try:
            return self._objects.attribute(self._key, WRITER) == self._word
        except FileNotFoundError:
            return False


class UploadedFile(io.RawIOBase):
    """Output whose file appears as a whole when it is closed, and never after an error in its `with` block.

    An output that is not closed creates no file. `call` runs one step of the upload and translates its errors.
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
        """Write the bytes; a part is sent when it is full."""
        if self.closed:
            raise ValueError("The file is closed.")
        view = memoryview(content)
        flat = view if view.ndim == 1 and view.format == "B" else view.cast("B")
        if len(flat):
            self._call(lambda: self._upload.write(flat))
            self._written += len(flat)
        return len(flat)

    def close(self) -> None:
        """Send the remaining bytes and create the file."""
        if self.closed:
            return
        try:
            self._call(self._upload.close)
        except BaseException:
            self.abort()
            raise
        super().close()

    def abort(self) -> None:
        """End the upload without creating a file."""
        if self.closed:
            return
        super().close()
        # The error that led here is the one to report, not another one of the abort.
        with suppress(OSError):
            self._call(self._upload.abort)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # io would close it, and an incomplete file would appear.
        if not self.closed:
            self.abort()


def _abort(parts: Any) -> None:
    parts.__exit__(InterruptedError, InterruptedError("the upload was aborted"), None)
