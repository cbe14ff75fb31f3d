"""Tickets of a client: from the ticket cache of its user (`kinit`), or fetched and renewed with a keytab.

Options are Paimon's: `security.kerberos.login.principal`, `security.kerberos.login.keytab` and
`security.kerberos.login.use-ticket-cache`. MIT's library keeps the tickets of a keytab in the memory of the process,
and fetches new ones when half of their lifetime is over.
"""

import itertools
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
