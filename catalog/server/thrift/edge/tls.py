"""TLS: the server's certificate, clients' certificates, and the handshake in steps that do not wait."""

import ssl
from pathlib import Path
from typing import Any

HANDSHAKE_SECONDS_MAX = 10.0
"""How long a client may take for the handshake."""

# As subjects are mostly written (RFC 4514).
_SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "stateOrProvinceName": "ST",
    "localityName": "L",
}


def server_context(certificate: Path, key: Path | None, client_ca: Path | None) -> ssl.SSLContext:
    """A context for servers; with `client_ca` clients have to show a certificate that it has signed.

    OSError if a file cannot be used.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except ssl.SSLError as error:
        raise OSError(f"the TLS certificate {certificate}, its key or the clients' authorities: {error}") from error
    return context


def step(link: Any) -> bool:
    """Go on with the handshake; whether it is done, else the client has to say something first. OSError."""
    try:
        link.do_handshake()
    except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
        # What the server says in a handshake fits into the socket's buffer.
        return False
    return True


def client_subject(link: Any) -> str | None:
    """The subject of the client's certificate, `CN=…,O=…` with the most significant part last; None without one."""
    certificate = link.getpeercert()
    if not certificate:
        return None
    parts = [each for part in reversed(certificate.get("subject", ())) for each in part]
    return ",".join(f"{_SHORT.get(name, name)}={value}" for name, value in parts)
