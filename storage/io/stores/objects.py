"""Single steps of ObjectStoreFileIO on objects; a directory is a common prefix of keys.

Requests are repeated after transient errors, with exponential back-off, and end within minutes: by obstore where there
was no response or one that asks for a retry, here where a response broke off. The errors of obstore are raised as they
are, and FileNotFoundError is one of them.
"""

import functools
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

from interbed.storage.base.errors import StorageAccessError
from interbed.storage.io.api import StoredEnd
from interbed.storage.io.parallel import BATCH
from interbed.storage.io.prefetch.content import WHOLE_BYTES, end_bytes
from interbed.storage.io.stores import requests
from interbed.storage.io.stores.options import StoreSettings
from interbed.storage.io.stores.requests import (
    OtherProtocolError,
    is_expired,
    is_missing_store,
    is_not_implemented,
    status_of,
    store_error,
    was_cut_off,
)

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_NO_SUCH_RANGE = 416

WRITER = "interbedwriter"
"""Key of the metadata of an object with the word of its writer; Azure allows only letters and digits."""


class StoreObjects:
    """Objects of one bucket or container by their keys; threads may share it."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.store = opened(settings)
        self.once = opened(settings, retries=0)
        """The same without retries, for requests that obstore must not repeat."""
        self._deletes_many = True
        self._is_s3 = settings.kind == "S3Store"
        self._is_known = not self._is_s3 or settings.endpoint is None
        """Whether the address is known to be of an object store: that of a cloud is, any other has to show it."""
        self._guard = threading.Lock()

    def error(self, action: str, path: str, error: BaseException) -> StorageAccessError:
        """Return the error to raise for one of the object store; `action` completes "Can't …"."""
        settings = self.settings
        return store_error(
            action,
            path,
            error,
            settings.source,
            ended=settings.ended,
            endpoint=settings.address_option,
            secrets=settings.secrets,
        )

    def renew(self, used: Any) -> bool:
        """Open the client again with the current credentials; return False where these never change.

        `used` is the `store` whose credentials expired: another thread may have renewed it meanwhile.
        """
        if not self.settings.renews:
            return False
        with self._guard:
            if self.store is used:
                _log.info("The credentials for %s have expired; reading them again.", self.settings.bucket)
                self.store, self.once = opened(self.settings), opened(self.settings, retries=0)
                self.__dict__.pop("_single", None)
        return True

    def repeated(self, step: Callable[[], _T]) -> _T:
        """Return the result of the step, which is repeated when its response broke off, and once with new credentials
        when they have expired.
        """
        from obstore.exceptions import BaseError

        retries = self.settings.limits.backoff.start(f"a request to {self.settings.bucket}", _log)
        renewed = False
        while True:
            used = self.store
            try:
                return step()
            except BaseError as error:
                if is_expired(error) and not renewed and self.renew(used):
                    renewed = True
                    continue
                if not was_cut_off(error) or not retries.pause("the response broke off"):
                    raise

    def read(self, key: str) -> bytes:
        """Return the content of an object."""
        return self.repeated(lambda: requests.read(self.store, key))

    def read_range(self, key: str, start: int, end: int) -> Any:
        """Return the bytes of an object from `start` to before `end`."""
        return self.repeated(lambda: requests.get_range(self.store, key, start=start, end=end))

    def put(self, key: str, content: Any) -> None:
        """Create or replace an object."""
        self.repeated(lambda: requests.put(self.store, key, content, use_multipart=False))
        self._is_known = True

    def size(self, key: str) -> int:
        """Return the size of an object in bytes."""
        found = self.repeated(lambda: self._with_words(key, lambda: requests.head(self.store, key)))
        self._check_answer(found)
        return int(found["size"])

    def attribute(self, key: str, name: str) -> str | None:
        """Return a value of the metadata of an object; None without it."""
        found = self.repeated(
            lambda: self._with_words(key, lambda: requests.get(self.store, key, options={"head": True}))
        )
        word = found.attributes.get(name)
        return None if word is None else str(word)

    def _with_words(self, key: str, step: Callable[[], _T]) -> _T:
        """Return the result of a step. Its responses lack the reason of a refusal, so a listing is sent then.

        The step is repeated when the listing succeeds with credentials that the client may have read in between.
        """
        from obstore.exceptions import BaseError

        try:
            return step()
        except BaseError as error:
            if status_of(error) not in (400, 401, 403):
                raise
            for _ in requests.list_pages(self.store, key, chunk_size=1):
                break
            if not self.settings.renews:
                raise
        return step()

    def entries(self, key: str) -> Any:
        """Return the direct entries of a directory, as obstore lists them."""
        found = self.repeated(lambda: requests.list_with_delimiter(self.store, key or None))
        if found["objects"] or found["common_prefixes"]:
            self._is_known = True
        elif not self._is_known:
            self._check_protocol(key)
        return found

    def _check_protocol(self, directory: str) -> None:
        """Raise OtherProtocolError where a random key exists, which no process has written.

        A page of HTML may be parsed as an empty listing, so the first empty listing needs this check. Any error of it
        shows that the address is of an object store.
        """
        from obstore.exceptions import BaseError

        try:
            requests.head(self.once, f"{directory}/.interbed-{uuid.uuid4()}".lstrip("/"))
        except (BaseError, OSError):
            self._is_known = True
            return
        raise OtherProtocolError("any object exists")

    def _check_answer(self, found: Any) -> None:
        """Raise OtherProtocolError for metadata of an object that S3 does not send."""
        if not self._is_s3 or self._is_known:
            return
        if found["e_tag"] is None and not found["last_modified"].timestamp():
            raise OtherProtocolError("a response about an object has no ETag and no date")
        self._is_known = found["e_tag"] is not None

    def end_of(self, key: str, *, unless: str | None = None, size: int | None = None) -> StoredEnd | None:
        """Return the end of an object, or all of it; None if its version is `unless`.

        With an assumed `size` one request is enough, if the object has that size.
        """
        if size is not None and size > WHOLE_BYTES:
            assumed = size
            try:
                end = self.repeated(lambda: self._range_end(key, unless, assumed))
            except _NoSuchRangeError:
                # The object is shorter.
                return self.repeated(lambda: self._end_of(key, unless))
            if end is None or end.start + len(end.held) == end.size:
                return end
        return self.repeated(lambda: self._end_of(key, unless))

    def _range_end(self, key: str, unless: str | None, size: int) -> StoredEnd | None:
        from obstore.exceptions import BaseError, NotModifiedError

        condition = {} if unless is None else {"if_none_match": unless}
        place = (size - end_bytes(size), size)
        try:
            return _stored_end(requests.get(self.store, key, options={**condition, "range": place}))
        except FileNotFoundError:
            raise
        except NotModifiedError:
            return None
        except BaseError as error:
            if status_of(error) == _NO_SUCH_RANGE:
                raise _NoSuchRangeError from None
            raise

    def _end_of(self, key: str, unless: str | None) -> StoredEnd | None:
        from obstore.exceptions import BaseError, NotModifiedError, NotSupportedError

        condition = {} if unless is None else {"if_none_match": unless}
        try:
            try:
                found = requests.get(self.store, key, options={**condition, "range": {"suffix": WHOLE_BYTES}})
            except NotSupportedError:
                # Azure has no ranges relative to the end.
                found = requests.get(self.store, key, options={**condition, "range": (0, WHOLE_BYTES)})
            return _stored_end(found)
        except FileNotFoundError:
            raise
        except NotModifiedError:
            return None
        except BaseError as error:
            # An empty object has no range, and each object store reports that by another error.
            refused = is_expired(error) or status_of(error) in (401, 403)
            if refused or was_cut_off(error):
                raise
            size = int(self._with_words(key, lambda: requests.head(self.store, key))["size"])
            if not size:
                return StoredEnd(size=0, start=0, held=b"", version="empty")
            if status_of(error) != _NO_SUCH_RANGE or size > WHOLE_BYTES:
                raise
        # Some refuse a suffix longer than the object, which means all of it (RFC 9110, 14.1.2).
        try:
            return _stored_end(requests.get(self.store, key, options=condition or None))
        except NotModifiedError:
            return None

    def is_file(self, key: str) -> bool:
        if not key:
            return False
        try:
            self.size(key)
        except FileNotFoundError:
            return False
        return True

    def is_directory(self, key: str) -> bool:
        def is_there() -> bool:
            return any(True for some in requests.list_pages(self.store, key or None, chunk_size=1) if some)

        return self.repeated(is_there)

    def below(self, key: str) -> Iterator[list[str]]:
        """Yield the keys below a directory in batches, in the order of their names."""
        last: str | None = None
        listing: Any = None

        def following() -> Any:
            nonlocal listing
            try:
                listing = listing or iter(requests.list_pages(self.store, key or None, offset=last, chunk_size=BATCH))
                return next(listing, None)
            except BaseException:
                # The retry continues after the last key.
                listing = None
                raise

        while (some := self.repeated(following)) is not None:
            last = some[-1]["path"] if some else last
            keys = [entry["path"] for entry in some if entry["path"] != key]
            if keys:
                yield keys

    def remove(self, keys: list[str]) -> None:
        from obstore.exceptions import BaseError

        if self._deletes_many:
            try:
                self.repeated(lambda: requests.delete(self.store, keys))
            except FileNotFoundError:
                # Some object stores end the whole request at a missing key; the other keys may exist.
                pass
            except BaseError as error:
                if not is_not_implemented(error):
                    raise
                self._deletes_many = False
            else:
                return
        for key in keys:
            self._remove_one(key)

    def _remove_one(self, key: str) -> None:
        try:
            self.repeated(lambda: requests.delete(self._single, key))
        except FileNotFoundError as error:
            if is_missing_store(error):
                raise

    def remove_marker(self, key: str) -> None:
        """Delete only the object `<key>/`, by which Hadoop and Arrow mark a directory in S3; it may be missing.

        obstore removes the final slash of every key, but not of an address: below that address the object has an empty
        name.
        """
        config = self.settings.config
        address = config.get("endpoint") or self.settings.endpoint
        if address is None:
            address = f"https://s3.{config.get('region', 'us-east-1')}.amazonaws.com/{self.settings.bucket}"
        elif not config["virtual_hosted_style_request"]:
            address = f"{address}/{self.settings.bucket}"
        address = f"{address}/{quote(key)}"
        # Under both names, so that no other address is used: without the key it would be that of the bucket.
        more = {"endpoint": address, "aws_endpoint_url_s3": address, "virtual_hosted_style_request": True}
        store = opened(self.settings, more={**more, "disable_bulk_delete": True})
        with suppress(FileNotFoundError):
            self.repeated(lambda: requests.delete(store, ""))

    @functools.cached_property
    def _single(self) -> Any:
        """Client whose requests delete single objects."""
        more = {"disable_bulk_delete": True} if self.settings.kind == "S3Store" else {}
        return opened(self.settings, more=more)

    def copy(self, source: str, target: str) -> None:
        """Copy an object; the target is overwritten."""
        self.repeated(lambda: requests.copy(self.store, source, target))

    def copy_new(self, source: str, target: str) -> bool:
        """Copy an object unless the target exists; return False where it is another object."""
        from obstore.exceptions import AlreadyExistsError, BaseError, NotModifiedError, PreconditionError

        if self.is_file(target):
            return False
        try:
            self.repeated(lambda: requests.copy(self.store, source, target, overwrite=False))
        except (AlreadyExistsError, NotModifiedError, PreconditionError):
            # An earlier attempt whose response was lost may have created it.
            return self._are_equal(source, target)
        except BaseError as error:
            if not is_not_implemented(error) and status_of(error) != 400:
                raise
            self.copy(source, target)
        return True

    def _are_equal(self, source: str, target: str) -> bool:
        size = self.size(source)
        if size != self.size(target):
            return False
        return all(
            bytes(self.read_range(source, start, end)) == bytes(self.read_range(target, start, end))
            for start in range(0, size, WHOLE_BYTES)
            for end in (min(start + WHOLE_BYTES, size),)
        )


class _NoSuchRangeError(Exception):
    """Response that an object ends before the requested range."""


def _stored_end(found: Any) -> StoredEnd:
    size = int(found.meta["size"])
    # Only S3 guarantees an ETag.
    version = found.meta["e_tag"] or f"{size}-{found.meta['last_modified'].timestamp()}"
    return StoredEnd(size=size, start=found.range[0], held=found.bytes().to_bytes(), version=version)


def opened(settings: StoreSettings, *, retries: int | None = None, more: Mapping[str, Any] | None = None) -> Any:
    """Open a bucket or container by obstore, with `retries` of a request other than the usual number.

    Raises StorageAccessError.
    """
    from obstore import store
    from obstore.exceptions import BaseError

    try:
        with requests.panics_translated():
            return getattr(store, settings.kind)(
                settings.bucket,
                config={**settings.config, **(more or {})},
                client_options={"allow_http": True, "user_agent": "interbed", **settings.limits.client_options},
                retry_config=settings.limits.retry_config | ({} if retries is None else {"max_retries": retries}),
                **({} if settings.credentials is None else {"credential_provider": settings.credentials}),
            )
    except (BaseError, OSError, ValueError) as error:
        by = f" with {settings.source}" if settings.source else ""
        raise store_error("open", f"{settings.location}{by}", error, secrets=settings.secrets) from None
