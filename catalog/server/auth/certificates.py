"""Client certificates: the principal of a verified subject.

TLS has verified the certificate. The name of the principal is that of the common name. A subject with several common
names, or with none, is refused, because another reader of it could take another one.
"""

from collections.abc import Sequence

from interbed.catalog.server.auth.principals import AuthenticationError, Mechanism, Principal, checked_name


def certificate_principal(names: Sequence[str]) -> Principal:
    """Return the principal of a certificate by the common names of its subject. AuthenticationError."""
    if len(names) != 1:
        raise AuthenticationError(
            f"The subject of the client's certificate has {len(names)} common names; exactly one names the principal"
        )
    return Principal(
        name=checked_name(names[0], "The common name of the client's certificate"), mechanism=Mechanism.CERTIFICATE
    )
