"""Principals of Kerberos become users by rules, in the syntax of Hadoop's `hadoop.security.auth_to_local`.

A rule is `DEFAULT`, which takes the first component of a principal of the server's own realm, or

    RULE:[components:format](regular expression)s/pattern/replacement/g/L

The format has `$0` for the realm and `$1`, `$2` for the components. The expression has to match the whole formatted
text. The substitution replaces the first match, or all with `g`; `/L` makes the result lower-case. All parts after the
format are optional. The first rule that takes a principal decides; a principal that no rule takes is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from interbed.catalog.server.auth.principals import AuthenticationError

DEFAULT = "DEFAULT"

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
