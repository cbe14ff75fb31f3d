"""How Hadoop's client opens a store with a catalog's options: for readers in a JVM beside those of Python.

The settings are those of one bucket (`fs.s3a.bucket.<bucket>.endpoint`), which go before those that a configuration has
for all buckets (https://hadoop.apache.org/docs/stable/hadoop-aws/tools/hadoop-aws/). Only S3's client is known.
"""

import os
import re
from collections.abc import Mapping

from interbed.storage.io.stores.aws_keys import FixedKeys
from interbed.storage.io.stores.options import with_hadoops
from interbed.storage.io.stores.settings import S3_OPTIONS, store_settings
from interbed.storage.io.stores.values import S3_NAMES, StoreSettings

S3A = "s3a"
"""The scheme of Hadoop's client for S3."""

_CLASSES = "org.apache.hadoop.fs.s3a."
_DEFAULT_REGION = "us-east-1"
# Hadoop's client takes the bucket for the name of a host.
_HOST = re.compile(r"[a-z0-9][a-z0-9.-]*")
_ENVIRONMENT = {
    "access.key": "AWS_ACCESS_KEY_ID",
    "secret.key": "AWS_SECRET_ACCESS_KEY",
    "session.token": "AWS_SESSION_TOKEN",
}


def hadoop_scheme(location: str) -> str | None:
    """Hadoop's scheme for a location as `normalize_path` writes it; None where no client of Hadoop's is known."""
    scheme, _, rest = location.partition("://")
    return S3A if scheme == "s3" and _HOST.fullmatch(rest.partition("/")[0]) is not None else None


def hadoop_settings(location: str, options: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """What Hadoop's configuration has to say of the location's bucket, and whether it says whose requests they are.

    It does where options or the environment have keys, or options name one of Hadoop's providers; else Hadoop's client
    would look for them in other places than ours. Raises as store_settings does.
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
    """How Hadoop's client works, which ours takes in part; but not which client that is."""
    known = {name for what, names in S3_OPTIONS.items() if what not in S3_NAMES for name in with_hadoops(names)}
    return {
        key.removeprefix("hadoop.").removeprefix("fs.s3a.").removeprefix("s3."): value
        for key, value in options.items()
        if key.startswith(("fs.s3a.", "s3.", "hadoop.fs.s3a.")) and key not in known and not key.endswith(".impl")
    }
