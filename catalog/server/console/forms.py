"""Forms of the console: read before the pages get them, short, from this host, with the token of their secret.

A form is checked by the gate for all pages. A client without a session cannot fill the memory by it: its length is
bounded.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.types import Message, Receive, Scope

from interbed.catalog.server.console.cookies import Headers, is_form_token
from interbed.catalog.server.console.rendering import TOKEN_FIELD
from interbed.catalog.server.http.application import HttpError, read_body

FORM_BYTES_MAX = 64 << 10
"""The longest form."""

FIELDS_MAX = 50
_FORM_TYPE = "application/x-www-form-urlencoded"


class RefusedFormError(Exception):
    """A form that is not carried out."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


async def form_body(scope: Scope, receive: Receive) -> bytes | None:
    """Return the body of a form, None if the client has disconnected. RefusedFormError for another body."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    kind = headers.get(b"content-type", "").partition(";")[0].strip().lower()
    if kind != _FORM_TYPE:
        raise RefusedFormError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A form has the content type {_FORM_TYPE}.")
    if headers.get(b"content-encoding", "identity").strip().lower() != "identity":
        raise RefusedFormError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "A form is sent without a content encoding.")
    length = headers.get(b"content-length")
    if length is not None and int(length) > FORM_BYTES_MAX:
        raise _too_long()
    return await read_body(receive, None if length is None else int(length), FORM_BYTES_MAX, _too_long)


def _too_long() -> HttpError:
    return HttpError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"A form may have {FORM_BYTES_MAX} bytes.")


def checked_form(body: bytes, headers: Headers, secret: str) -> Mapping[str, str]:
    """Return the fields of a form of this host with the token of its secret. RefusedFormError."""
    origins = [value.decode("latin-1") for name, value in headers if name == b"origin"]
    hosts = [value.decode("latin-1") for name, value in headers if name == b"host"]
    if origins and (len(origins) > 1 or len(hosts) != 1 or _host_of(origins[0]) != hosts[0].lower()):
        raise RefusedFormError(
            HTTPStatus.FORBIDDEN, "The form comes from another site. Open the page again, and repeat it."
        )
    fields = form_fields(body)
    if not is_form_token(fields.get(TOKEN_FIELD, ""), secret):
        raise RefusedFormError(
            HTTPStatus.FORBIDDEN,
            "The form is not one of the present session: it has no token, or that of another one. Open the page "
            "again, and repeat it.",
        )
    return fields


def form_fields(body: bytes) -> Mapping[str, str]:
    """Return the fields of a form. RefusedFormError for bytes that are none, and for a repeated field."""
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX)
    except ValueError as error:
        raise RefusedFormError(HTTPStatus.BAD_REQUEST, "The form cannot be decoded.") from error
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise RefusedFormError(HTTPStatus.BAD_REQUEST, "The form has a field twice.")
    return fields


def replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body again, and then what follows it."""
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return parts.pop() if parts else await receive()

    return receive_again


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
