"""An issuer of JWTs for tests: its keys, its tokens, and its documents by HTTP."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER = "https://id.example.org/realms/lake"
AUDIENCE = "interbed"
NOW = 1_800_000_000


def rsa_key() -> Any:
    """Return a new RSA key."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def ec_key() -> Any:
    """Return a new key of an elliptic curve."""
    return ec.generate_private_key(ec.SECP256R1())


def public_jwk(key: Any, key_id: str, **further: Any) -> dict[str, Any]:
    """Return the public part of a key as a JWK."""
    algorithm: Any = jwt.get_algorithm_by_name("RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256")
    return {**algorithm.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig", **further}


def trusting(directory: Path, key: Any) -> tuple[str, ...]:
    """Return the arguments of a server that takes the issuer's tokens, signed by the key `k`, and write its keys."""
    keys = directory / "keys.json"
    keys.write_text(json.dumps({"keys": [public_jwk(key, "k")]}))
    return ("--jwt-issuer", ISSUER, "--jwt-audience", AUDIENCE, "--jwt-keys", str(keys))


def claims(**changes: Any) -> dict[str, Any]:
    """Return the claims of a valid token; a change to None leaves a claim out."""
    values = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": NOW + 300, "iat": NOW, **changes}
    return {name: value for name, value in values.items() if value is not None}


@dataclass
class Issuer:
    """Documents that an issuer serves; `requests` are the paths that were asked for."""

    keys: list[dict[str, Any]]
    requests: list[str] = field(default_factory=list)
    is_down: bool = False
    redirect: str | None = None
    redirect_status: int = 302
    keys_url: str | None = None
    """The address of the keys in the metadata; None for that of this server."""
    url: str = ""

    def document(self, path: str) -> bytes | None:
        """Return the document at a path, None if there is none."""
        if path == "/.well-known/openid-configuration":
            address = f"{self.url}/keys" if self.keys_url is None else self.keys_url
            return json.dumps({"issuer": self.url, "jwks_uri": address}).encode()
        return json.dumps({"keys": self.keys}).encode() if path == "/keys" else None


@contextmanager
def served(issuer: Issuer) -> Iterator[Issuer]:
    """Serve the documents on a free port of 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests.append(self.path)
            body = issuer.document(self.path)
            if issuer.redirect is not None:
                self.send_response(issuer.redirect_status)
                self.send_header("location", issuer.redirect)
                self.end_headers()
                return
            if issuer.is_down or body is None:
                self.send_error(503 if issuer.is_down else 404)
                return
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: Any = "-", size: Any = "-") -> None:
            """Print nothing of a request."""

        def log_error(self, *args: Any) -> None:
            """Print nothing of a request."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield issuer
        finally:
            server.shutdown()
            thread.join()
