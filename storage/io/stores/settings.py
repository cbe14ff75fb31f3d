"""Settings of the object store of a URI, from options with Paimon's and Hadoop's names; and the same settings for
Hadoop's client, for readers in a JVM beside those of Python.

Without an option a value comes from the sources of the cloud's own tools: environment, profile or key file, and the
identity of the machine. Unknown options of these families are refused, except those that tune Hadoop's client
(`fs.s3a.connection.maximum`). Google's options have the names of Hadoop's connector.

Settings of Hadoop are those of one bucket (`fs.s3a.bucket.<bucket>.endpoint`), which override those of all buckets
(https://hadoop.apache.org/docs/stable/hadoop-aws/tools/hadoop-aws/). Only S3's client is known.
"""

import os
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.io.stores.azure import azure_settings
from interbed.storage.io.stores.options import (
    GCS_NAMES,
    S3_NAMES,
    EnvironmentKeys,
    FixedKeys,
    FixedToken,
    ProfileKeys,
    RequestLimits,
    StoreOptions,
    StoreSettings,
    aws_profile,
    checked_address,
    checked_bucket,
    checked_word,
    environment_has_keys,
    is_number,
    listed,
    profile_credentials,
    profile_name,
    with_hadoops,
)

_NAMES = {
    "key_file": (
        "fs.gs.auth.service.account.json.keyfile",
        "google.cloud.auth.service.account.json.keyfile",
    ),
    "auth": ("fs.gs.auth.type",),
    "endpoint": ("fs.gs.storage.root.url",),
    "project": ("fs.gs.project.id",),
    "enabled": ("google.cloud.auth.service.account.enable", "fs.gs.auth.service.account.enable"),
    # Names of our own: Hadoop's connector gets tokens from classes of Java.
    "token": ("fs.gs.auth.access.token",),
    "token_end": ("fs.gs.auth.access.token.expires-at",),
    **GCS_NAMES,
}
_KINDS = ("SERVICE_ACCOUNT_JSON_KEYFILE", "UNAUTHENTICATED", "APPLICATION_DEFAULT", "COMPUTE_ENGINE")


def google_settings(bucket: str, given: Mapping[str, str]) -> StoreSettings:
    """Return the settings of a bucket; raises InvalidOptionError naming the option, InvalidInputError."""
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
    token, token_end = options.printed("token"), options.get("token_end")
    if token is not None and (key_file or auth) is not None:
        other = options.name("auth" if key_file is None else "key_file")
        raise InvalidOptionError(f"The options '{options.name('token')}' and '{other}' contradict each other.")
    if token is None and token_end is not None:
        raise InvalidOptionError(f"'{options.name('token_end')}' needs '{options.name('token')}'.")
    credentials: Callable[[], Any] | None = _no_token if auth == "UNAUTHENTICATED" else None
    source = "" if key_file is None else f"the option '{options.name('key_file')}'"
    end = None
    if token is not None:
        credentials, source = FixedToken(token), f"the option '{options.name('token')}'"
        end = None if token_end is None else _time_of(options.name("token_end"), token_end)
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
        honours_conditions=True if endpoint is None else None,
        config=config,
        credentials=credentials,
        limits=RequestLimits.of(options.get, GCS_NAMES, options.name),
        source=source,
        renews=token is None,
        end=end,
        given=options.named(),
    )


def _time_of(name: str, value: str) -> datetime:
    if not value.isascii() or not value.isdecimal() or len(value) > 15:
        raise InvalidOptionError(f"The option '{name}' is a time in milliseconds since 1970, not '{value:.100}'.")
    return datetime.fromtimestamp(int(value) / 1000, UTC)


def _no_token() -> Any:
    """Return a token that an emulator accepts: obstore needs one for writes even where requests are not signed."""
    return {"token": "none", "expires_at": None}


S3_SCHEMES = frozenset({"s3"})
GCS_SCHEMES = frozenset({"gs"})
AZURE_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})
SCHEMES = S3_SCHEMES | GCS_SCHEMES | AZURE_SCHEMES
"""Schemes that obstore opens, in the form of `normalize_path`."""

_S3 = {
    "endpoint": ("s3.endpoint", "fs.s3a.endpoint"),
    "access": ("s3.access-key", "fs.s3a.access.key"),
    "secret": ("s3.secret-key", "fs.s3a.secret.key"),
    "token": ("s3.session-token", "fs.s3a.session.token"),
    "region": ("s3.region", "fs.s3a.endpoint.region"),
    "path_style": ("s3.path.style.access", "fs.s3a.path.style.access"),
    "ssl": ("fs.s3a.connection.ssl.enabled",),
    "provider": ("fs.s3a.aws.credentials.provider",),
    "conditional": ("s3.conditional-put",),
}
_PYPAIMONS = {
    "endpoint": ("fs.s3.endpoint",),
    "access": ("fs.s3.accessKeyId",),
    "secret": ("fs.s3.accessKeySecret",),
    "token": ("fs.s3.securityToken",),
    "region": ("fs.s3.region",),
}
_FAMILIES = ("s3.", "fs.s3a.", "fs.s3.", "fs.s3n.")

