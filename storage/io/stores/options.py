"""Options of one family of object stores, and the settings of a client that they become: limits of requests, keys of
AWS, and StoreSettings with all of them.

Options have values, the names under which they were given, and checks. The keys of AWS come from options, from the
environment, or from the profile that AWS's own tools use.

Invalid values (an address without a scheme, a key with a line break) end in a panic of obstore's Rust code and not in
an error, so they are refused here. No message quotes a value that may be secret.
"""

import configparser
import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from interbed.storage.base.backoff import ExponentialBackoff
from interbed.storage.base.errors import (
    InterbedError,
    InvalidInputError,
    InvalidOptionError,
    StorageAccessError,
    is_installed,
)
from interbed.storage.base.shown_text import parse_duration_millis

_TUNING = re.compile(
    r"(?:hadoop\.)?(?:s3|fs\.(?:s3|s3n|s3a|gs|azure|abfs|abfss|wasb|wasbs))\.(?:impl|.*\.impl|connection\..*|threads\..*"
    r"|max\..*|committer\..*"
    r"|fast\.upload.*|experimental\..*|input\..*|inputstream\..*|outputstream\..*|block\.size|multipart\..*"
    r"|attempts\..*|retry\..*|change\.detection\..*|directory\.marker\..*|readahead\..*|paging\..*|buffer\..*|etag\..*"
    r"|performance\..*|create\..*|list\..*|read\..*|write\..*|io\..*|http\..*|user\.agent.*|statistics\..*)"
)
"""Tuning of Hadoop's client, which has no equivalent here."""

_ADDRESS = re.compile(
    r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?((?:/[a-z0-9._~$&+,=:/-]*)?)", re.IGNORECASE
)
_PORTS = range(1, 1 << 16)
_PRINTED = re.compile(r"[!-~]+")
_BUCKET = re.compile(r"\$?[A-Za-z0-9][A-Za-z0-9._-]*")


class StoreOptions:
    """Options of one family, by internal names; each may be given under several names.

    A name of Hadoop's configuration may have the prefix `hadoop.`, which Paimon removes.
    """

    def __init__(
        self, store: str, names: Mapping[str, tuple[str, ...]], families: tuple[str, ...], given: Mapping[str, str]
    ) -> None:
        self._names = {what: with_hadoops(some) for what, some in names.items()}
        self._given = given
        known = {name for some in self._names.values() for name in some}
        for key in given:
            if key.startswith(with_hadoops(families)) and key not in known and _TUNING.fullmatch(key) is None:
                names_known = sorted({name for some in names.values() for name in some})
                raise InvalidOptionError(
                    f"Nothing is known of the option '{key}' of {store}. Known are {', '.join(names_known)}."
                )

    def get(self, what: str) -> str | None:
        """Return the value of an option; InvalidOptionError when two of its names have different values."""
        found = [(name, self._given[name]) for name in self._names[what] if self._given.get(name)]
        if len({value for _, value in found}) > 1:
            raise InvalidOptionError(f"The options {listed(name for name, _ in found)} contradict each other.")
        return found[0][1] if found else None

    def flag(self, what: str) -> bool | None:
        """Return a value that is true or false; InvalidOptionError for others."""
        value = self.get(what)
        if value is None or value.lower() in ("true", "false"):
            return None if value is None else value.lower() == "true"
        raise InvalidOptionError(f"The option '{self.name(what)}' is true or false, not '{value}'.")

    def printed(self, what: str) -> str | None:
        """Return a value of printable characters, as headers of requests need it; InvalidOptionError for others."""
        return checked_word(self.get(what), f"The option '{self.name(what)}'")

    def address(self, what: str, variables: Iterable[str] = ()) -> str | None:
        """Return an address: the value, or that of the first variable of the environment. InvalidOptionError."""
        value = self.get(what)
        if value is not None:
            return checked_address(value, f"The option '{self.name(what)}'")
        variable = next((name for name in variables if os.environ.get(name)), None)
        return None if variable is None else checked_address(os.environ[variable], f"The variable {variable}")

    def name(self, what: str) -> str:
        """Return the name under which an option was given, or its first name."""
        names = self._names[what]
        return next((name for name in names if self._given.get(name)), names[0])

    def named(self) -> dict[str, str]:
        """Return the names under which options were given, by internal names."""
        return {what: self.name(what) for what in self._names if any(map(self._given.get, self._names[what]))}


