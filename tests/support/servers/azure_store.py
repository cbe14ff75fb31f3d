"""Azure's store that enforces shared access signatures of directories: Azurite behind a proxy that checks them.

Azurite knows signatures of containers and blobs alone. The proxy checks a signature of a directory by the key that it
has delegated: the signed text, the directory and its depth, the end, the permissions. A request with one reaches
Azurite by a signature of the account. The proxy also delegates keys, over TLS, to the identity of the server, and
gives that identity its tokens, as the service of a machine does. Requests with the account's key are handed on.
Source: Azure Storage, "Create a user delegation SAS" and "Get User Delegation Key".
"""

import base64
import hashlib
import hmac
import json
import secrets
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit
from xml.etree import ElementTree

from tests.support.certificates import make_certificates
from tests.support.servers.http_servers import AZURITE_ACCOUNT, AZURITE_KEY, running_azurite
from tests.support.servers.store_proxy import Fault, Request, StoreProxy
from tests.support.waits import at_most

ACCOUNT = AZURITE_ACCOUNT
HOST = f"{ACCOUNT}.dfs.core.windows.net"
_OF_SIGNATURES = frozenset(
    ("sig", "sv", "se", "st", "sp", "sr", "sdd", "skoid", "sktid", "skt", "ske", "sks", "skv", "spr", "sip")
)


class EnforcingAzure:
    """An account with a container, whose signatures are checked, and the identity of a server."""

    def __init__(self, container: str, directory: Path) -> None:
        self.container = container
        self.certificates = make_certificates(directory)
        self.endpoint = ""
        self.keys_given = 0
        self.used: list[str] = []
        """The signatures of requests that were carried out, each once."""
        self.delegated_key = base64.b64encode(secrets.token_bytes(32)).decode()
        self.identity_token = secrets.token_urlsafe(24)
        self._identity_header = secrets.token_urlsafe(16)
        self._tokens = ThreadingHTTPServer(("127.0.0.1", 0), partial(_AccountHandler, self))
        self._keys = ThreadingHTTPServer(("127.0.0.1", 0), partial(_AccountHandler, self))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificates / "server.pem", self.certificates / "server.key")
        self._keys.socket = context.wrap_socket(self._keys.socket, server_side=True)
        self.key_endpoint = f"https://127.0.0.1:{self._keys.server_address[1]}/{ACCOUNT}"
        self._threads = [
            threading.Thread(target=each.serve_forever, name="azure-account") for each in (self._tokens, self._keys)
        ]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a server: its identity, and the key by which it reaches the store itself."""
        return {
            "IDENTITY_ENDPOINT": f"http://127.0.0.1:{self._tokens.server_address[1]}/token",
            "IDENTITY_HEADER": self._identity_header,
            "REQUESTS_CA_BUNDLE": str(self.certificates / "ca.pem"),
            "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY,
            "AZURE_STORAGE_ENDPOINT": self.endpoint,
        }

    @property
    def secrets(self) -> list[str]:
        """The keys of the account and of the server, and its token."""
        return [AZURITE_KEY, self.delegated_key, self.identity_token]

    def start(self) -> None:
        """Start the services of tokens and keys."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End the services of tokens and keys."""
        for server, thread in zip((self._tokens, self._keys), self._threads, strict=True):
            server.shutdown()
            server.server_close()
            thread.join(timeout=at_most(60))

    def token_for(self, header: str | None) -> dict[str, object] | None:
        """Return the token of the identity for a request of its machine."""
        if header != self._identity_header:
            return None
        end = int((datetime.now(UTC) + timedelta(hours=8)).timestamp())
        return {"access_token": self.identity_token, "expires_on": str(end), "token_type": "Bearer"}

    def key_for(self, authorization: str | None, body: bytes) -> bytes | None:
        """Return the XML of a user delegation key; None for another identity."""
        if authorization != f"Bearer {self.identity_token}":
            return None
        asked = {each.tag: each.text or "" for each in ElementTree.fromstring(body)}
        self.keys_given += 1
        fields = {
            "SignedOid": "oid",
            "SignedTid": "tid",
            "SignedStart": asked["Start"],
            "SignedExpiry": asked["Expiry"],
            "SignedService": "b",
            "SignedVersion": "2022-11-02",
            "Value": self.delegated_key,
        }
        inner = "".join(f"<{name}>{value}</{name}>" for name, value in fields.items())
        return f'<?xml version="1.0" encoding="utf-8"?><UserDelegationKey>{inner}</UserDelegationKey>'.encode()

    def judge(self, request: Request) -> Fault | None:
        """Return the refusal of a request, None for one that is carried out."""
        query = dict(parse_qsl(request.query, keep_blank_values=True))
        if "sig" not in query:
            return None if request.headers.get("authorization", "").startswith("SharedKey ") else _refused(401)
        needed, name = self._needed(request, query)
        if not self._is_valid(query, name) or not set(needed) & set(query["sp"]):
            return _refused(403)
        source = request.headers.get("x-ms-copy-source")
        if source is not None:
            parts = urlsplit(source)
            of = dict(parse_qsl(parts.query))
            # A source of the same account may go without a signature of its own.
            if not self._is_valid(
                of if "sig" in of else query, unquote(parts.path).partition(f"/{self.container}/")[2]
            ):
                return _refused(403)
        if query["sig"] not in self.used:
            self.used.append(query["sig"])
        return None

    def _needed(self, request: Request, query: dict[str, str]) -> tuple[str, str]:
        """Return the permissions of which a request needs one, and the name of its blob or the prefix of its list."""
        parts = unquote(request.path).removeprefix(f"/{ACCOUNT}/").split("/", 1)
        if parts[0] != self.container:
            return "", ""
        if len(parts) == 1 or not parts[1]:
            is_list = request.method == "GET" and query.get("comp") == "list" and query.get("restype") == "container"
            return ("l", query.get("prefix", "")) if is_list else ("", "")
        known = {"GET": "r", "HEAD": "r", "PUT": "cw", "DELETE": "d"}
        is_plain = query.get("comp") in (None, "block", "blocklist")
        return (known.get(request.method, "") if is_plain else ""), parts[1]

    def _is_valid(self, query: dict[str, str], name: str) -> bool:
        """Return whether a signature is that of the delegated key, has not ended, and is for the directory."""
        if query.get("sr") != "d" or not query.get("sdd", "").isdigit() or query["sdd"] == "0":
            return False
        depth = int(query["sdd"])
        names = name.split("/")
        if len(names) <= depth or "" in names[:depth]:
            return False
        directory = "/".join(names[:depth])
        ends = [datetime.fromisoformat(query[each]) for each in ("se", "ske")]
        text = "\n".join(
            (
                *(query.get("sp", ""), query.get("st", ""), query["se"]),
                f"/blob/{ACCOUNT}/{self.container}/{directory}",
                *(query.get(each, "") for each in ("skoid", "sktid", "skt", "ske", "sks", "skv")),
                # Object ids, the id of the correlation, the users to whom a key is delegated.
                *("", "", "", "", ""),
                *(query.get("sip", ""), query.get("spr", ""), query["sv"], query["sr"]),
                # The snapshot, the scope of encryption, headers and parameters of the request.
                *("", "", "", ""),
                # Headers of the answer.
                *("", "", "", "", ""),
            )
        )
        key = base64.b64decode(self.delegated_key)
        expected = base64.b64encode(hmac.new(key, text.encode(), hashlib.sha256).digest()).decode()
        return hmac.compare_digest(expected, query["sig"]) and min(ends) > datetime.now(UTC)