S3_OPTIONS: Mapping[str, tuple[str, ...]] = {
    # Paimon passes options that begin with `s3.` on to Hadoop's client.
    what: tuple(dict.fromkeys((*names, *(n.replace("fs.s3a.", "s3.", 1) for n in names), *_PYPAIMONS.get(what, ()))))
    for what, names in _S3.items()
} | dict(S3_NAMES)
"""Synonyms of each of S3's options, without those that begin with `hadoop.`."""

_AWS = re.compile(r"https://([a-z0-9.-]+\.)?amazonaws\.com(\.cn)?")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")


def store_settings(scheme: str, authority: str, options: Mapping[str, str]) -> StoreSettings:
    """Return the settings of the bucket or container in the authority of a URI.

    Raises InvalidOptionError naming the option, StorageAccessError where the environment contradicts itself.
    """
    if scheme in S3_SCHEMES:
        return _s3(authority, StoreOptions("S3", S3_OPTIONS, _FAMILIES, options))
    if scheme in GCS_SCHEMES:
        return google_settings(authority, options)
    return azure_settings(scheme, authority, options)


def _s3(bucket: str, options: StoreOptions) -> StoreSettings:
    location = f"s3://{bucket}"
    checked_bucket(bucket, location)
    config: dict[str, Any] = {}
    access, secret, token = (options.printed(what) for what in ("access", "secret", "token"))
    if (access is None) != (secret is None):
        there, lacking = ("access", "secret") if access else ("secret", "access")
        raise InvalidOptionError(f"The option '{options.name(there)}' needs '{options.name(lacking)}' beside it.")
    if token is not None and access is None:
        raise InvalidOptionError(f"The option '{options.name('token')}' needs '{options.name('access')}' beside it.")
    profile = aws_profile()
    region = options.printed("region") or _region(profile)
    if region:
        config["region"] = region
    credentials: Callable[[], Any] | None = None
    source = ""
    if _is_anonymous(options):
        if access is not None:
            raise InvalidOptionError(
                f"The options {listed(map(options.name, ('access', 'provider')))} contradict each other."
            )
        config["skip_signature"] = True
    elif access is not None:
        # As a provider, so that obstore does not combine them with a session token of the environment.
        credentials = FixedKeys(access, str(secret), token)
        source = f"the option '{options.name('access' if token is None else 'token')}'"
    elif os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        credentials, source = EnvironmentKeys(), "AWS_SESSION_TOKEN and its like in the environment"
        credentials()
    elif not environment_has_keys():
        credentials = profile_credentials(profile)
        source = f"the profile '{profile_name()}'" if credentials is not None else ""
        if isinstance(credentials, ProfileKeys):
            credentials()
    endpoint = _endpoint(options)
    virtual = options.flag("path_style") is False
    config["virtual_hosted_style_request"] = virtual
    if endpoint is not None:
        scheme, _, host = endpoint.partition("://")
        if virtual and is_number(urlsplit(endpoint).hostname or ""):
            raise InvalidOptionError(
                f"'{options.name('path_style')}' = 'false' puts the bucket into the name of the host, and {host} is a "
                "number; leave the option out, or name the host."
            )
        # Under both names, because AWS_ENDPOINT_URL_S3 overrides the other one in obstore.
        config["endpoint"] = f"{scheme}://{bucket}.{host}" if virtual else endpoint
        config["aws_endpoint_url_s3"] = config["endpoint"]
    # TLS protects the content; signing it as well would hash it, which takes longer than sending it.
    config["unsigned_payload"] = endpoint is None or endpoint.startswith("https:")
    # A copy that refuses an existing target, where the object store can do it.
    config["copy_if_not_exists"] = "multipart"
    return StoreSettings(
        kind="S3Store",
        bucket=bucket,
        location=location,
        endpoint=endpoint,
        honours_conditions=_honours_conditions(options, endpoint),
        config=config,
        credentials=credentials,
        limits=RequestLimits.of(options.get, S3_NAMES, options.name),
        source=source,
        renews=access is None,
        given=options.named(),
    )


def _region(profile: Mapping[str, str]) -> str | None:
    """Return the region of the environment, otherwise of the profile."""
    for name in _REGION_VARIABLES:
        if os.environ.get(name):
            return checked_word(os.environ[name], f"The variable {name}")
    return checked_word(profile.get("region"), f"The region of the profile '{profile_name()}'")


