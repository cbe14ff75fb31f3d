"""Principals: the credentials that clients present, the rules by which these become principals, and the errors.

Claims of a JSON Web Token become a principal by `JwtRules`, which the settings need without the library that verifies
tokens. Principals of Kerberos become users by rules in the syntax of Hadoop's `hadoop.security.auth_to_local`. A rule
is `DEFAULT`, which takes the first component of a principal of the server's own realm, or

    RULE:[components:format](regular expression)s/pattern/replacement/g/L

The format has `$0` for the realm and `$1`, `$2` for the components. The expression has to match the whole formatted
text. The substitution replaces the first match, or all with `g`; `/L` makes the result lower-case. All parts after the
format are optional. The first rule that takes a principal decides; a principal that no rule takes is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from interbed.storage.base.shown_text import escaped

NAME_CHARACTERS_MAX = 256
"""The longest name of a principal or a group."""

OPTIMIZER = "interbed-optimizer"
"""The principal of the optimizer beside the server; no other mechanism accepts the name."""

GROUPS_MAX = 1000
"""The most groups of a principal."""

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Supported algorithms: signatures by private keys alone."""

DEFAULT_RULE = "DEFAULT"
SERVICE_PRINCIPAL = re.compile(r"[^/@\\\s]+/[^/@\\\s]+@[^/@\\\s]+")
"""Form of a server's principal, with a host and a realm."""

_PRINCIPAL = re.compile(r"([^/@\\]+)(?:/([^/@\\]+))?@([^/@\\]+)")
_RULE = re.compile(
    r"\s*(?:(?P<default>DEFAULT)"
    r"|RULE:\[(?P<count>\d*):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?)/?(?P<lower>L)?"
)
_PARAMETER = re.compile(r"\$(\d+)")
_NOT_SIMPLE = re.compile(r"[/@]")


class Mechanism(StrEnum):
    """Mechanisms of authentication, by their names in the setting `authentication`."""

    CERTIFICATE = "certificate"
    TOKEN = "token"
    JWT = "jwt"
    LDAP = "ldap"
    DELEGATION_TOKEN = "delegation-token"
    KERBEROS = "kerberos"
    OPTIMIZER = "optimizer"
    """Of the optimizer beside the server; no setting has it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """An authenticated user or service. `token_id` identifies the token that it presented, None without one.
    `real_user` is the authenticated service that acts for the user, None where the user acts itself.
    """

    name: str
    mechanism: Mechanism
    groups: frozenset[str] = field(default_factory=frozenset)
    token_id: str | None = None
    real_user: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCertificate:
    """A client certificate that TLS has verified: its subject, the common names in that, and its end (`notAfter`) in
    seconds since the epoch.
    """

    subject: str
    common_names: tuple[str, ...]
    ends_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The credentials of a request or a connection: a bearer token, or a user and its password, which may be a token;
    and the verified certificate of the client, None without one. `address` is that of the client, by which failures
    are counted; None where they are not.
    """

    bearer: str | None = field(default=None, repr=False)
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None
    address: str | None = None


class AuthenticationError(Exception):
    """The credentials are missing or are not accepted. The text is for the client: it has no secret."""


class AuthenticationUnavailableError(AuthenticationError):
    """The credentials cannot be verified at present. The text ends with the advice to try again."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason}; try again")


class BearerVerifier(Protocol):
    """A mechanism that verifies bearer tokens. Safe for many threads; may do I/O."""

    def verify(self, token: str) -> tuple[Principal, float]:
        """Return the principal, and the time until which the answer may be kept, in seconds since the epoch.

        AuthenticationError.
        """
        ...


class PasswordVerifier(Protocol):
    """A mechanism that verifies passwords. Safe for many threads; may do I/O."""

    def verify(self, user: str, password: str) -> tuple[Principal, float]:
        """Return the principal, and the time until which the answer may be kept. AuthenticationError."""
        ...


class VerifiedClient(Protocol):
    """A client that has proven its identity. Safe for many threads."""

    def verified(self) -> Principal:
        """Return the principal as of now; may do I/O. AuthenticationError if it has ended."""
        ...


class TicketVerifier(Protocol):
    """A mechanism that verifies the tokens of `Authorization: Negotiate`. Safe for many threads; does I/O."""

    def verify(self, token: str) -> tuple[VerifiedClient, str]:
        """Return the client, and the server's token for the answer. AuthenticationError."""
        ...


def checked_principal(name: object, what: str) -> str:
    """Return the name of a principal of a client. AuthenticationError."""
    found = checked_name(name, what)
    if found.lower() == OPTIMIZER:
        raise AuthenticationError(f"{what} is the name of the server's own optimizer")
    return found


def checked_name(name: object, what: str) -> str:
    """Return the name of a principal or a group. AuthenticationError for one that could be confused with another."""
    if not isinstance(name, str) or not name.strip():
        raise AuthenticationError(f"{what} is not a name")
    if len(name) > NAME_CHARACTERS_MAX:
        raise AuthenticationError(f"{what} has more than {NAME_CHARACTERS_MAX} characters")
    if name != name.strip() or escaped(name) != name:
        raise AuthenticationError(f"{what} has blanks at an end, or characters that cannot be shown")
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtRules:
    """Conditions on the claims of a token. Claims are paths of names with dots: `realm_access.roles`."""

    issuer: str
    audience: str
    algorithms: Sequence[str] = ("RS256", "ES256")
    principal_claim: str = "sub"
    groups_claim: str | None = None
    skew_seconds: float = 30.0