def with_hadoops(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, and Paimon's names for those of Hadoop's configuration."""
    return (*names, *(f"hadoop.{name}" for name in names if name.startswith(("fs.", "google."))))


def listed(names: Iterable[str]) -> str:
    """Return names of options for a message."""
    return " and ".join(f"'{name}'" for name in names)


def checked_word(value: str | None, named: str) -> str | None:
    """Return the value; InvalidOptionError where it has a character that headers of requests can't have."""
    if value is not None and _PRINTED.fullmatch(value) is None:
        raise InvalidOptionError(
            f"{named} has a space, a line break or another character that can't be part of it; correct it."
        )
    return value


def checked_address(value: str, named: str) -> str:
    """Return the address without a final `/`; InvalidOptionError, without the value, which may have a password."""
    found = _ADDRESS.fullmatch(value)
    if found is not None and _is_host(found[2]) and (found[3] is None or int(found[3]) in _PORTS):
        scheme, _, rest = value.partition("://")
        return f"{scheme.lower()}://{rest.rstrip('/')}"
    if not value.lower().startswith(("http://", "https://")):
        why = ": it begins neither with http:// nor with https://"
    elif "@" in value:
        why = ": it has a user's name in it, and keys are options of their own"
    elif "?" in value or "#" in value:
        why = ": it has a query or a fragment"
    else:
        why = ""
    raise InvalidOptionError(f"{named} is no address such as https://host:port{why}; correct it.")


def is_number(host: str) -> bool:
    """Return whether a host is an IP address, or would be parsed as one, and is no name."""
    return ":" in host or host.rstrip(".").rpartition(".")[2].isdigit()


def _is_host(host: str) -> bool:
    if not is_number(host):
        return True
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def checked_bucket(bucket: str, location: str, kind: str = "bucket") -> str:
    """Return the name of a bucket or container; InvalidInputError for an invalid name."""
    if _BUCKET.fullmatch(bucket) is None:
        raise InvalidInputError(
            f"{location} names no {kind}: its name has letters, digits, '.', '-' and '_'. Correct the location."
        )
    return bucket


LIMITS = ("retries", "connect_seconds", "read_seconds")
"""Keys of the limits of requests in the tables of names."""

S3_NAMES: Mapping[str, tuple[str, ...]] = {
    "retries": ("fs.s3a.retry.limit", "s3.retry.limit"),
    "first_pause_seconds": ("fs.s3a.retry.interval", "s3.retry.interval"),
    "connect_seconds": ("fs.s3a.connection.establish.timeout", "s3.connection.establish.timeout"),
    "read_seconds": ("fs.s3a.connection.timeout", "s3.connection.timeout"),
    "request_seconds": ("fs.s3a.connection.request.timeout", "s3.connection.request.timeout"),
}
GCS_NAMES: Mapping[str, tuple[str, ...]] = {
    "retries": ("fs.gs.http.max.retry",),
    "connect_seconds": ("fs.gs.http.connect-timeout",),
    "read_seconds": ("fs.gs.http.read-timeout",),
}
AZURE_NAMES: Mapping[str, tuple[str, ...]] = {
    "retries": ("fs.azure.io.retry.max.retries",),
    "first_pause_seconds": ("fs.azure.io.retry.min.backoff.interval",),
    "longest_pause_seconds": ("fs.azure.io.retry.max.backoff.interval",),
    "connect_seconds": ("fs.azure.http.connection.timeout",),
    "read_seconds": ("fs.azure.http.read.timeout",),
}

RETRIES_MAX = 100
_DAY_SECONDS = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of the requests of one client; `retries` follow the first attempt.

    `read_seconds` may pass between two parts of a response, `request_seconds` until it is complete. A request is not
    repeated `retry_seconds` after its first attempt.
    """

    retries: int = 6
    first_pause_seconds: float = 0.1
    longest_pause_seconds: float = 5.0
    connect_seconds: float = 5.0
    read_seconds: float = 30.0
    request_seconds: float = 300.0
    retry_seconds: float = 90.0

    @staticmethod
    def of(get: Callable[[str], str | None], names: Iterable[str], named: Callable[[str], str]) -> "RequestLimits":
        """Return the limits of options. By the name of a field `get` returns the value of its option, and `named` the
        name under which it was given. Raises InvalidOptionError.
        """
        found: dict[str, Any] = {}
        for what in names:
            value = get(what)
            if value is not None:
                found[what] = _count(named(what), value) if what == "retries" else _seconds(named(what), value)
        if found.get("request_seconds") == 0:
            # As in Hadoop: there is no limit for a complete response.
            found["request_seconds"] = _DAY_SECONDS
        limits = replace(RequestLimits(), **found)
        for what in ("connect_seconds", "read_seconds"):
            if getattr(limits, what) == 0:
                raise InvalidOptionError(f"The option '{named(what)}' is 0, and every wait needs a limit.")
        if limits.longest_pause_seconds < limits.first_pause_seconds:
            limits = replace(limits, longest_pause_seconds=limits.first_pause_seconds)
        return limits

    @property
    def client_options(self) -> dict[str, Any]:
        """Limits of one request, as arguments of obstore."""
        return {
            "connect_timeout": timedelta(seconds=self.connect_seconds),
            "read_timeout": timedelta(seconds=self.read_seconds),
            "timeout": timedelta(seconds=self.request_seconds),
        }

    @property
    def retry_config(self) -> dict[str, Any]:
        """Limits of the retries, as arguments of obstore."""
        return {
            "max_retries": self.retries,
            "retry_timeout": timedelta(seconds=self.retry_seconds),
            "backoff": {
                # obstore draws from a range, which must not be empty.
                "init_backoff": timedelta(seconds=max(0.001, self.first_pause_seconds)),
                "max_backoff": timedelta(seconds=max(0.001, self.longest_pause_seconds)),
                "base": 2,
            },
        }

    @property
    def backoff(self) -> ExponentialBackoff:
        """Limits of the retries of requests that obstore does not repeat."""
        return ExponentialBackoff(
            first_seconds=self.first_pause_seconds,
            longest_seconds=self.longest_pause_seconds,
            jitter=(0.25, 1.0),
            retries=self.retries,
            timeout_seconds=self.retry_seconds,
            pause_within_timeout=False,
        )


def _count(name: str, value: str) -> int:
    if re.fullmatch(r"[0-9]{1,9}", value) is None or int(value) > RETRIES_MAX:
        raise InvalidOptionError(f"The option '{name}' is a number of retries up to {RETRIES_MAX}, not '{value}'.")
    return int(value)


def _seconds(name: str, value: str) -> float:
    seconds = parse_duration_millis(name, value) / 1000
    if seconds > _DAY_SECONDS:
        raise InvalidOptionError(f"The option '{name}' is a time up to 1 day, not '{value}'.")
    return seconds


_SECRET_CONFIG = ("account_key", "sas_key", "client_secret")
_SECRET_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_SECRET",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings by which obstore opens a bucket or container; `kind` is the name of obstore's class.

    `honours_conditions` is whether conditional puts are honoured, None where that has to be probed. Values that may be
    secret are not in the representation.
    """

    kind: str
    bucket: str
    location: str = ""
    """Beginning of locations in the bucket or container: `s3://bucket`."""
    endpoint: str | None = None
    honours_conditions: bool | None = True
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    credentials: Callable[[], Any] | None = field(default=None, repr=False)
    limits: RequestLimits = field(default_factory=RequestLimits)
    source: str = ""
    """Origin of the credentials, for messages."""
    renews: bool = True
    """Whether the credentials may change while the client is open."""
    end: datetime | None = None
    """Expiry of the credentials, if they contain it."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Names of the options that were given, by internal names."""

    @property
    def address_option(self) -> str:
        """Origin of the address, for messages; empty for the default address of the cloud."""
        if self.endpoint is None:
            return ""
        name = self.given.get("endpoint")
        return "the endpoint of the environment" if name is None else f"the option '{name}'"

    @property
    def ended(self) -> str:
        """Time when the credentials expired; empty where they did not, or it is not known."""
        past = self.end is not None and self.end <= datetime.now(UTC)
        return f"{self.end:%Y-%m-%dT%H:%M:%SZ}" if past else ""

    @property
    def secrets(self) -> frozenset[str]:
        """Secrets that no message may contain, as far as they are known here."""
        found = {self.config.get(name) for name in _SECRET_CONFIG} | {os.environ.get(n) for n in _SECRET_VARIABLES}
        if isinstance(self.credentials, LOCAL_KEYS):
            with suppress(InterbedError):
                keys = self.credentials()
                found |= {keys.get("secret_access_key"), keys["token"]}
        return frozenset(value for value in found if value)


_RENEWAL_MINUTES = 5


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """Keys from options, which never change."""

    access: str
    secret: str = field(repr=False)
    token: str | None = field(repr=False)

    def __call__(self) -> Any:
        return {
            "access_key_id": self.access,
            "secret_access_key": self.secret,
            "token": self.token,
            "expires_at": None,
        }


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token of Google's from options, which never changes."""

    token: str = field(repr=False)

    def __call__(self) -> Any:
        return {"token": self.token, "expires_at": None}


class EnvironmentKeys:
    """Current keys of the environment. InvalidOptionError for invalid keys."""

    def __call__(self) -> Any:
        access, secret, token = (
            checked_word(os.environ.get(name) or None, f"The variable {name}")
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        )
        return _expiring(access, secret, token)


class ProfileKeys:
    """Current keys of the profile, from its file. InvalidOptionError for invalid keys."""

    def __call__(self) -> Any:
        profile = aws_profile()
        access, secret, token = (
            checked_word(profile.get(name) or None, f"{name} of the profile '{profile_name()}'")
            for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        )
        return _expiring(access, secret, token)


LOCAL_KEYS = (FixedKeys, FixedToken, EnvironmentKeys, ProfileKeys)
"""Kinds of keys that are known without a request."""


def _expiring(access: str | None, secret: str | None, token: str | None) -> Any:
    return {
        "access_key_id": access or "",
        "secret_access_key": secret or "",
        "token": token,
        "expires_at": datetime.now(UTC) + timedelta(minutes=_RENEWAL_MINUTES),
    }


def environment_has_keys() -> bool:
    """Return whether the environment configures keys of AWS."""
    return any(
        os.environ.get(name)
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        )
    )


