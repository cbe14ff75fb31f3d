"""Object stores opened by pyarrow: where obstore is not installed, and for what obstore can't name.

Options are read as for obstore. pyarrow's clients can do a part of what these say; the rest is refused by its name, so
that nobody takes for done what is not.
"""

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from interbed.storage.base.errors import MissingExtraError
from interbed.storage.base.extras import missing_extra
from interbed.storage.base.fileio.stores.aws_keys import FixedKeys
from interbed.storage.base.fileio.stores.values import StoreSettings

if TYPE_CHECKING:
    from pyarrow import fs as pafs

_DONE: Mapping[str, frozenset[str]] = {
    "S3Store": frozenset(
        (
            *("endpoint", "access", "secret", "token", "region", "path_style", "ssl", "provider", "conditional"),
            *("retries", "connect_seconds", "read_seconds"),
        )
    ),
    # A project is needed for new buckets alone, and these are not made here.
    "GCSStore": frozenset(("auth", "endpoint", "project", "enabled")),
    "AzureStore": frozenset(
        ("endpoint", "account", "key", "sas", "auth", "client", "secret", "authority", "tenant", "provider")
    ),
}
"""What pyarrow's clients can do of what options say."""

_LOGIN = "https://login.microsoftonline.com"
_KEY_VARIABLES = ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY")
_SIGNATURE_VARIABLES = ("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY")


def pyarrow_store(settings: StoreSettings) -> "pafs.FileSystem":
    """The file system of a store, whose paths begin with the bucket or container.

    Raises MissingExtraError naming the option that only obstore can do; pyarrow's own errors come through.
    """
    for what, name in settings.given.items():
        if what not in _DONE[settings.kind]:
            raise _beyond(settings, name)
    if settings.kind == "S3Store":
        return _s3_store(settings)
    return _google_store(settings) if settings.kind == "GCSStore" else _azure_store(settings)


def pyarrow_s3(settings: StoreSettings, keys: Mapping[str, Any]) -> "pafs.FileSystem":
    """The same store by pyarrow beside obstore, with the keys that obstore has, and pyarrow's own patience."""
    from pyarrow import fs as pafs

    return pafs.S3FileSystem(**_s3_arguments(settings, keys))


def _beyond(settings: StoreSettings, name: str) -> MissingExtraError:
    return missing_extra("obstore", needed_by=f"What the option '{name}' says of {settings.location}")


def _s3_arguments(settings: StoreSettings, keys: Mapping[str, Any]) -> dict[str, Any]:
    """What is given of where the store is and whose requests they are; without keys pyarrow looks for some."""
    found: dict[str, Any] = {
        "access_key": keys.get("access_key_id"),
        "secret_key": keys.get("secret_access_key"),
        "session_token": keys.get("token"),
        "region": settings.config.get("region"),
        "anonymous": settings.config.get("skip_signature"),
    }
    if settings.endpoint is not None:
        found["scheme"], _, found["endpoint_override"] = settings.endpoint.partition("://")
        found["force_virtual_addressing"] = settings.config["virtual_hosted_style_request"] or None
    return {name: value for name, value in found.items() if value is not None}


def _s3_store(settings: StoreSettings) -> "pafs.FileSystem":
    from pyarrow import fs as pafs

    given, patience = settings.given, settings.patience
    if settings.endpoint is None and "path_style" in given and not settings.config["virtual_hosted_style_request"]:
        # It names AWS's buckets by their hosts.
        raise _beyond(settings, given["path_style"])
    if "conditional" in given and settings.heeds_conditions:
        raise _beyond(settings, given["conditional"])
    keys = settings.credentials() if isinstance(settings.credentials, FixedKeys) else {}
    arguments = _s3_arguments(settings, keys)
    if "retries" in given:
        arguments["retry_strategy"] = pafs.AwsStandardS3RetryStrategy(max_attempts=patience.retries + 1)
    if "connect_seconds" in given:
        arguments["connect_timeout"] = patience.connect_seconds
    if "read_seconds" in given:
        arguments["request_timeout"] = patience.read_seconds
    return pafs.S3FileSystem(**arguments)


def _google_store(settings: StoreSettings) -> "pafs.FileSystem":
    from pyarrow import fs as pafs

    arguments: dict[str, Any] = {"retry_time_limit": timedelta(seconds=settings.patience.retry_seconds)}
    if settings.endpoint is not None:
        arguments["scheme"], _, arguments["endpoint_override"] = settings.endpoint.partition("://")
    return pafs.GcsFileSystem(anonymous=bool(settings.config.get("skip_signature")), **arguments)


def _azure_store(settings: StoreSettings) -> "pafs.FileSystem":
    if sys.platform == "win32":
        raise missing_extra("obstore", needed_by=settings.location)
    from pyarrow import fs as pafs

    config, given = settings.config, settings.given
    secret = config.get("client_secret")
    if config.get("authority_host") not in (None, _LOGIN):
        raise _beyond(settings, given["authority"])
    if secret is None and "tenant" in given:
        raise _beyond(settings, given["tenant"])
    key, signature, client = config.get("account_key"), config.get("sas_key"), config.get("client_id")
    if not (key or signature or client or "auth" in given):
        key = _variable(_KEY_VARIABLES)
        signature = None if key else (_variable(_SIGNATURE_VARIABLES) or "").lstrip("?") or None
    arguments: dict[str, Any] = {
        "account_key": key,
        "sas_token": signature,
        "client_id": client,
        "client_secret": secret,
        "tenant_id": None if secret is None else config.get("tenant_id") or os.environ.get("AZURE_TENANT_ID"),
        **_azure_addresses(settings),
    }
    return pafs.AzureFileSystem(config["account_name"], **{k: v for k, v in arguments.items() if v is not None})


def _azure_addresses(settings: StoreSettings) -> dict[str, str]:
    """Those of blobs and of files, before whose host or in whose path pyarrow writes the account."""
    if settings.endpoint is None:
        return {}
    account, parts = settings.config["account_name"], urlsplit(settings.endpoint)
    path = parts.path.strip("/")
    if path == account:
        blobs = parts.netloc
    elif not path and parts.netloc.startswith(f"{account}."):
        blobs = parts.netloc.removeprefix(account)
    else:
        raise missing_extra("obstore", needed_by=f"{settings.location} at {settings.endpoint}")
    files = blobs.replace(".blob.", ".dfs.", 1)
    return {
        "blob_storage_authority": blobs,
        "blob_storage_scheme": parts.scheme,
        "dfs_storage_authority": files,
        "dfs_storage_scheme": parts.scheme,
    }


def _variable(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(os.environ.get, names)), None)
