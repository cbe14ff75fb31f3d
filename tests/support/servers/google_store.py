"""Emulator of Google Cloud Storage for the client in obstore: moto behind a proxy that renames headers.

The public emulators of that store lack its XML interface, which obstore uses: requests of S3 with other header names.
moto answers conditional puts. Credentials are not checked, except by `enforcing_google`: it has a token service, whose
tokens have the rights of their credential access boundaries.
"""

import json
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from tests.support.servers.http_servers import running_s3
from tests.support.servers.store_proxy import Fault, Request, StoreProxy
from tests.support.waits import at_most

_TO_S3 = {"x-goog-copy-source": "x-amz-copy-source"}
_CONDITION = "x-goog-if-generation-match"
_OF_GOOGLE, _OF_S3 = "x-goog-meta-", "x-amz-meta-"
_ANY_SIGNATURE = "AWS4-HMAC-SHA256 Credential=a/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
"""Signature that every request gets: moto refuses anonymous writes, but does not check signatures."""


class _RenamingProxy(StoreProxy):
    def asked_headers(self, headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        yield "Authorization", _ANY_SIGNATURE
        for given, value in headers:
            name = given.lower()
            if name == "authorization":
                continue
            if name == _CONDITION:
                # Generation 0 is a missing object; obstore sends no other one.
                assert value == "0", value
                yield "If-None-Match", "*"
            else:
                yield _TO_S3.get(name, name.replace(_OF_GOOGLE, _OF_S3)), value

    def answered_headers(self, headers: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
        for name, value in headers:
            yield name.lower().replace(_OF_S3, _OF_GOOGLE), value


@contextmanager
def running_google(bucket: str) -> Iterator[dict[str, str]]:
    """Run a store with an empty bucket, and yield its options by the names of Google's connector for Hadoop."""
    with running_s3(bucket) as store, _RenamingProxy.before(store) as proxy:
        yield {
            "fs.gs.storage.root.url": f"http://127.0.0.1:{proxy.port}",
            "fs.gs.auth.type": "UNAUTHENTICATED",
        }


# -- with rights ------------------------------------------------------------------------------------------------------

_PERMISSIONS = {
    "inRole:roles/storage.objectViewer": frozenset({"get", "list"}),
    "inRole:roles/storage.objectUser": frozenset({"get", "list", "create", "delete", "update"}),
}
_OBJECTS = re.compile(r"resource\.name\.startsWith\('([^'\\]+)'\)")
_LISTS = re.compile(r"api\.getAttribute\('storage\.googleapis\.com/objectListPrefix', ?''\)\.startsWith\('([^'\\]+)'\)")


@dataclass(frozen=True)
class BoundToken:
    """A token that the token service has issued: its permissions on objects, and on lists, whose names begin so."""

    permissions: frozenset[str]
    objects: str
    lists: str


class EnforcingGoogle:
    """Google's store with its token service: a token has the rights of its credential access boundary.

    The only account is that of the key file. `token_seconds` is the lifetime that the service reports.
    """

    def __init__(self, bucket: str, directory: Path) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        self.bucket = bucket
        self.key_file = directory / "account.json"
        self.token_seconds: float = 3600.0
        self.boundaries: list[Any] = []
        self.refused_tokens: set[str] = set()
        self.is_up = True
        self._issued: dict[str, BoundToken] = {}
        self._roots: set[str] = set()
        self.used: list[str] = []
        """The bound tokens of requests that were carried out, each once."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self._public_key: Any = key.public_key()
        self.private_key = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_TokenHandler, self))
        self.token_service = f"http://127.0.0.1:{self._server.server_address[1]}/sts"
        self._thread = threading.Thread(target=self._server.serve_forever, name="google-tokens")
        self.endpoint = ""

    @property
    def secrets(self) -> list[str]:
        """All tokens, and the key of the account."""
        return [*self._issued, *self._roots, self.private_key.splitlines()[1]]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a process that has the account's key."""
        return {"GOOGLE_APPLICATION_CREDENTIALS": str(self.key_file), "GOOGLE_BASE_URL": self.endpoint}

    def start(self) -> None:
        """Start the token service, and write the key file."""
        account = {
            "type": "service_account",
            "project_id": "p",
            "private_key_id": "k",
            "private_key": self.private_key,
            "client_email": "server@p.iam.gserviceaccount.com",
            "client_id": "1",
            "token_uri": self.token_service.replace("/sts", "/token"),
        }
        self.key_file.write_text(json.dumps(account))
        self._thread.start()

    def stop(self) -> None:
        """End the token service."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=at_most(60))

    def answer(self, path: str, form: Mapping[str, str]) -> tuple[int, dict[str, object]]:
        """Return the status and the JSON of an answer of the token service."""
        if not self.is_up:
            return 503, {"error": "unavailable"}
        if path == "/token":
            if not self._is_of_account(form["assertion"]):
                return 400, {"error": "invalid_grant"}
            token = secrets.token_urlsafe(24)
            self._roots.add(token)
            return 200, {"access_token": token, "expires_in": 3600, "token_type": "Bearer"}
        if form["subject_token"] not in self._roots:
            return 400, {"error": "invalid_request", "error_description": "unknown subject_token"}
        options = json.loads(unquote(form["options"]))
        bound = self._bound(options)
        if bound is None:
            return 400, {"error": "invalid_request", "error_description": "invalid boundary"}
        token = secrets.token_urlsafe(24)
        self._issued[token] = bound
        self.boundaries.append(options)
        return 200, {
            "access_token": token,
            "issued_token_type": form["requested_token_type"],
            "token_type": "Bearer",
            "expires_in": self.token_seconds,
        }

    def _bound(self, options: Any) -> BoundToken | None:
        """Return the rights of a boundary; None for one that is not understood."""
        (rule,) = options["accessBoundary"]["accessBoundaryRules"]
        parts = rule["availabilityCondition"]["expression"].split(" || ")
        objects, lists = (
            [found[1] for found in map(pattern.fullmatch, parts) if found] for pattern in (_OBJECTS, _LISTS)
        )
        is_bucket = rule["availableResource"] == f"//storage.googleapis.com/projects/_/buckets/{self.bucket}"
        if not is_bucket or len(parts) != 2 or len(objects) != 1 or len(lists) != 1:
            return None
        given = [_PERMISSIONS[each] for each in rule["availablePermissions"]]
        return BoundToken(permissions=frozenset().union(*given), objects=objects[0], lists=lists[0])

    def _is_of_account(self, token: str) -> bool:
        import jwt

        try:
            jwt.decode(token, self._public_key, algorithms=["RS256"], options={"verify_aud": False})
        except jwt.InvalidTokenError:
            return False
        return True

    def judge(self, request: Request) -> Fault | None:
        """Return the refusal of a request to the store, None for one that is carried out."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind == "Bearer" and (token in self._roots or self._is_of_account(token)):
            return None
        bound = self._issued.get(token)
        if kind != "Bearer" or bound is None or token in self.refused_tokens:
            return Fault(kind="answer", status=401, body=b"<Error><Code>AuthenticationRequired</Code></Error>")
        if not all(self._has(bound, *each) for each in self._needed(request)):
            return Fault(kind="answer", status=403, body=b"<Error><Code>AccessDenied</Code></Error>")
        if token not in self.used:
            self.used.append(token)
        return None

    def _needed(self, request: Request) -> list[tuple[str, str]]:
        """Return the permissions that a request needs, each with the object or the prefix of the list."""
        bucket, _, name = unquote(request.path)[1:].partition("/")
        query = dict(parse_qsl(request.query, keep_blank_values=True))
        if bucket != self.bucket or not name:
            is_list = bucket == self.bucket and request.method == "GET" and "list-type" in query
            return [("list", query.get("prefix", ""))] if is_list else [("administer", "")]
        resource = f"projects/_/buckets/{bucket}/objects/{name}"
        found = [
            (
                {"GET": "get", "HEAD": "get", "PUT": "create", "POST": "create", "DELETE": "delete"}[request.method],
                resource,
            )
        ]
        source = request.headers.get("x-goog-copy-source")
        if source is not None:
            of, _, copied = unquote(source).removeprefix("/").partition("/")
            found.append(("get", f"projects/_/buckets/{of}/objects/{copied}"))
        return found

    @staticmethod
    def _has(bound: BoundToken, permission: str, name: str) -> bool:
        return permission in bound.permissions and name.startswith(
            bound.lists if permission == "list" else bound.objects
        )


class _TokenHandler(BaseHTTPRequestHandler):
    """Requests of the token service."""

    def __init__(self, google: EnforcingGoogle, *arguments: Any) -> None:
        self._google = google
        super().__init__(*arguments)

    def log_message(self, *_: Any, **__: Any) -> None:
        """Log no line for a request."""

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"])).decode()
        status, answer = self._google.answer(self.path, dict(parse_qsl(content)))
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def enforcing_google(bucket: str, directory: Path) -> Iterator[EnforcingGoogle]:
    """Run a store with an empty bucket, whose rights are enforced, and its token service."""
    google = EnforcingGoogle(bucket, directory)
    with running_s3(bucket) as store, _RenamingProxy.before(store) as proxy:
        google.endpoint = f"http://127.0.0.1:{proxy.port}"
        proxy.fault = google.judge
        google.start()
        try:
            yield google
        finally:
            google.stop()
