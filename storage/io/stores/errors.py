"""Errors of object stores: what they mean, and errors to raise, which name the path and the way out.

The message of the object store is kept as far as it helps (`NoSuchBucket: The specified bucket does not exist`).
Requests, headers and signed values are removed, because they may hold keys. For the same reason errors are raised
`from None`.
"""

import re
from collections.abc import Collection
from urllib.parse import quote

from interbed.storage.base.errors import AccessRefusedError, StorageAccessError
from interbed.storage.base.shown_text import MASK, SECRET_NAMES

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
