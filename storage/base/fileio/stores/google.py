"""How Google's store is opened: options by the names of Hadoop's connector."""

from collections.abc import Mapping
from typing import Any

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.fileio.stores.options import StoreOptions, checked_bucket
from interbed.storage.base.fileio.stores.patience import GCS_NAMES, Patience
from interbed.storage.base.fileio.stores.values import StoreSettings

_NAMES = {
    "key_file": (
        "fs.gs.auth.service.account.json.keyfile",
        "google.cloud.auth.service.account.json.keyfile",
    ),
    "auth": ("fs.gs.auth.type",),
    "endpoint": ("fs.gs.storage.root.url",),
    "project": ("fs.gs.project.id",),
    "enabled": ("google.cloud.auth.service.account.enable", "fs.gs.auth.service.account.enable"),
    **GCS_NAMES,
}
_KINDS = ("SERVICE_ACCOUNT_JSON_KEYFILE", "UNAUTHENTICATED", "APPLICATION_DEFAULT", "COMPUTE_ENGINE")


def google_settings(bucket: str, given: Mapping[str, str]) -> StoreSettings:
    """The settings of a bucket; raises InvalidOptionError naming the option, InvalidInputError."""
    location = f"gs://{bucket}"
    checked_bucket(bucket, location)
    options = StoreOptions("Google's store", _NAMES, ("fs.gs.", "google."), given)
    config: dict[str, Any] = {}
    key_file, auth = options.get("key_file"), options.get("auth")
    endpoint = options.address("endpoint", ("GOOGLE_BASE_URL",))
    if auth is not None and auth not in _KINDS:
        raise InvalidOptionError(f"The option '{options.name('auth')}' may be {', '.join(_KINDS)}, not '{auth}'.")
    if key_file is not None and auth not in (None, _KINDS[0]):
        raise InvalidOptionError(
            f"The options '{options.name('key_file')}' and '{options.name('auth')}' contradict each other."
        )
    if auth == _KINDS[0] and key_file is None:
        raise InvalidOptionError(f"'{options.name('auth')}' = '{auth}' needs '{options.name('key_file')}'.")
    if key_file is not None:
        config["service_account"] = key_file
    if auth == "UNAUTHENTICATED":
        config["skip_signature"] = True
    if endpoint is not None:
        config["base_url"] = endpoint
    return StoreSettings(
        kind="GCSStore",
        bucket=bucket,
        location=location,
        endpoint=endpoint,
        heeds_conditions=True if endpoint is None else None,
        config=config,
        credentials=_no_token if auth == "UNAUTHENTICATED" else None,
        patience=Patience.of(options.get, GCS_NAMES, options.name),
        source="" if key_file is None else f"the option '{options.name('key_file')}'",
        given=options.named(),
    )


def _no_token() -> Any:
    """What an emulator is content with; obstore asks for a token to write with even where requests go unsigned."""
    return {"token": "none", "expires_at": None}
