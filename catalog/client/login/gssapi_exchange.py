"""The client's side of SASL GSSAPI (RFC 4752) with Kerberos, without I/O to the server."""

from collections.abc import Sequence

from interbed.catalog.client.errors import CatalogAccessError
from interbed.catalog.client.login.kerberos import KerberosLogin, error_text, gssapi
from interbed.storage.base.errors import InvalidOptionError

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
