"""JSON Web Tokens (RFC 7519) of an OpenID Connect issuer.

Accepted algorithms are those of the settings, all of them with public keys. The header of a token chooses among the
issuer's keys by an id; addresses and keys in it are ignored. Expiry, issuer and audience are required.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import jwt

from interbed.catalog.server.auth.jwt_rules import JwtRules
from interbed.catalog.server.auth.principals import (
    GROUPS_MAX,
    AuthenticationError,
    Mechanism,
    Principal,
    checked_name,
    checked_principal,
)
from interbed.catalog.server.auth.signing_keys import SigningKeys

TOKEN_BYTES_MAX = 16 * 1024
"""The longest token."""

KEPT_SECONDS_MAX = 60.0
"""Time for which a verified token is not verified again."""

_KEY_TYPES = {"R": "RSA", "P": "RSA", "E": "EC"}


class JwtVerifier:
    """Verifies the tokens of one issuer. Safe for many threads."""

    def __init__(self, rules: JwtRules, keys: SigningKeys, *, clock: Callable[[], float] = time.time) -> None:
        self._rules = rules
        self._keys = keys
        self._clock = clock

    def verify(self, token: str) -> tuple[Principal, float]:
        """Return the principal of a token, and the time until which the answer may be kept. AuthenticationError."""
        if len(token) > TOKEN_BYTES_MAX:
            raise AuthenticationError(f"The token has more than {TOKEN_BYTES_MAX} bytes")
        claims = self._claims(token)
        now = self._clock()
        self._check_times(claims, now)
        name = checked_principal(
            _claim(claims, self._rules.principal_claim), f"The claim {self._rules.principal_claim}"
        )
        principal = Principal(
            name=name, mechanism=Mechanism.JWT, groups=self._groups(claims), token_id=_token_id(claims.get("jti"))
        )
        return principal, min(now + KEPT_SECONDS_MAX, claims["exp"] + self._rules.skew_seconds)

    def _claims(self, token: str) -> Mapping[str, Any]:
        rules = self._rules
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = header.get("alg"), header.get("kid")
            if not isinstance(algorithm, str) or algorithm not in rules.algorithms:
                raise AuthenticationError(f"The token is not signed by one of {', '.join(rules.algorithms)}")
            if header.get("crit") is not None:
                raise AuthenticationError("The token has critical extensions, which are not supported")
            if key_id is not None and not isinstance(key_id, str):
                raise AuthenticationError("The key id of the token is no text")
            key = self._keys.find(key_id)
            # The type of the key decides, not the header: a public key never verifies a symmetric signature.
            if key.key_type != _KEY_TYPES[algorithm[0]] and not (algorithm == "EdDSA" and key.key_type == "OKP"):
                raise AuthenticationError("The key of the token is of another type than its algorithm")
            return jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=rules.issuer,
                audience=rules.audience,
                options={
                    "require": ["exp", "iss", "aud"],
                    # Times are checked by the server's clock and skew.
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except AuthenticationError:
            raise
        except jwt.InvalidIssuerError as error:
            raise AuthenticationError(f"The token is not one of {rules.issuer}") from error
        except jwt.InvalidAudienceError as error:
            raise AuthenticationError(f"The token is not for the audience {rules.audience}") from error
        except jwt.MissingRequiredClaimError as error:
            raise AuthenticationError(f"The token lacks the claim {error.claim}") from error
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError, json.JSONDecodeError) as error:
            raise AuthenticationError("The token is not valid") from error

    def _check_times(self, claims: Mapping[str, Any], now: float) -> None:
        skew = self._rules.skew_seconds
        for name in ("exp", "nbf", "iat"):
            value = claims.get(name)
            if value is None and name != "exp":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**53:
                raise AuthenticationError(f"The claim {name} of the token is no time")
            if name == "exp" and now >= value + skew:
                raise AuthenticationError("The token has expired")
            if name != "exp" and now < value - skew:
                raise AuthenticationError("The token is not valid yet: compare the clocks of its issuer and the server")

    def _groups(self, claims: Mapping[str, Any]) -> frozenset[str]:
        if self._rules.groups_claim is None:
            return frozenset()
        what = f"The claim {self._rules.groups_claim}"
        found = _claim(claims, self._rules.groups_claim)
        if found is None:
            return frozenset()
        if isinstance(found, str):
            # A scope is a text with blanks (RFC 8693).
            found = found.split()
        if not isinstance(found, list) or len(found) > GROUPS_MAX:
            raise AuthenticationError(f"{what} is no list of up to {GROUPS_MAX} names")
        return frozenset(checked_name(each, f"An entry of {what[0].lower()}{what[1:]}") for each in found)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path, None if it is missing. A claim whose name has the dots goes first."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _token_id(value: object) -> str | None:
    """Return the id of a token for logs, None for one that is no name."""
    try:
        return None if value is None else checked_name(value, "The id of the token")
    except AuthenticationError:
        return None
