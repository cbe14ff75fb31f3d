"""What a client of a bucket or container is opened with: its settings and its retry policy.

The retry policy is how often a request is repeated, the pauses between, and the time limits.
"""

import configparser
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from interbed.storage.base.backoff import ExponentialBackoff
from interbed.storage.base.errors import InterbedError, InvalidOptionError, StorageAccessError, is_installed
from interbed.storage.base.quantities import parse_duration_millis
from interbed.storage.io.stores.options import checked_word

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
    """The limits of one client; `retries` of a request come after the first try.

    `read_seconds` may pass between two pieces of an answer, `request_seconds` until the whole of it has come;
    `retry_seconds` after its first try a request is not repeated any more.
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
        """What the options say; by a field's name `get` gives the value of one, and `named` the name by which it was
        given. InvalidOptionError.
        """
        found: dict[str, Any] = {}
        for what in names:
            value = get(what)
            if value is not None:
                found[what] = _count(named(what), value) if what == "retries" else _seconds(named(what), value)
        if found.get("request_seconds") == 0:
            # As in Hadoop: the whole of an answer may take as long as it likes.
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
        """As obstore takes the limits of a request."""
        return {
            "connect_timeout": timedelta(seconds=self.connect_seconds),
            "read_timeout": timedelta(seconds=self.read_seconds),
            "timeout": timedelta(seconds=self.request_seconds),
        }

    @property
    def retry_config(self) -> dict[str, Any]:
        """As obstore takes the rest."""
        return {
            "max_retries": self.retries,
            "retry_timeout": timedelta(seconds=self.retry_seconds),
            "backoff": {
                # It draws from a range, which must not be empty.
                "init_backoff": timedelta(seconds=max(0.001, self.first_pause_seconds)),
                "max_backoff": timedelta(seconds=max(0.001, self.longest_pause_seconds)),
                "base": 2,
            },
        }

    @property
    def backoff(self) -> ExponentialBackoff:
        """The same for requests that obstore does not repeat."""
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
    """What obstore opens a bucket or container with; `kind` is the name of its class.

    `honours_conditions` says whether its puts do, None that it has to be tried. What may be secret is no part of the
    representation.
    """

    kind: str
    bucket: str
    location: str = ""
    """The bucket or container as a location begins: `s3://bucket`."""
    endpoint: str | None = None
    honours_conditions: bool | None = True
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    credentials: Callable[[], Any] | None = field(default=None, repr=False)
    limits: RequestLimits = field(default_factory=RequestLimits)
    source: str = ""
    """Where the credentials come from, for messages."""
    renews: bool = True
    """Whether they may be others when they are asked for again."""
    end: datetime | None = None
    """When they end, where they say it themselves."""
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What options say, by the names that are used here, and the name of the option that does."""

    @property
    def address_option(self) -> str:
        """What says which address is asked, for messages; empty where it is the cloud's own."""
        if self.endpoint is None:
            return ""
        name = self.given.get("endpoint")
        return "the endpoint of the environment" if name is None else f"the option '{name}'"

    @property
    def ended(self) -> str:
        """When the credentials have ended, by themselves; empty where that is not known to be so."""
        past = self.end is not None and self.end <= datetime.now(UTC)
        return f"{self.end:%Y-%m-%dT%H:%M:%SZ}" if past else ""

    @property
    def secrets(self) -> frozenset[str]:
        """What no message may have in it, as far as it is known here."""
        found = {self.config.get(name) for name in _SECRET_CONFIG} | {os.environ.get(n) for n in _SECRET_VARIABLES}
        if isinstance(self.credentials, LOCAL_KEYS):
            with suppress(InterbedError):
                keys = self.credentials()
                found |= {keys["secret_access_key"], keys["token"]}
        return frozenset(value for value in found if value)


_RENEWAL_MINUTES = 5


@dataclass(frozen=True, slots=True)
class FixedKeys:
    """Keys that options give, for as long as the store is open."""

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


class EnvironmentKeys:
    """The keys of the environment as it has them by now. InvalidOptionError where they can't be keys."""

    def __call__(self) -> Any:
        access, secret, token = (
            checked_word(os.environ.get(name) or None, f"The variable {name}")
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        )
        return _for_a_while(access, secret, token)


class ProfileKeys:
    """The keys of the profile as its file has them by now. InvalidOptionError where they can't be keys."""

    def __call__(self) -> Any:
        profile = aws_profile()
        access, secret, token = (
            checked_word(profile.get(name) or None, f"{name} of the profile '{profile_name()}'")
            for name in ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")
        )
        return _for_a_while(access, secret, token)


LOCAL_KEYS = (FixedKeys, EnvironmentKeys, ProfileKeys)
"""Those that are known without asking anybody."""


def _for_a_while(access: str | None, secret: str | None, token: str | None) -> Any:
    return {
        "access_key_id": access or "",
        "secret_access_key": secret or "",
        "token": token,
        "expires_at": datetime.now(UTC) + timedelta(minutes=_RENEWAL_MINUTES),
    }


def environment_has_keys() -> bool:
    """Whether it says where keys come from."""
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
    """The profile in use."""
    return os.environ.get("AWS_PROFILE") or "default"


def aws_profile() -> Mapping[str, str]:
    """What the files of AWS's tools say of the profile in use; of `config` and of `credentials`."""
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
    """What asks for the keys of a profile; None where it has none, or where what opens the store looks for them."""
    if profile.get("aws_access_key_id"):
        return ProfileKeys()
    other = next(
        (key for key in ("sso_session", "sso_start_url", "role_arn", "credential_process") if key in profile), None
    )
    if other is None or not is_installed("obstore"):
        return None
    # boto3 knows how to log in; it is asked where it is there.
    try:
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise StorageAccessError(
            f"The profile of AWS has '{other}', which boto3 knows to use: pip install boto3, or put keys into the "
            "environment (aws configure export-credentials --format env)."
        ) from None
    provider: Callable[[], Any] = Boto3CredentialProvider()
    return provider
