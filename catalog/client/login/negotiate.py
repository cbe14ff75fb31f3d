"""Login by Kerberos over HTTP: the header `Authorization: Negotiate <base64>` (RFC 4559), new for each request."""

import base64

from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.login.kerberos import KerberosLogin, error_text, gssapi

_SPNEGO = "1.3.6.1.5.5.2"


class NegotiateTokens:
    """Tokens for one server. Safe for many threads."""

    def __init__(self, login: KerberosLogin, principal: str) -> None:
        """Make tokens for the server of a principal: `HTTP/host@REALM`, or `HTTP@host` for the realm of krb5.conf."""
        self._login = login
        self._principal = principal
        kind = gssapi().NameType.kerberos_principal if "/" in principal else gssapi().NameType.hostbased_service
        self._name = gssapi().Name(principal, kind)

    def authorization(self) -> str:
        """Return the value of the header for one request. CatalogAccessError without a ticket."""
        mechanism = gssapi().OID.from_int_seq(_SPNEGO)
        context = gssapi().SecurityContext(
            name=self._name, creds=self._login.credentials(mechanism), mech=mechanism, usage="initiate", flags=[]
        )
        try:
            token = context.step(None)
        except gssapi().exceptions.GSSError as error:
            raise CatalogAccessError(
                f"no ticket of Kerberos for {self._principal}: {error_text(error)}. {self._login.way_out}"
            ) from error
        return f"Negotiate {base64.b64encode(token).decode()}"
