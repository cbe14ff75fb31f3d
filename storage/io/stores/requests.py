"""Requests to object stores: obstore's functions with counts of the requests of this process, and what errors mean.

obstore repeats some requests itself, and divides a listing into pages. A call counts as one request here; each part of
an upload counts. The bytes of a body that is read later are counted by its range.

A panic of obstore's Rust code, which derives only from BaseException, becomes an error of obstore: it is not known
whether the request was carried out.

Errors to raise name the path and the way out. The message of the object store is kept as far as it helps
(`NoSuchBucket: The specified bucket does not exist`). Requests, headers and signed values are removed, because they may
hold keys. For the same reason errors are raised `from None`.
"""

import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote

from interbed.storage.base.errors import AccessRefusedError, StorageAccessError
from interbed.storage.base.shown_text import MASK, SECRET_NAMES


class _BodyBytes:
    """Bytes of one request and of its response."""

    read = 0
    written = 0


@contextmanager
def _counted(kind: str) -> Iterator[_BodyBytes]:
    content, started, failed = _BodyBytes(), time.perf_counter(), 1
    try:
        with panics_translated():
            yield content
        failed = 0
    except BaseException as error:
        failed = int(not _is_answer(error))
        raise
    finally:
        counts = RequestCounts(
            requests=1,
            failed=failed,
            read_bytes=content.read,
            written_bytes=content.written,
            wait_seconds=time.perf_counter() - started,
        )
        count(kind, counts)


@contextmanager
def panics_translated() -> Iterator[None]:
    """Raise a panic as an error of obstore; other exceptions, such as an interrupt, pass."""
    try:
        yield
    except BaseException as error:
        # PyO3 creates the class at the first panic; no module has it.
        if type(error).__name__ != "PanicException":
            raise
        from obstore.exceptions import GenericError

        raise GenericError(f"the client of the store has panicked, so that an option may be wrong: {error}") from None


def _is_answer(error: BaseException) -> bool:
    """Return whether the error is a regular response: the object is missing, exists, or is unchanged."""
    from obstore.exceptions import AlreadyExistsError, NotModifiedError, PreconditionError

    return isinstance(error, FileNotFoundError | AlreadyExistsError | NotModifiedError | PreconditionError)


def get(store: Any, path: str, *, options: Any = None) -> Any:
    import obstore

    with _counted("get") as content:
        found = obstore.get(store, path, options=options)
        if not (options or {}).get("head"):
            content.read = found.range[1] - found.range[0]
        return found


def read(store: Any, path: str) -> bytes:
    """Return all bytes of an object, by obstore.get."""
    import obstore

    with _counted("get") as content:
        found = bytes(obstore.get(store, path).bytes())
        content.read = len(found)
        return found


def get_range(store: Any, path: str, *, start: int, end: int) -> Any:
    import obstore

    with _counted("get") as content:
        found = obstore.get_range(store, path, start=start, end=end)
        content.read = len(found)
        return found


def head(store: Any, path: str) -> Any:
    import obstore

    with _counted("head"):
        return obstore.head(store, path)


def put(store: Any, path: str, file: Any, **more: Any) -> Any:
    import obstore

    with _counted("put") as content:
        content.written = len(file)
        return obstore.put(store, path, file, **more)


def list_pages(store: Any, prefix: str | None = None, **more: Any) -> Iterator[Any]:
    """Yield the pages of obstore.list; each counts as a request."""
    import obstore

    with panics_translated():
        pages = iter(obstore.list(store, prefix, **more))
    while True:
        with _counted("list"):
            page = next(pages, None)
        if page is None:
            return
        yield page


def list_with_delimiter(store: Any, prefix: str | None = None) -> Any:
    import obstore

    with _counted("list"):
        return obstore.list_with_delimiter(store, prefix)


def delete(store: Any, paths: Any) -> None:
    import obstore

    with _counted("delete"):
        obstore.delete(store, paths)