def _refused(status: int) -> Fault:
    return Fault(kind="answer", status=status, headers={"x-ms-error-code": "AuthorizationFailure"})


class _SignatureProxy(StoreProxy):
    """Proxy that replaces checked signatures of directories by one of the account."""

    of_account = ""

    def asked_path(self, path: str) -> str:
        parts = urlsplit(path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        if not any(name == "sig" for name, _ in query):
            return path
        kept = urlencode([(name, value) for name, value in query if name not in _OF_SIGNATURES])
        return f"{parts.path}?{kept}{'&' if kept else ''}{self.of_account}"


class _AccountHandler(BaseHTTPRequestHandler):
    """Requests for tokens of the identity and for user delegation keys."""

    def __init__(self, azure: EnforcingAzure, *arguments: Any) -> None:
        self._azure = azure
        super().__init__(*arguments)

    def log_message(self, *_: Any, **__: Any) -> None:
        """Log no line for a request."""

    def do_GET(self) -> None:
        token = self._azure.token_for(self.headers.get("X-IDENTITY-HEADER"))
        self._answer(None if token is None else json.dumps(token).encode(), "application/json")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(self._azure.key_for(self.headers.get("Authorization"), body), "application/xml")

    def _answer(self, body: bytes | None, kind: str) -> None:
        self.send_response(403 if body is None else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")


@contextmanager
def enforcing_azure(container: str, directory: Path) -> Iterator[EnforcingAzure]:
    """Run an account with an empty container, whose signatures are checked."""
    from azure.storage.blob import AccountSasPermissions, ResourceTypes, generate_account_sas

    azure = EnforcingAzure(container, directory)
    with running_azurite(container) as options, _SignatureProxy.before(options) as proxy:
        proxy.of_account = generate_account_sas(
            ACCOUNT,
            AZURITE_KEY,
            resource_types=ResourceTypes(service=True, container=True, object=True),
            permission=AccountSasPermissions(read=True, write=True, delete=True, list=True, create=True, add=True),
            expiry=datetime.now(UTC) + timedelta(hours=8),
        )
        azure.endpoint = f"http://127.0.0.1:{proxy.port}/{ACCOUNT}"
        proxy.fault = azure.judge
        azure.start()
        try:
            yield azure
        finally:
            azure.stop()
