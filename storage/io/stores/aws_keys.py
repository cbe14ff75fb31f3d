"""The keys of AWS: of options, of the environment, and of the profile that AWS's own tools use."""

import configparser
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from interbed.storage.base.errors import StorageAccessError, is_installed
from interbed.storage.io.stores.options import checked_word

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