def copy(store: Any, from_: str, to: str, *, overwrite: bool = True) -> None:
    import obstore

    with _counted("copy"):
        obstore.copy(store, from_, to, overwrite=overwrite)


def open_writer(store: Any, path: str, *, buffer_size: int, **more: Any) -> "CountedWriter":
    import obstore

    with panics_translated():
        return CountedWriter(obstore.open_writer(store, path, buffer_size=buffer_size, **more), buffer_size)


class CountedWriter:
    """Writer of obstore, whose requests are counted when it ends."""

    def __init__(self, writer: Any, part_bytes: int) -> None:
        self._writer = writer
        self._part_bytes = part_bytes
        self._bytes = 0
        self._wait = 0.0

    def write(self, content: Any) -> None:
        """Write the bytes; a part is sent when it is full."""
        started = time.perf_counter()
        try:
            with panics_translated():
                self._writer.write(content)
        finally:
            self._wait += time.perf_counter() - started
        self._bytes += len(content)

    def close(self) -> None:
        """Send the remaining bytes, and end."""
        self._end(self._writer.close)

    def __exit__(self, *given: Any) -> None:
        self._end(lambda: self._writer.__exit__(*given))

    def _end(self, step: Any) -> None:
        started, failed = time.perf_counter(), 1
        try:
            with panics_translated():
                step()
            failed = 0
        finally:
            wait = self._wait + time.perf_counter() - started
            # A file of one part is one put; otherwise two requests begin and end the upload.
            parts = -(-self._bytes // self._part_bytes)
            count(
                "put",
                RequestCounts(
                    requests=parts + 2 if parts > 1 else 1, failed=failed, written_bytes=self._bytes, wait_seconds=wait
                ),
            )
            self._bytes, self._wait = 0, 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Requests of one kind; a request that was repeated after an error counts once. Bytes are those of contents.

    `wait_seconds` is the sum over all requests, also over parallel ones.
    """

    requests: int = 0
    failed: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    wait_seconds: float = 0.0

    def plus(self, other: "RequestCounts") -> "RequestCounts":
        """Return the sum of both counts."""
        return RequestCounts(**{name: value + getattr(other, name) for name, value in asdict(self).items()})

    def minus(self, other: "RequestCounts") -> "RequestCounts":
        """Return the requests since the other counts."""
        return RequestCounts(**{name: value - getattr(other, name) for name, value in asdict(self).items()})


@dataclass(slots=True)
class RequestReport:
    """Requests by kind (`get`, `put`, `list`, …); `str` for people, `to_json` for programs."""

    kinds: Mapping[str, RequestCounts] = field(default_factory=dict[str, RequestCounts])

    @property
    def total(self) -> RequestCounts:
        """Sum over all kinds of requests."""
        total = RequestCounts()
        for counts in self.kinds.values():
            total = total.plus(counts)
        return total

    def since(self, before: "RequestReport") -> "RequestReport":
        """Return the requests since an earlier report."""
        changed = {k: c.minus(before.kinds.get(k, RequestCounts())) for k, c in self.kinds.items()}
        return RequestReport({k: c for k, c in sorted(changed.items()) if c.requests})

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON object."""
        kinds = {kind: asdict(counts) for kind, counts in self.kinds.items()}
        return {"total": asdict(self.total), "kinds": kinds}

    def __str__(self) -> str:
        total = self.total
        kinds = ", ".join(f"{counts.requests:,} {kind}" for kind, counts in self.kinds.items())
        failed = f", {total.failed:,} of them failed" if total.failed else ""
        return (
            f"{total.requests:,} requests ({kinds or 'none'}){failed}; {total.read_bytes / 1024:,.0f} KiB read, "
            f"{total.written_bytes / 1024:,.0f} KiB written; {total.wait_seconds * 1000:,.0f} ms waited"
        )


_guard = threading.Lock()
_counts: dict[str, RequestCounts] = {}


def count(kind: str, counts: RequestCounts) -> None:
    """Add requests of a kind to the counts of the process."""
    with _guard:
        _counts[kind] = _counts.get(kind, RequestCounts()).plus(counts)


def requests_so_far() -> RequestReport:
    """Return all requests since the start of the process."""
    with _guard:
        return RequestReport(dict(_counts))


@contextmanager
def counted_requests() -> Iterator[RequestReport]:
    """Count the requests of the whole process within the block; the report is complete at its end."""
    before, report = requests_so_far(), RequestReport()
    try:
        yield report
    finally:
        report.kinds = requests_so_far().since(before).kinds


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<\n]{1,300})")
_NO_BUCKET = re.compile(r"NoSuchBucket|ContainerNotFound|specified bucket does not exist|Host not found|dns error")
_EXPIRED = re.compile(r"ExpiredToken|TokenRefreshRequired|RequestExpired|token (?:has )?expired", re.IGNORECASE)
_CLOCK = re.compile(r"RequestTimeTooSkewed|RequestInTheFuture")
_ELSEWHERE = re.compile(r"PermanentRedirect|redirect without LOCATION")
_NO_CREDENTIALS = re.compile(
    r"(?:token|credential)s? request|169\.254\.169\.254|metadata\.google|credential_provider|InvalidAccessKeyId"
    r"|SignatureDoesNotMatch|InvalidToken|AuthorizationHeaderMalformed|NoAuthenticationInformation|AuthenticationFailed",
    re.IGNORECASE,
)
_OTHER_PROTOCOL = re.compile(
    r"Got invalid (?:list|DeleteObjects|Create\w+|Complete\w+|multipart\w*) response|ETag Header missing"
    r"|speaks another protocol"
)
"""Messages of obstore, and of this package, about a response with status 200 that is not of the protocol."""
_SECRET = re.compile(
    rf"(?i)((?:sig|x-amz-[a-z-]*|signature|key|{SECRET_NAMES.removeprefix('(?i)')})(?:id)?=)[^&\s\"',)]+"
)
_USER = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*(?=@)")
_AUTHORIZATION = re.compile(
    r"(?i)(\bauthorization\b[\"']?\s*[:=]\s*|\bAWS4-[A-Z0-9-]+ (?=Credential)|\b(?:SharedKey|Bearer) (?=\S*[0-9:+/=])"
    r"|\bx-amz-security-token\b[\"']?\s*[:=]\s*).*"
)
"""Headers, up to the end of the line, because they contain blanks."""
_SHORTEST_SECRET = 5
_LONGEST = 300


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of the response; None without a response."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def is_missing_store(error: BaseException) -> bool:
    """Return whether the bucket or container is missing."""
    return _NO_BUCKET.search(str(error)) is not None