class AuthToLocalError(ValueError):
    """The rules are not in Hadoop's syntax."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosName:
    """A principal: `service/host@REALM`, or `user@REALM` without a host."""

    service: str
    host: str | None
    realm: str

    @staticmethod
    def parse(text: str) -> "KerberosName":
        """Return the parts of a principal. AuthenticationError for one of another form."""
        found = _PRINCIPAL.fullmatch(text)
        if found is None:
            raise AuthenticationError(
                f"The principal {text!a:.300} is not of the form user@REALM or service/host@REALM"
            )
        return KerberosName(service=found[1], host=found[2], realm=found[3])

    @property
    def components(self) -> tuple[str, ...]:
        """The components before the realm: one or two."""
        return (self.service,) if self.host is None else (self.service, self.host)

    def __str__(self) -> str:
        return f"{'/'.join(self.components)}@{self.realm}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LocalRule:
    """One rule. A rule without a format is DEFAULT."""

    text: str
    count: int = 0
    form: str | None = None
    match: re.Pattern[str] | None = None
    pattern: re.Pattern[str] | None = None
    replacement: str = ""
    replaces_all: bool = False
    makes_lower: bool = False

    def apply(self, name: KerberosName, realm: str) -> str | None:
        """Return the user of a principal, None if the rule does not take it. AuthenticationError."""
        found = self._taken(name, realm)
        if found is None:
            return None
        if _NOT_SIMPLE.search(found):
            raise AuthenticationError(
                f"The rule {self.text} of kerberos_auth_to_local makes {found!a:.300} of the principal {name}, which "
                "is no name of a user"
            )
        return found.lower() if self.makes_lower else found

    def _taken(self, name: KerberosName, realm: str) -> str | None:
        if self.form is None:
            return name.service if name.realm == realm else None
        if len(name.components) != self.count:
            return None
        parameters = (name.realm, *name.components)
        base = _PARAMETER.sub(lambda found: parameters[int(found[1])], self.form)
        if self.match is not None and self.match.fullmatch(base) is None:
            return None
        if self.pattern is None:
            return base
        return self.pattern.sub(self.replacement, base, count=0 if self.replaces_all else 1)


class AuthToLocal:
    """The rules of a server. `realm` is its own."""

    def __init__(self, rules: str, realm: str) -> None:
        """AuthToLocalError for rules in another syntax."""
        self._rules = _parsed(rules)
        self._realm = realm

    def user(self, principal: str) -> str:
        """Return the user of a principal. AuthenticationError if no rule takes it."""
        name = KerberosName.parse(principal)
        for rule in self._rules:
            user = rule.apply(name, self._realm)
            if user is not None:
                return user
        raise AuthenticationError(
            f"No rule of kerberos_auth_to_local takes the principal {name}; DEFAULT takes those of the realm "
            f"{self._realm}"
        )


def check_rules(rules: str) -> None:
    """Check the syntax of rules. AuthToLocalError."""
    _parsed(rules)


def _parsed(text: str) -> Sequence[_LocalRule]:
    rules: list[_LocalRule] = []
    rest = text.strip()
    while rest:
        found = _RULE.match(rest)
        if found is None or (rest[found.end() :] and not rest[found.end()].isspace()):
            raise AuthToLocalError(f"{rest[:200]!r} is no rule: it is DEFAULT or RULE:[n:format](match)s/from/to/")
        rules.append(_rule(found))
        rest = rest[found.end() :].strip()
    if not rules:
        raise AuthToLocalError("there is no rule, so that no principal would be accepted; DEFAULT is a rule")
    return rules


def _rule(found: re.Match[str]) -> _LocalRule:
    text = found[0].strip()
    makes_lower = found["lower"] is not None
    if found["default"] is not None:
        return _LocalRule(text=text, makes_lower=makes_lower)
    if not found["count"]:
        raise AuthToLocalError(f"{text} has no number of components")
    count = int(found["count"])
    for place in _PARAMETER.findall(found["format"]):
        if int(place) > count:
            raise AuthToLocalError(f"{text} uses ${place}, and takes principals of {count} components")
    try:
        match = None if found["match"] is None else re.compile(found["match"])
        pattern = None if found["pattern"] is None else re.compile(found["pattern"])
    except re.error as error:
        raise AuthToLocalError(f"{text} has a regular expression that is not valid: {error}") from error
    return _LocalRule(
        text=text,
        count=count,
        form=found["format"],
        match=match,
        pattern=pattern,
        replacement="" if pattern is None else _replacement(found["to"], pattern.groups, text),
        replaces_all=found["all"] is not None,
        makes_lower=makes_lower,
    )


def _replacement(text: str, groups: int, rule: str) -> str:
    """Return a replacement of Java's regular expressions as Python writes it: `$1` is a group, `\\x` is x."""
    python: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        following = text[position + 1 : position + 2]
        if character == "$" and following.isdigit():
            if int(following) > groups:
                raise AuthToLocalError(f"{rule} replaces by the group ${following}, and its pattern has {groups}")
            python.append(f"\\g<{following}>")
            position += 2
        elif character == "\\" and following:
            python.append(following.replace("\\", "\\\\"))
            position += 2
        else:
            python.append(character.replace("\\", "\\\\"))
            position += 1
    return "".join(python)
