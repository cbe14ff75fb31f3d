"""Certificates for tests: an authority, and what it has signed for a server and a client."""

import math
import shutil
import subprocess
from pathlib import Path

from interbed.catalog.server.auth.principals import ClientCertificate
from tests.support.waits import at_most

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_EXTENSIONS = """subjectAltName=DNS:localhost,IP:127.0.0.1
basicConstraints=CA:FALSE
keyUsage=digitalSignature
extendedKeyUsage=serverAuth,clientAuth
authorityKeyIdentifier=keyid
"""


def make_certificates(directory: Path) -> Path:
    """Create ca.pem, server.pem and client.pem with their keys in a directory, and return it."""
    authority = ["-subj", "/CN=Interbed test authority", "-addext", "keyUsage=critical,keyCertSign,cRLSign"]
    _openssl(directory, "req", "-x509", *_NEW_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", *authority)
    (directory / "extensions").write_text(_EXTENSIONS)
    for name in ("server", "client"):
        subject = ["-subj", f"/O=Interbed tests/CN={name}"]
        _openssl(directory, "req", *_NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", *subject)
        signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "extensions"]
        _openssl(directory, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    return directory


def certificate_of(*names: str, ends_at: float = math.inf) -> ClientCertificate:
    """Return a verified certificate with these common names in its subject."""
    return ClientCertificate(subject=",".join(f"CN={name}" for name in names), common_names=names, ends_at=ends_at)


def _openssl(directory: Path, *arguments: str) -> None:
    openssl = shutil.which("openssl")
    assert openssl is not None
    subprocess.run([openssl, *arguments], cwd=directory, check=True, capture_output=True, timeout=at_most(60))
