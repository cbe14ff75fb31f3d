"""Kerberos of a client: its tickets, and its side of SASL GSSAPI and of HTTP's Negotiate.

Tickets come from the ticket cache of the client's user (`kinit`), or are fetched and renewed with a keytab. Options are
Paimon's: `security.kerberos.login.principal`, `security.kerberos.login.keytab` and
`security.kerberos.login.use-ticket-cache`. MIT's library keeps the tickets of a keytab in the memory of the process,
and fetches new ones when half of their lifetime is over.

SASL GSSAPI is that of RFC 4752, without I/O to the server. The header `Authorization: Negotiate <base64>` (RFC 4559) is
new for each request. The library of the extra `kerberos` is loaded when one of them is used.
"""

import base64
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.options import CatalogOptions
from interbed.storage.base.errors import InvalidOptionError, load_extra

HOST = "_HOST"
"""In the principal of a server, the name of the host that is connected."""

_caches = itertools.count(1)


def gssapi() -> Any:
    """Return the library of GSSAPI, which the extra `kerberos` installs. MissingExtraError."""
    return load_extra("gssapi", needed_by="A login by Kerberos")


class AuthorizationSource(Protocol):
    """Source of the header Authorization."""

    def authorization(self) -> str:
        """Return the value of the header for one request. CatalogAccessError."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """The login of a client. Without a keytab, the tickets are those of the user's ticket cache; `principal` is the
    client's, None for that of the cache.
    """

    principal: str | None = None
    keytab: str | None = None
    cache: str = field(default_factory=lambda: f"MEMORY:interbed-{next(_caches)}", compare=False)

    @staticmethod
    def of(options: CatalogOptions) -> "KerberosLogin":
        """Return the login of a catalog's options. InvalidOptionError, MissingExtraError."""
        gssapi()
        principal, keytab = options.kerberos_login_principal, options.kerberos_login_keytab
        if keytab is None:
            if not options.kerberos_login_use_ticket_cache:
                raise InvalidOptionError(
                    "Option 'security.kerberos.login.use-ticket-cache' is false; give the options "
                    "'security.kerberos.login.keytab' and 'security.kerberos.login.principal'."
                )
            return KerberosLogin(principal=principal)
        if principal is None:
            raise InvalidOptionError(
                "Option 'security.kerberos.login.keytab' needs 'security.kerberos.login.principal', the principal of "
                "the client in it."
            )
        try:
            with Path(keytab).open("rb"):
                pass
        except OSError as error:
            raise InvalidOptionError(
                f"Option 'security.kerberos.login.keytab' names a file that can't be read: {error}"
            ) from error
        return KerberosLogin(principal=principal, keytab=keytab)

    def credentials(self, mechanism: Any) -> Any:
        """Return credentials with tickets for a mechanism of GSSAPI. CatalogAccessError if there are none."""
        store = None
        if self.keytab is not None:
            store = {"client_keytab": f"FILE:{self.keytab}", "ccache": self.cache}
        try:
            name = None
            if self.principal is not None:
                name = gssapi().Name(self.principal, gssapi().NameType.kerberos_principal)
            return gssapi().Credentials(name=name, usage="initiate", mechs=[mechanism], store=store)
        except gssapi().exceptions.GSSError as error:
            raise CatalogAccessError(f"there is no ticket of Kerberos: {error_text(error)}. {self.way_out}") from error

    @property
    def way_out(self) -> str:
        """Advice for a user without a ticket."""
        if self.keytab is not None:
            return (
                "Check 'security.kerberos.login.principal' and 'security.kerberos.login.keytab', and the address of "
                "the KDC in krb5.conf"
            )
        return "Run kinit, or give the options 'security.kerberos.login.keytab' and 'security.kerberos.login.principal'"


def server_principal(principal: str, host: str) -> str:
    """Return the principal of a server, with its host in place of `_HOST`. InvalidOptionError."""
    service, slash, rest = principal.partition("/")
    instance, at, realm = rest.partition("@")
    if not (service and slash and instance and at and realm):
        raise InvalidOptionError(
            f"hive.metastore.kerberos.principal is {principal!r}; it has to look like service/host@REALM or "
            "service/_HOST@REALM."
        )
    return f"{service}/{host.lower() if instance == HOST else instance}@{realm}"


