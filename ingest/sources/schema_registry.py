r"""Schemas from a registry with the REST interface of Confluent's: Confluent's own, Karapace, Apicurio, Redpanda.

    GET /schemas/ids/7 -> {"schema": "{\"type\": \"record\", …}", "references": [{"name", "subject", "version"}]}
    GET /subjects/{subject}/versions/{version} -> the same, for a schema that another one refers to

Settings have the names of Confluent's clients. See
https://docs.confluent.io/platform/current/schema-registry/develop/api.html
"""

import base64
import difflib
import http.client
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from interbed.ingest.flow.messages import SchemaRegistryError, SourceUnavailableError, UnknownSchemaError
from interbed.ingest.formats.avro.schema import WriterSchema
from interbed.storage.base.errors import InvalidOptionError

TIMEOUT_SECONDS = 10.0
_BYTES_MAX = 16 << 20
_REFERENCES_MOST = 1000
_NOT_FOUND = (40401, 40402, 40403)
"""The error codes for a missing subject, version or schema."""
_PASSING = (408, 425, 429)

SETTINGS = (
    "basic.auth.user.info",
    "bearer.auth.token",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "timeout",
)
"""The names of `settings`. The values are USER:PASSWORD, a token, files in PEM format, and seconds."""


class SchemaRegistry:
    """The schemas of a registry; each is requested once. Not for use by several threads.

    `url` may be several URLs of one registry, separated by commas: the next is tried if one does not answer. A user and
    a password in it count as `basic.auth.user.info`. Secrets are in no name, error or log line, and are sent to no
    other address: redirections are not followed.

    Raises InvalidOptionError. The first request connects.
    """

    def __init__(self, url: str, settings: Mapping[str, str] | None = None) -> None:
        given = dict(settings or {})
        for name in given:
            if name not in SETTINGS:
                near = difflib.get_close_matches(name, SETTINGS, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(SETTINGS)}."
                raise InvalidOptionError(f"A schema registry has no setting {name}: {hint}")
        found = [_address(each.strip()) for each in url.split(",") if each.strip()]
        if not found:
            raise InvalidOptionError("A schema registry needs a URL.")
        self._urls = [address for address, _ in found]
        # The address that answered last is tried first.
        self._first = 0
        user = given.get("basic.auth.user.info") or next((user for _, user in found if user), None)
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json", **_login(user, given)}
        self._timeout = _seconds(given.get("timeout"))
        handler = urllib.request.HTTPSHandler(context=_tls(given))
        self._opener = urllib.request.build_opener(handler, _NoRedirection)
        self._schemas: dict[int, WriterSchema] = {}

    @property
    def name(self) -> str:
        """The addresses of the registry, for people."""
        return f"the schema registry at {', '.join(self._urls)}"

    def schema(self, number: int) -> WriterSchema:
        """Return a schema; see WriterSchemas."""
        if number not in self._schemas:
            found = self._requested(f"/schemas/ids/{number}", f"a schema {number}")
            texts: dict[str, str] = {}
            self._collect_references(found, texts)
            self._schemas[number] = WriterSchema(text=_text_of(found), references=tuple(texts.values()))
        return self._schemas[number]

    def _collect_references(self, found: Mapping[str, Any], texts: dict[str, str], above: Sequence[str] = ()) -> None:
        """Collect the schemas that a schema refers to, each after the schemas that it refers to itself."""
        for reference in found.get("references") or ():
            subject, version = str(reference["subject"]), int(reference["version"])
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            if path in texts or path in above:
                continue
            if len(texts) >= _REFERENCES_MOST:
                raise UnknownSchemaError(f"a schema refers to more than {_REFERENCES_MOST} others")
            there = self._requested(path, f"version {version} of {subject!r}, to which a schema refers")
            self._collect_references(there, texts, (*above, path))
            texts[path] = _text_of(there)

    def _requested(self, path: str, what: str) -> dict[str, Any]:
        """Return the answer to a request; `what` names the requested object."""
        failures = []
        for turn in range(len(self._urls)):
            at = (self._first + turn) % len(self._urls)
            try:
                answer = self._answer(self._urls[at], path)
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                if isinstance(error, urllib.error.HTTPError) and not _is_passing(error.code):
                    self._refused(error, self._urls[at], what)
                failures.append(f"{self._urls[at]}: {_shown(error)}")
                continue
            self._first = at
            return self._checked(answer, self._urls[at], what)
        raise SourceUnavailableError(
            f"The schema registry does not return {what} ({'; '.join(failures)}). Try again when it answers."
        )

    def _answer(self, url: str, path: str) -> bytes:
        request = urllib.request.Request(url + path, headers=self._headers)
        with self._opener.open(request, timeout=self._timeout) as response:
            content: bytes = response.read(_BYTES_MAX + 1)
        return content

    def _refused(self, error: urllib.error.HTTPError, url: str, what: str) -> NoReturn:
        """Raise the error of an answer that is no schema."""
        with error:
            try:
                said = json.loads(error.read(_BYTES_MAX))
            except (OSError, http.client.HTTPException, ValueError):
                said = None
        code = said.get("error_code") if isinstance(said, dict) else None
        if error.code == http.client.NOT_FOUND and code in _NOT_FOUND:
            raise UnknownSchemaError(f"the schema registry at {url} does not have {what}") from None
        way = "Give --schema-registry the address below which /schemas/ids/ is, with its path if it has one."
        if error.code in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            way = "Give --schema-registry-conf basic.auth.user.info=USER:PASSWORD of a user that may read schemas."
        raise SchemaRegistryError(f"{url} does not return {what}: it answers {error.code}. {way}") from None

    def _checked(self, answer: bytes, url: str, what: str) -> dict[str, Any]:
        try:
            found = json.loads(answer) if len(answer) <= _BYTES_MAX else None
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise SchemaRegistryError(
                f"{url} does not return {what}: its answer is no schema. Give --schema-registry the address below "
                "which /schemas/ids/ is, with its path if it has one."
            )
        kind = found.get("schemaType") or "AVRO"
        if kind != "AVRO":
            raise UnknownSchemaError(f"{what} is one of {kind}, and not of Avro")
        return found


