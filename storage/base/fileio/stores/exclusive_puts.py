"""Objects that are created and never overwritten, by puts with a condition.

`If-None-Match: *` in S3 and Azure, `x-goog-if-generation-match: 0` in Google's store. Each put carries a word of its
own among the object's metadata: when the answer to a put got lost, the object itself says whose it is.

AWS, Google and Azure promise to heed the condition. Other services that speak S3 may answer that they know no such
thing, or overlook it and overwrite; which, is tried once for each bucket and process, by two puts of one new object.
That a service looks first and writes then, in two steps, can't be seen so; who runs one says `s3.conditional-put`.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.stores import requests
from interbed.storage.base.fileio.stores.errors import (
    is_expired,
    is_missing_store,
    is_not_implemented,
    may_have_happened,
    status_of,
)
from interbed.storage.base.fileio.stores.objects import WRITER, StoreObjects

_log = logging.getLogger(__name__)

_heeded: dict[tuple[str, str], bool] = {}
"""Endpoint and bucket -> whether conditions are heeded there, as far as this process has tried."""
_trying = threading.Lock()


class ExclusivePuts:
    """Puts of one bucket; threads may share it.

    They go by what does not repeat requests by itself, for then it would not be known whose object is there.
    """

    def __init__(self, objects: StoreObjects, sleep: Callable[[float], None] = time.sleep) -> None:
        settings = objects.settings
        self._objects = objects
        self._key = (settings.endpoint or "", settings.bucket)
        self._known = settings.heeds_conditions
        self._patience = settings.patience
        self._tries = settings.patience.retries + 1
        self._sleep = sleep

    def are_heeded(self, directory: str, prefix: str) -> bool:
        """Whether the store heeds the condition; objects in the directory are used to find out, once.

        Raises StorageAccessError where nothing can be written there. `prefix` and a key make a path for messages.
        """
        if self._known is not None:
            return self._known
        with _trying:
            known = _heeded.get(self._key)
            if known is None:
                known = _heeded[self._key] = self._try(directory, prefix)
                if not known:
                    _log.warning(
                        "%s does not heed the condition of a put that nothing is there yet (If-None-Match: *): two "
                        "commits at once could overwrite each other, so that they need the lock of a catalog there.",
                        "/".join(filter(None, self._key)),
                    )
            return known

    def put(self, key: str, content: bytes, path: str) -> bool:
        """Create the object; False when there is one that this call has not made.

        An error other than a refusal is asked about again, and then the object decides. Raises StorageAccessError.
        """
        from obstore.exceptions import AlreadyExistsError, BaseError

        word, unclear, renewed = uuid.uuid4().hex, False, False
        began, attempt = time.monotonic(), 1
        while True:
            last = attempt == self._tries or time.monotonic() - began >= self._patience.retry_seconds
            used = self._objects.store
            try:
                requests.put(self._objects.once, key, content, mode="create", attributes={WRITER: word})
                return True
            except AlreadyExistsError as error:
                mine = self._is_mine(key, word, content if unclear else None, path, error)
                if mine is not None:
                    return mine
                # Nothing is there. S3 answers 409 when two came at the same moment, of which neither may have won.
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
                    # It says nothing about an earlier try.
                    raise (StorageAccessError(str(refused)) if unclear else refused) from None
                if last:
                    mine = self._is_mine(key, word, content, path, error)
                    if mine is not None:
                        return mine
                    # It may yet appear: whoever called knows what that means to them.
                    raise self._error("create", path, error) from None
                unclear = True
            attempt += 1
            _log.info("Creating %s again, try %d of %d.", path, attempt, self._tries)
            self._pause(attempt - 1)

    def _error(self, action: str, path: str, error: BaseException) -> StorageAccessError:
        return self._objects.error(action, path, error)

    def _pause(self, attempt: int) -> None:
        self._sleep(self._patience.pause_seconds(attempt - 1))

    def _is_mine(self, key: str, word: str, content: bytes | None, path: str, error: Exception) -> bool | None:
        """Whether the object is that of this call, also when its put was carried out twice; None when there is none.

        A store that drops metadata leaves only the content to go by, where it is given. Raises the error as
        StorageAccessError when the object can't be looked at.
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
            # Not the kind of error that means that nothing has happened.
            raise StorageAccessError(str(self._error("create", path, error))) from None

    def _try(self, directory: str, prefix: str) -> bool:
        for attempt in range(1, self._tries + 1):
            try:
                return self._try_once(directory, prefix)
            except StorageAccessError as error:
                if attempt == self._tries or error.__context__ is None or not may_have_happened(error.__context__):
                    raise
                # A put whose outcome is not known shows nothing; another object may.
                self._pause(attempt)
        raise AssertionError("unreachable")

    def _try_once(self, directory: str, prefix: str) -> bool:
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
            # Not even a new object is taken for one.
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