def _endpoint(options: StoreOptions) -> str | None:
    """Return the address of the object store, without the bucket; None for AWS."""
    given, is_secure = options.get("endpoint"), options.flag("ssl")
    if given is None or "://" in given:
        endpoint = options.address("endpoint", _ENDPOINT_VARIABLES)
        if given is not None and is_secure is not None and is_secure != str(endpoint).startswith("https:"):
            raise InvalidOptionError(
                f"The options {listed(map(options.name, ('endpoint', 'ssl')))} contradict each other."
            )
        return endpoint
    return checked_address(
        f"{'http' if is_secure is False else 'https'}://{given}", f"The option '{options.name('endpoint')}'"
    )


def _honours_conditions(options: StoreOptions, endpoint: str | None) -> bool | None:
    said = options.get("conditional")
    if said not in (None, "auto", "etag", "disabled"):
        raise InvalidOptionError(f"The option 's3.conditional-put' may be auto, etag or disabled, not '{said}'.")
    if said in (None, "auto"):
        # AWS guarantees it.
        return True if endpoint is None or _AWS.fullmatch(endpoint) else None
    return said == "etag"


def _is_anonymous(options: StoreOptions) -> bool:
    provider = options.get("provider")
    if provider is None:
        return False
    if provider.rsplit(".", 1)[-1] == _ANONYMOUS:
        return True
    # These classes of Java look for keys in places where our client looks by itself.
    if provider.startswith(("org.apache.hadoop.", "com.amazonaws.", "software.amazon.awssdk.")):
        return False
    raise InvalidOptionError(
        f"The option '{options.name('provider')}' names '{provider}', which only Java could load; leave it out, or "
        f"name {_ANONYMOUS}."
    )


S3A = "s3a"
"""Scheme of Hadoop's client for S3."""

_CLASSES = "org.apache.hadoop.fs.s3a."
_DEFAULT_REGION = "us-east-1"
# Hadoop's client parses the bucket as the name of a host.
_HOST = re.compile(r"[a-z0-9][a-z0-9.-]*")
_ENVIRONMENT = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
}


def hadoop_scheme(location: str) -> str | None:
    """Return Hadoop's scheme for a location in normal form; None where no client of Hadoop is known."""
    scheme, _, rest = location.partition("://")
    return S3A if scheme == "s3" and _HOST.fullmatch(rest.partition("/")[0]) is not None else None


def hadoop_settings(location: str, options: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """Return Hadoop's settings of the location's bucket, and whether they contain credentials.

    They do where options or the environment have keys, or options name one of Hadoop's providers. Otherwise Hadoop's
    client would look for keys in other places than ours. Raises the errors of store_settings.
    """
    bucket = location.partition("://")[2].partition("/")[0]
    resolved = store_settings("s3", bucket, options)
    credentials = _credentials(resolved, options)
    region = str(resolved.config.get("region", _DEFAULT_REGION))
    style = not resolved.config["virtual_hosted_style_request"]
    found = {
        **_tuning(options),
        "endpoint.region": region,
        "path.style.access": str(style).lower(),
        **credentials,
    }
    if resolved.endpoint is not None:
        found["endpoint"] = resolved.endpoint
    return {f"fs.s3a.bucket.{bucket}.{key}": value for key, value in found.items()}, bool(credentials)


def _credentials(resolved: StoreSettings, options: Mapping[str, str]) -> dict[str, str]:
    named = next((options[name] for name in with_hadoops(S3_OPTIONS["provider"]) if options.get(name)), None)
    given = {} if named is None else {"aws.credentials.provider": named}
    if resolved.config.get("skip_signature"):
        return {"aws.credentials.provider": f"{_CLASSES}AnonymousAWSCredentialsProvider"}
    if isinstance(resolved.credentials, FixedKeys):
        keys = resolved.credentials
        found = {"access.key": keys.access, "secret.key": keys.secret, "session.token": keys.token or ""}
    elif given:
        return given
    else:
        found = {key: os.environ.get(variable, "") for key, variable in _ENVIRONMENT.items()}
        if not found["access.key"] or not found["secret.key"]:
            return {}
    provider = "TemporaryAWSCredentialsProvider" if found["session.token"] else "SimpleAWSCredentialsProvider"
    return {"aws.credentials.provider": _CLASSES + provider, **{k: v for k, v in found.items() if v}, **given}


def _tuning(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options that tune Hadoop's client, except the class of the client."""
    known = {name for what, names in S3_OPTIONS.items() if what not in S3_NAMES for name in with_hadoops(names)}
    return {
        key.removeprefix("hadoop.").removeprefix("fs.s3a.").removeprefix("s3."): value
        for key, value in options.items()
        if key.startswith(("fs.s3a.", "s3.", "hadoop.fs.s3a.")) and key not in known and not key.endswith(".impl")
    }