def was_deleted(error: BaseException) -> bool:
    """Return whether an object was deleted while it was read.

    obstore raises this error when the response broke off before, and it requests the rest.
    """
    return status_of(error) == 404 and not is_missing_store(error)


def is_not_implemented(error: BaseException) -> bool:
    """Return whether the object store does not support the request."""
    return type(error).__name__ == "NotSupportedError" or status_of(error) == 501 or "NotImplemented" in str(error)


def may_have_happened(error: BaseException) -> bool:
    """Return whether the request may have been carried out: there was no response, or one that asks for a retry."""
    if isinstance(error, OSError | ValueError) or type(error).__name__ in _REFUSALS or is_not_implemented(error):
        return False
    status = status_of(error)
    return status is None or status >= 500 or status in (408, 409, 425, 429)


def was_cut_off(error: BaseException) -> bool:
    """Return whether a response is missing or incomplete, and obstore did not repeat the request.

    obstore repeats requests without any response, but not those whose response broke off, nor a POST that timed out.
    """
    text = str(error)
    return "HTTP error" in text and status_of(error) is None and _REPEATED.search(text) is None


_REPEATED = re.compile(r"after [1-9]\d* retries")
_REFUSALS = frozenset(
    {"PermissionDeniedError", "UnauthenticatedError", "InvalidPathError", "AlreadyExistsError", "PreconditionError"}
)