def error_text(error: Any) -> str:
    """Return the text of an error of GSSAPI in one line: that of the mechanism, or else the general one."""
    minor = str(error.get_all_statuses(error.min_code, False)[0]) if error.min_code else ""
    major = str(error.get_all_statuses(error.maj_code, True)[0])
    return (minor if minor and "Unknown error" not in minor else major).strip()


GSSAPI = "GSSAPI"
"""The name of the mechanism."""

LAYERS = {"authentication": 1, "integrity": 2, "privacy": 4}
"""Flags of the layers of protection, by their names in `hadoop.rpc.protection`."""

_FRAME_BYTES_MAX = 0xFFFFFF
_OFFER_BYTES = 4


class GssapiLogin:
    """One negotiation with a server, and the protection of frames after it. For one thread at a time."""

    def __init__(
        self, login: KerberosLogin, principal: str, *, layers: Sequence[str] = ("authentication",), acts_for: str = ""
    ) -> None:
        """Begin a negotiation with the server of a principal; CatalogAccessError without a ticket of the client.

        `layers` are those that the client takes, the first one that the server offers is used. `acts_for` is another
        user, for which the server lets this one act.
        """
        self._login = login
        self._principal = principal
        self._layers = layers
        self._acts_for = acts_for
        self._layer = 0
        self._context = gssapi().SecurityContext(
            name=gssapi().Name(principal, gssapi().NameType.kerberos_principal),
            creds=login.credentials(gssapi().MechType.kerberos),
            mech=gssapi().MechType.kerberos,
            flags=[
                gssapi().RequirementFlag.mutual_authentication,
                gssapi().RequirementFlag.integrity,
                gssapi().RequirementFlag.confidentiality,
                gssapi().RequirementFlag.replay_detection,
                gssapi().RequirementFlag.out_of_sequence_detection,
            ],
            usage="initiate",
        )

    @property
    def has_chosen(self) -> bool:
        """Whether the client has sent its last response."""
        return self._layer != 0

    @property
    def is_protected(self) -> bool:
        """Whether frames are protected."""
        return self._layer > LAYERS["authentication"]

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to a challenge; the first one is the response to none. CatalogAccessError."""
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge or None) or b"")
            return self._choice(self._context.unwrap(challenge).message)
        except gssapi().exceptions.GSSError as error:
            raise CatalogAccessError(
                f"no ticket of Kerberos for {self._principal}: {error_text(error)}. {self._login.way_out}; "
                "hive.metastore.kerberos.principal is the principal of the server"
            ) from error

    def wrap(self, message: bytes) -> bytes:
        """Return the content of a frame with a message."""
        return bytes(self._context.wrap(message, self._layer == LAYERS["privacy"]).message)

    def unwrap(self, frame: bytes) -> bytes:
        """Return the message in the content of a frame. ValueError for one that is not the server's."""
        try:
            found = self._context.unwrap(frame)
        except gssapi().exceptions.GSSError as error:
            raise ValueError(error_text(error)) from error
        if self._layer == LAYERS["privacy"] and not found.encrypted:
            raise ValueError("the frame is not encrypted")
        return bytes(found.message)

    def _choice(self, offer: bytes) -> bytes:
        """Return the choice among the server's layers of protection."""
        if len(offer) != _OFFER_BYTES:
            raise CatalogAccessError(f"{self._principal} offers layers of protection in {len(offer)} bytes")
        for name in self._layers:
            if offer[0] & LAYERS[name]:
                self._layer = LAYERS[name]
                break
        else:
            offered = ", ".join(name for name, flag in LAYERS.items() if offer[0] & flag) or "none"
            raise InvalidOptionError(
                f"hadoop.rpc.protection is {','.join(self._layers)}, and {self._principal} offers {offered}: set one "
                "of these."
            )
        longest = _FRAME_BYTES_MAX if self.is_protected else 0
        choice = bytes((self._layer,)) + longest.to_bytes(3) + self._acts_for.encode()
        return bytes(self._context.wrap(choice, False).message)


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
