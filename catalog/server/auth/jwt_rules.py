"""Rules for JSON Web Tokens, which the settings need without the library that verifies tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Supported algorithms: signatures by private keys alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtRules:
    """Conditions on the claims of a token. Claims are paths of names with dots: `realm_access.roles`."""

    issuer: str
    audience: str
    algorithms: Sequence[str] = ("RS256", "ES256")
    principal_claim: str = "sub"
    groups_claim: str | None = None
    skew_seconds: float = 30.0