class _NoRedirection(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the credentials are for the given addresses only."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _text_of(found: Mapping[str, Any]) -> str:
    text: str = found["schema"]
    return text


def _address(url: str) -> tuple[str, str | None]:
    """Return the address without the user in it, and the user with the password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidOptionError(
            "The URL of a schema registry begins with http:// or https:// and a host, and has no query in it."
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    user = None if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")), user


def _login(user: str | None, settings: Mapping[str, str]) -> dict[str, str]:
    token = settings.get("bearer.auth.token")
    if user and token:
        raise InvalidOptionError("A schema registry takes basic.auth.user.info or bearer.auth.token, not both.")
    if user:
        if ":" not in user:
            raise InvalidOptionError("The setting basic.auth.user.info of a schema registry is USER:PASSWORD.")
        return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    if token:
        if not (token.isascii() and token.isprintable()):
            raise InvalidOptionError("The setting bearer.auth.token of a schema registry has a character of no token.")
        return {"Authorization": f"Bearer {token}"}
    return {}


def _seconds(text: str | None) -> float:
    try:
        seconds = TIMEOUT_SECONDS if text is None else float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds <= 3600:
        raise InvalidOptionError("The setting timeout of a schema registry is a number of seconds, up to 3600.")
    return seconds


def _tls(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS settings. Raises InvalidOptionError for files that are missing or invalid."""
    certificate, key = settings.get("ssl.certificate.location"), settings.get("ssl.key.location")
    if key and not certificate:
        raise InvalidOptionError("A schema registry's ssl.key.location needs ssl.certificate.location beside it.")
    try:
        context = ssl.create_default_context(cafile=settings.get("ssl.ca.location"))
        if certificate:
            # An empty password instead of none, for which OpenSSL would ask on the terminal.
            context.load_cert_chain(certificate, key, settings.get("ssl.key.password") or "")
    except (OSError, ValueError) as error:
        # The cause is left out: it may quote a secret.
        reason = error.strerror if isinstance(error, OSError) else None
        raise InvalidOptionError(
            f"The files of a schema registry's ssl. settings can't be taken: {reason or type(error).__name__}"
        ) from None
    return context


def _is_passing(status: int) -> bool:
    return status >= 500 or status in _PASSING


def _shown(error: Exception) -> str:
    """Return the reason of a failure, without anything of the request."""
    if isinstance(error, urllib.error.HTTPError):
        return f"it answers {error.code}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__