_REFUSED = frozenset({"PermissionDeniedError", "UnauthenticatedError"})


def is_expired(error: BaseException) -> bool:
    """Return whether the credentials have expired."""
    return _EXPIRED.search(str(error)) is not None


def speaks_another_protocol(error: BaseException) -> bool:
    """Return whether the response reports success but is not of the protocol: the address is of another service."""
    return _OTHER_PROTOCOL.search(str(error)) is not None


class OtherProtocolError(OSError):
    """Response that shows by its content that the address speaks another protocol."""

    def __init__(self, sign: str) -> None:
        super().__init__(f"it speaks another protocol: {sign}")


def store_error(
    action: str,
    path: str,
    error: BaseException,
    source: str = "",
    *,
    ended: str = "",
    endpoint: str = "",
    secrets: Collection[str] = (),
) -> StorageAccessError:
    """Return the error to raise for one of the object store: AccessRefusedError where other credentials would help.

    `source` is the origin of the credentials, `ended` the time when they expired, if they did, and `endpoint` the
    origin of the address. The message contains none of the `secrets`.
    """
    kind = StorageAccessError
    text, name = str(error), type(error).__name__
    store = "/".join(path.split("/", 3)[:3])
    whose = f", which come from {source}," if source else ""
    if is_missing_store(error):
        way = f"{store} does not exist; create it, or correct the location or the endpoint."
    elif endpoint and speaks_another_protocol(error):
        way = (
            f"{endpoint} names an address that does not speak the protocol of the store, a web page perhaps; give that "
            "of its interface, with its port and without a path."
        )
    elif ended and (name in _REFUSED or status_of(error) in (401, 403)):
        kind = AccessRefusedError
        way = f"the credentials for {store}{whose} ended at {ended}; give new ones and do it again."
    elif is_expired(error):
        kind = AccessRefusedError
        way = f"the session token of the credentials for {store}{whose} has expired; give new ones and do it again."
    elif _CLOCK.search(text):
        way = "the clock of this machine differs too much from the store's; set it right and do it again."
    elif name == "UnauthenticatedError" or status_of(error) == 401 or _NO_CREDENTIALS.search(text):
        kind = AccessRefusedError
        way = (
            f"there are no credentials that {store} takes; give them as options of the catalog or in the environment "
            "(docs/stores.md)."
        )
    elif name == "PermissionDeniedError" or status_of(error) == 403:
        kind = AccessRefusedError
        way = f"the credentials for {store} do not allow it; give them the right to, or use others."
    elif status_of(error) in (301, 307) or _ELSEWHERE.search(text):
        way = f"{store} is in another region; set s3.region."
    else:
        way = ""
    said = _said(text, secrets)
    return kind(f"Can't {action} {path}: {way} ({said})" if way else f"Can't {action} {path}: {said}")


def _said(text: str, secrets: Collection[str]) -> str:
    """Return the message in one line, without secrets: a gateway may quote in its response what was sent."""
    for secret in sorted(secrets, key=len, reverse=True):
        # A short word occurs in any text, and protects nothing.
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, MASK).replace(quote(secret, safe=""), MASK)
    code, message = _CODE.search(text), _MESSAGE.search(text)
    if code is not None:
        words = code[1] if message is None else f"{code[1]}: {message[1]}"
    else:
        # The rest is the debug form of the error in Rust, with the whole request.
        words = " ".join(text.partition("Debug source")[0].split())
    words = _USER.sub(MASK, _SECRET.sub(rf"\1{MASK}", _AUTHORIZATION.sub(rf"\1{MASK}", words)))
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
