"""The single steps by which ObstoreFileIO looks at objects and changes them; a directory is what keys have in common.

Requests are repeated after errors that may pass, with growing pauses of random length, and end within minutes: by
obstore where there was no answer or one that says to ask again, here where an answer broke off. What obstore raises
comes through as it is, FileNotFoundError among it.
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
from interbed.storage.io.cached.options import StoredEnd
from interbed.storage.io.deleting import BATCH
from interbed.storage.io.prefetch.content import WHOLE_BYTES, end_bytes
from interbed.storage.io.stores import requests
from interbed.storage.io.stores.errors import (
    OtherProtocolError,
    is_expired,
    is_missing_store,
    is_not_implemented,
    status_of,
    store_error,
    was_cut_off,
)
from interbed.storage.io.stores.values import StoreSettings

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_NO_SUCH_RANGE = 416

WRITER = "interbedwriter"
"""The name of a word among an object's metadata that says who has made it; Azure takes letters and digits alone."""


class StoreObjects:
    """The objects of one bucket or container by their keys; threads may share it."""

    def __init__(self, settings: StoreSettings) -> None:
        self.settings = settings
        self.store = opened(settings)
        self.once = opened(settings, retries=0)
        """The same without retries, for what must not be repeated unseen."""
        self._deletes_many = True
        self._is_s3 = settings.kind == "S3Store"
        self._is_known = not self._is_s3 or settings.endpoint is None
        """Whether what is asked is known to be such a store: a cloud's own address is, any other has yet to show it."""
        self._guard = threading.Lock()

    def error(self, action: str, path: str, error: BaseException) -> StorageAccessError:
        """The error to raise for one of the store's; `action` completes "Can't …"."""
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
        """Open the store anew, with the credentials that there are by now; False where they are always the same.

        `used` is the `store` that was told that its credentials have expired: another thread may have renewed it.
        """
        if not self.settings.renews:
            return False
        with self._guard:
            if self.store is used:
                _log.info("The credentials for %s have expired; they are asked for again.", self.settings.bucket)
                self.store, self.once = opened(self.settings), opened(self.settings, retries=0)
                self.__dict__.pop("_single", None)
        return True

    def repeated(self, step: Callable[[], _T]) -> _T:
        """What the step returns, which may be taken several times: again when its answer broke off, and once with new
        credentials when they have expired.
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
                if not was_cut_off(error) or not retries.pause("the answer broke off"):
                    raise

    def read(self, key: str) -> bytes:
        """The whole object."""
        return self.repeated(lambda: requests.read(self.store, key))

    def read_range(self, key: str, start: int, end: int) -> Any:
        """Some bytes of an object."""
        return self.repeated(lambda: requests.get_range(self.store, key, start=start, end=end))

    def put(self, key: str, content: Any) -> None:
        """Create or replace an object."""
        self.repeated(lambda: requests.put(self.store, key, content, use_multipart=False))
        self._is_known = True

    def size(self, key: str) -> int:
        """In bytes."""
        found = self.repeated(lambda: self._with_words(key, lambda: requests.head(self.store, key)))
        self._check_answer(found)
        return int(found["size"])

    def attribute(self, key: str, name: str) -> str | None:
        """A word among an object's metadata."""
        found = self.repeated(
            lambda: self._with_words(key, lambda: requests.get(self.store, key, options={"head": True}))
        )
        word = found.attributes.get(name)
        return None if word is None else str(word)

    def _with_words(self, key: str, step: Callable[[], _T]) -> _T:
        """What the step returns, whose answers have no content that would say why it was refused; another one's has."""
        from obstore.exceptions import BaseError

        try:
            return step()
        except BaseError as error:
            if status_of(error) in (400, 401, 403):
                for _ in requests.list_pages(self.store, key, chunk_size=1):
                    break
            raise

    def entries(self, key: str) -> Any:
        """What lies directly in a directory, as obstore lists it."""
        found = self.repeated(lambda: requests.list_with_delimiter(self.store, key or None))
        if found["objects"] or found["common_prefixes"]:
            self._is_known = True
        elif not self._is_known:
            self._check_protocol(key)
        return found

    def _check_protocol(self, directory: str) -> None:
        """Raise OtherProtocolError where an object is there that nobody has made.

        A page of HTML may be read as a listing of nothing, so that the first empty one is not believed by itself.
        Whatever else comes of it, the listing was answered.
        """
        from obstore.exceptions import BaseError

        try:
            requests.head(self.once, f"{directory}/.interbed-{uuid.uuid4()}".lstrip("/"))
        except (BaseError, OSError):
            self._is_known = True
            return
        raise OtherProtocolError("any object is there")

    def _check_answer(self, found: Any) -> None:
        """Raise OtherProtocolError for what is told of an object by an answer that S3 does not give."""
        if not self._is_s3 or self._is_known:
            return
        if found["e_tag"] is None and not found["last_modified"].timestamp():
            raise OtherProtocolError("an answer about an object has no ETag and no date")
        self._is_known = found["e_tag"] is not None

    def end_of(self, key: str, *, unless: str | None = None, size: int | None = None) -> StoredEnd | None:
        """The end of an object, or all of it; None where it has that version still.

        Where a `size` is told, it is the end of an object of that size, if it is.
        """
        if size is not None and size > WHOLE_BYTES:
            told = size
            try:
                end = self.repeated(lambda: self._range_end(key, unless, told))
            except _NoSuchRangeError:
                # It is shorter.
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
                # Azure has no ranges that are counted from the end.
                found = requests.get(self.store, key, options={**condition, "range": (0, WHOLE_BYTES)})
            return _stored_end(found)
        except FileNotFoundError:
            raise
        except NotModifiedError:
            return None
        except BaseError as error:
            # An empty object has no range, and each store says that in its own words.
            refused = is_expired(error) or status_of(error) in (401, 403)
            if refused or was_cut_off(error):
                raise
            size = int(requests.head(self.store, key)["size"])
            if not size:
                return StoredEnd(size=0, start=0, held=b"", version="empty")
            if status_of(error) != _NO_SUCH_RANGE or size > WHOLE_BYTES:
                raise
        # Some refuse an end that is longer than the object, which stands for all of it (RFC 9110, 14.1.2).
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
        """The keys of a directory's files, some at a time, in the order of their names."""
        last: str | None = None
        listing: Any = None

        def following() -> Any:
            nonlocal listing
            try:
                listing = listing or iter(requests.list_pages(self.store, key or None, offset=last, chunk_size=BATCH))
                return next(listing, None)
            except BaseException:
                # It goes on after what has come.
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
                # One that is not there ends the whole request in some stores; the others may be there.
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
        """Delete the object `<key>/` alone, by which Hadoop and Arrow mark a directory in S3; there may be none.

        obstore cuts the slash off of every key, but not off of an address: there the object is what has no name.
        """
        config = self.settings.config
        address = config.get("endpoint") or self.settings.endpoint
        if address is None:
            address = f"https://s3.{config.get('region', 'us-east-1')}.amazonaws.com/{self.settings.bucket}"
        elif not config["virtual_hosted_style_request"]:
            address = f"{address}/{self.settings.bucket}"
        address = f"{address}/{quote(key)}"
        # By both names of it, so that no other one counts: without the key the address would be that of the bucket.
        more = {"endpoint": address, "aws_endpoint_url_s3": address, "virtual_hosted_style_request": True}
        store = opened(self.settings, more={**more, "disable_bulk_delete": True})
        with suppress(FileNotFoundError):
            self.repeated(lambda: requests.delete(store, ""))

    @functools.cached_property
    def _single(self) -> Any:
        """The store, by requests that each delete one object."""
        more = {"disable_bulk_delete": True} if self.settings.kind == "S3Store" else {}
        return opened(self.settings, more=more)

    def copy(self, source: str, target: str) -> None:
        """Copy an object over whatever is there."""
        self.repeated(lambda: requests.copy(self.store, source, target))

    def copy_new(self, source: str, target: str) -> bool:
        """Copy an object where there is none; False where there is another one."""
        from obstore.exceptions import AlreadyExistsError, BaseError, NotModifiedError, PreconditionError

        if self.is_file(target):
            return False
        try:
            self.repeated(lambda: requests.copy(self.store, source, target, overwrite=False))
        except (AlreadyExistsError, NotModifiedError, PreconditionError):
            # It may be what a try has made whose answer was lost; one copy is as good as another.
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
    """An object ends before the range begins that was asked for."""


def _stored_end(found: Any) -> StoredEnd:
    size = int(found.meta["size"])
    # Others than those of S3 may have none.
    version = found.meta["e_tag"] or f"{size}-{found.meta['last_modified'].timestamp()}"
    return StoredEnd(size=size, start=found.range[0], held=found.bytes().to_bytes(), version=version)


def opened(settings: StoreSettings, *, retries: int | None = None, more: Mapping[str, Any] | None = None) -> Any:
    """The bucket or container in obstore; `retries` of a request where they are not to be the usual ones.

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