def profile_name() -> str:
    """Return the name of AWS's profile in use."""
    return os.environ.get("AWS_PROFILE") or "default"


def aws_profile() -> Mapping[str, str]:
    """Return the properties of the profile in use, from the files `config` and `credentials` of AWS's tools."""
    name = profile_name()
    found: dict[str, str] = {}
    home = os.path.expanduser("~/.aws")
    for variable, file, section in (
        ("AWS_CONFIG_FILE", "config", name if name == "default" else f"profile {name}"),
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", name),
    ):
        parser = configparser.RawConfigParser()
        path = os.environ.get(variable) or f"{home}/{file}"
        try:
            parser.read(path, encoding="utf-8")
        except configparser.Error as error:
            raise StorageAccessError(
                f"{path} can't be read as a file of AWS's profiles ({type(error).__name__})."
            ) from None
        if parser.has_section(section):
            found.update(parser.items(section))
    if not found and name != "default":
        raise StorageAccessError(f"AWS_PROFILE names '{name}', and no file of AWS's profiles has it.")
    return found


def profile_credentials(profile: Mapping[str, str]) -> Callable[[], Any] | None:
    """Return the keys of a profile; None where it has none, or where the client looks for them itself."""
    if profile.get("aws_access_key_id"):
        return ProfileKeys()
    other = next(
        (key for key in ("sso_session", "sso_start_url", "role_arn", "credential_process") if key in profile), None
    )
    if other is None or not is_installed("obstore"):
        return None
    # boto3 can log in, if it is installed.
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise StorageAccessError(
            f"The profile of AWS has '{other}', which boto3 knows to use: pip install boto3, or put keys into the "
            "environment (aws configure export-credentials --format env)."
        ) from None
    provider: Callable[[], Any] = Boto3CredentialProvider()
    return provider
