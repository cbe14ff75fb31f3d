"""Objects that are created and never overwritten, by puts with a condition.

`If-None-Match: *` in S3 and Azure, `x-goog-if-generation-match: 0` in Google's store. Each put carries a word of its
own among the object's metadata: when the answer to a put got lost, the object itself says whose it is.

AWS, Google and Azure promise to heed the condition. Other services that speak S3 may answer that they know no such
thing, or overlook it and overwrite; which, is tried once for each bucket and process, by two puts of one new object.
That a service looks first and writes then, in two steps, can't be seen so; who runs one says `s3.conditional-put`.
"""

import logging
import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.base.fileio.store_errors import is_not_implemented, may_have_happened, store_error
from interbed.storage.base.fileio.store_objects import StoreObjects
from interbed.storage.base.fileio.store_settings import StoreSettings

_log = logging.getLogger(__name__)

WRITER = "interbedwriter"
"""The name of that word; Azure takes letters and digits alone."""

TRIES = 6
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0

_heeded: dict[tuple[str, str], bool] = {}
"""Endpoint and bucket -> whether conditions are heeded there, as far as this process has tried."""
_trying = threading.Lock()


class ExclusivePuts:
    """Puts of one bucket; threads may share it.

    `store` must not repeat requests by itself, for then it would not be known whose object is there.
    """

    def __init__(
        self, store: Any, objects: StoreObjects, settings: StoreSettings, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._store = store
        self._objects = objects
        self._key = (settings.endpoint or "", settings.bucket)
        self._known = settings.heeds_conditions
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
                        "%s does not heed If-None-Match, so that two commits at once could overwrite each other: "
                        "commits need the lock of a catalog there.",
                        "/".join(filter(None, self._key)),
                    )
            return known

    def put(self, key: str, content: bytes, path: str) -> bool:
        """Create the object; False when there is one that this call has not made.

        An error other than a refusal is asked about again, and then the object decides. Raises StorageAccessError.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        word, unclear = uuid.uuid4().hex, False
        for attempt in range(1, TRIES + 1):
            try:
                obstore.put(self._store, key, content, mode="create", attributes={WRITER: word})
                return True
            except AlreadyExistsError as error:
                # Somebody's, unless it may be what an earlier try has made.
                return unclear and self._settled(key, word, content, path, error)
            except (BaseError, OSError, ValueError) as error:
                if not may_have_happened(error):
                    raise store_error("create", path, error) from None
                if attempt == TRIES:
                    return self._settled(key, word, content, path, error)
                unclear = True
                _log.info("Creating %s again, try %d of %d.", path, attempt + 1, TRIES)
                self._pause(attempt)
        raise AssertionError("unreachable")

    def _pause(self, attempt: int) -> None:
        longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1))
        self._sleep(longest * (0.25 + 0.75 * random.random()))

    def _settled(self, key: str, word: str, content: bytes, path: str, error: Exception) -> bool:
        from obstore.exceptions import BaseError

        try:
            return self._is_mine(key, word, content)
        except (BaseError, OSError):
            # It is not there, or not to be seen: whoever called knows what that means to them.
            raise store_error("create", path, error) from None

    def _is_mine(self, key: str, word: str, content: bytes) -> bool:
        import obstore

        found = obstore.get(self._store, key)
        theirs = found.attributes.get(WRITER)
        # A store that drops metadata leaves only the content to go by.
        return theirs == word if theirs is not None else bytes(found.bytes()) == content

    def _try(self, directory: str, prefix: str) -> bool:
        for attempt in range(1, TRIES + 1):
            try:
                return self._try_once(directory, prefix)
            except StorageAccessError as error:
                if attempt == TRIES or error.__context__ is None or not may_have_happened(error.__context__):
                    raise
                # A put whose outcome is not known shows nothing; another object may.
                self._pause(attempt)
        raise AssertionError("unreachable")

    def _try_once(self, directory: str, prefix: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        key = f"{directory}/.exclusive-{uuid.uuid4()}.tmp".lstrip("/")
        path = f"{prefix}{key}"
        try:
            obstore.put(self._store, key, b"1", mode="create")
            try:
                obstore.put(self._store, key, b"2", mode="create")
            except AlreadyExistsError:
                return True
            return False
        except AlreadyExistsError:
            # Not even a new object is taken for one.
            return False
        except (BaseError, OSError, ValueError) as error:
            if is_not_implemented(error):
                return False
            raise store_error("try exclusive creation by", path, error) from None
        finally:
            try:
                self._objects.remove([key])
            except (BaseError, OSError) as error:
                _log.debug("Left %s: %s", path, store_error("delete", path, error))
