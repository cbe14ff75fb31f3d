"""The single steps by which ObstoreFileIO looks at objects and changes them; a directory is what keys have in common.

Requests are repeated after errors that may pass, with growing pauses of random length, and end within minutes. What
obstore raises comes through as it is, FileNotFoundError among it.
"""

import functools
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from interbed.storage.base.fileio.store_errors import is_missing_store, is_not_implemented, status_of, store_error
from interbed.storage.base.fileio.store_files import WHOLE_BYTES
from interbed.storage.base.fileio.store_settings import StoreSettings

BATCH = 1000
"""Objects that one request of S3 deletes; the others divide them further."""

_RETRIES = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=90),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
_CLIENT = {
    "allow_http": True,
    "connect_timeout": timedelta(seconds=5),
    # Between two pieces of an answer, and for the whole of it, which may be a large one.
    "read_timeout": timedelta(seconds=30),
    "timeout": timedelta(minutes=5),
    "user_agent": "interbed",
}


class StoreObjects:
    """The objects of one bucket or container by their keys; threads may share it."""

    def __init__(self, settings: StoreSettings) -> None:
        self._settings = settings
        self.store = opened(settings)
        self._deletes_many = True

    def end_of(self, key: str) -> tuple[int, int, Any]:
        """The size of an object, and its end, or all of it, with where that begins."""
        import obstore
        from obstore.exceptions import BaseError, NotSupportedError

        try:
            try:
                found = obstore.get(self.store, key, options={"range": {"suffix": WHOLE_BYTES}})
            except NotSupportedError:
                # Azure has no ranges that are counted from the end.
                found = obstore.get(self.store, key, options={"range": (0, WHOLE_BYTES)})
            start, size = found.range[0], int(found.meta["size"])
            return size, start, found.bytes().to_bytes()
        except FileNotFoundError:
            raise
        except BaseError:
            # An empty object has no range, and each store says that in its own words.
            if int(obstore.head(self.store, key)["size"]) > 0:
                raise
            return 0, 0, b""

    def is_file(self, key: str) -> bool:
        import obstore

        if not key:
            return False
        try:
            obstore.head(self.store, key)
        except FileNotFoundError:
            return False
        return True

    def is_directory(self, key: str) -> bool:
        import obstore

        return any(True for some in obstore.list(self.store, key or None, chunk_size=1) if some)

    def below(self, key: str) -> Iterator[list[str]]:
        """The keys of a directory's files, some at a time."""
        import obstore

        for some in obstore.list(self.store, key or None, chunk_size=BATCH):
            keys = [entry["path"] for entry in some if entry["path"] != key]
            if keys:
                yield keys

    def remove(self, keys: list[str]) -> None:
        import obstore
        from obstore.exceptions import BaseError

        if self._deletes_many:
            try:
                obstore.delete(self.store, keys)
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
        import obstore

        try:
            obstore.delete(self._single, key)
        except FileNotFoundError as error:
            if is_missing_store(error):
                raise

    @functools.cached_property
    def _single(self) -> Any:
        """The store, by requests that each delete one object."""
        more = {"disable_bulk_delete": True} if self._settings.kind == "S3Store" else {}
        return opened(self._settings, more=more)

    def copy(self, source: str, target: str) -> None:
        import obstore

        obstore.copy(self.store, source, target)

    def copy_new(self, source: str, target: str) -> bool:
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError, NotModifiedError, PreconditionError

        if self.is_file(target):
            return False
        try:
            obstore.copy(self.store, source, target, overwrite=False)
        except (AlreadyExistsError, NotModifiedError, PreconditionError):
            return False
        except BaseError as error:
            if not is_not_implemented(error) and status_of(error) != 400:
                raise
            self.copy(source, target)
        return True


def opened(settings: StoreSettings, *, retries: int | None = None, more: Mapping[str, Any] | None = None) -> Any:
    """The bucket or container in obstore; `retries` of a request where they are not to be the usual ones.

    Raises StorageAccessError.
    """
    from obstore import store
    from obstore.exceptions import BaseError

    try:
        return getattr(store, settings.kind)(
            settings.bucket,
            config={**settings.config, **(more or {})},
            client_options=_CLIENT,
            retry_config=_RETRIES if retries is None else {**_RETRIES, "max_retries": retries},
            **({} if settings.credentials is None else {"credential_provider": settings.credentials}),
        )
    except (BaseError, OSError, ValueError) as error:
        raise store_error("open", settings.bucket, error) from None
