"""How the store of a URI is opened: options by Paimon's and Hadoop's names become those of obstore.

What no option says comes from where the cloud's own tools look: environment, profile or key file, and the identity of
the machine. Options of a family that is read here are refused when nothing here knows them, but for those that say how
Hadoop's client works and not what it reaches (`fs.s3a.connection.maximum`).
"""

import configparser
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.base.fileio.stores.patience import AZURE_NAMES, GCS_NAMES, S3_NAMES, Patience

S3_SCHEMES = frozenset({"s3"})
GCS_SCHEMES = frozenset({"gs"})
AZURE_SCHEMES = frozenset({"abfs", "abfss", "wasb", "wasbs"})
SCHEMES = S3_SCHEMES | GCS_SCHEMES | AZURE_SCHEMES
"""The schemes that obstore opens, as `normalize_path` spells them."""

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
S3_OPTIONS: Mapping[str, tuple[str, ...]] = {
    # Paimon hands what begins with `s3.` on to Hadoop's client under its names.
    what: tuple(dict.fromkeys((*names, *(n.replace("fs.s3a.", "s3.", 1) for n in names))))
    for what, names in _S3.items()
} | dict(S3_NAMES)
"""The names of each of S3's options; all mean the same."""
_GCS = {
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
_AZURE = {
    "endpoint": ("fs.azure.endpoint",),
    "account": ("fs.azure.account.name",),
    "key": ("fs.azure.account.key",),
    "sas": ("fs.azure.sas.fixed.token",),
    "auth": ("fs.azure.account.auth.type",),
    "client": ("fs.azure.account.oauth2.client.id",),
    "secret": ("fs.azure.account.oauth2.client.secret",),
    "authority": ("fs.azure.account.oauth2.client.endpoint",),
    "tenant": ("fs.azure.account.oauth2.msi.tenant",),
    "kind": ("fs.azure.account.oauth.provider.type",),
    **AZURE_NAMES,
}

_TUNING = re.compile(
    r"(?:s3|fs\.(?:s3a|gs|azure|abfs|abfss|wasb|wasbs))\.(?:impl|.*\.impl|connection\..*|threads\..*|max\..*|committer\..*"
    r"|fast\.upload.*|experimental\..*|input\..*|inputstream\..*|outputstream\..*|block\.size|multipart\..*"
    r"|attempts\..*|retry\..*|change\.detection\..*|directory\.marker\..*|readahead\..*|paging\..*|buffer\..*|etag\..*"
    r"|performance\..*|create\..*|list\..*|read\..*|write\..*|io\..*|http\..*|user\.agent.*|statistics\..*)"
)
"""How Hadoop's client works; nothing here has the like of it."""

_AWS = re.compile(r"https://([a-z0-9.-]+\.)?amazonaws\.com(\.cn)?")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_RENEWAL_MINUTES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """What obstore opens a bucket or container with; `kind` is the name of its class.

    `heeds_conditions` says whether its puts do, None that it has to be tried. What may be secret is no part of the
    representation.
    """

    kind: str
    bucket: str
    endpoint: str | None = None
    heeds_conditions: bool | None = True
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)
    credentials: Callable[[], Any] | None = field(default=None, repr=False)
    patience: Patience = field(default_factory=Patience)
    source: str = ""
    """Where the credentials come from, for messages."""
    renews: bool = True
    """Whether they may be others when they are asked for again."""
    end: datetime | None = None
    """When they end, where they say it themselves."""

    @property
    def ended(self) -> str:
        """When the credentials have ended, by themselves; empty where that is not known to be so."""
        past = self.end is not None and self.end <= datetime.now(UTC)
        return f"{self.end:%Y-%m-%dT%H:%M:%SZ}" if past else ""


def store_settings(scheme: str, authority: str, options: Mapping[str, str]) -> StoreSettings:
    """The settings of the bucket or container that the authority of a URI names.

    Raises InvalidOptionError naming the option, StorageAccessError where the environment contradicts itself.
    """
    if scheme in S3_SCHEMES:
        return _s3(authority, _Options("S3", S3_OPTIONS, ("s3.", "fs.s3a."), options))
    if scheme in GCS_SCHEMES:
        return _gcs(authority, _Options("Google's store", _GCS, ("fs.gs.", "google."), options))
    return _azure(scheme, authority, options)


class _Options:
    """The options of one family by the names that are used here; each may be given under several."""

    def __init__(
        self, store: str, names: Mapping[str, tuple[str, ...]], families: tuple[str, ...], given: Mapping[str, str]
    ) -> None:
        self._names = names
        self._given = given
        known = {name for some in names.values() for name in some}
        for key in given:
            if key.startswith(families) and key not in known and _TUNING.fullmatch(key) is None:
                raise InvalidOptionError(
                    f"Nothing is known of the option '{key}' of {store}. Known are {', '.join(sorted(known))}."
                )

    def get(self, what: str) -> str | None:
        """Its value; InvalidOptionError when two of its names say different things."""
        found = [(name, self._given[name]) for name in self._names[what] if self._given.get(name)]
        if len({value for _, value in found}) > 1:
            raise InvalidOptionError(f"The options {_listed(name for name, _ in found)} contradict each other.")
        return found[0][1] if found else None

    def flag(self, what: str) -> bool | None:
        value = self.get(what)
        if value is None or value.lower() in ("true", "false"):
            return None if value is None else value.lower() == "true"
        raise InvalidOptionError(f"The option '{self.name(what)}' is true or false, not '{value}'.")

    def name(self, what: str) -> str:
        """The name under which it was given, or the first that it has."""
        names = self._names[what]
        return next((name for name in names if self._given.get(name)), names[0])


def _listed(names: Iterable[str]) -> str:
    return " and ".join(f"'{name}'" for name in names)


# -- S3 ------------------------------------------------------------------------------------------------------------


def _s3(bucket: str, options: _Options) -> StoreSettings:
    config: dict[str, Any] = {}
    access, secret, token = options.get("access"), options.get("secret"), options.get("token")
    if (access is None) != (secret is None):
        there, lacking = ("access", "secret") if access else ("secret", "access")
        raise InvalidOptionError(f"The option '{options.name(there)}' needs '{options.name(lacking)}' beside it.")
    if token is not None and access is None:
        raise InvalidOptionError(f"The option '{options.name('token')}' needs '{options.name('access')}' beside it.")
    profile = _profile()
    region = options.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    region = region or profile.get("region")
    if region:
        config["region"] = region
    credentials: Callable[[], Any] | None = None
    source = ""
    if _is_anonymous(options):
        if access is not None:
            raise InvalidOptionError(
                f"The options {_listed(map(options.name, ('access', 'provider')))} contradict each other."
            )
        config["skip_signature"] = True
    elif access is not None:
        # Given as a provider, so that a session token of the environment is not taken for theirs.
        credentials = FixedKeys(access, str(secret), token)
        source = f"the option '{options.name('access' if token is None else 'token')}'"
    elif os.environ.get("AWS_ACCESS_KEY_ID") and os.environ.get("AWS_SECRET_ACCESS_KEY"):
        credentials, source = _EnvironmentKeys(), "AWS_SESSION_TOKEN and its like in the environment"
    elif not _environment_has_keys():
        credentials = _profile_credentials(profile)
        source = f"the profile '{os.environ.get('AWS_PROFILE') or 'default'}'" if credentials is not None else ""
    endpoint, style = options.get("endpoint"), options.flag("path_style")
    if endpoint is not None and "://" not in endpoint:
        endpoint = f"{'http' if options.flag('ssl') is False else 'https'}://{endpoint}"
    if endpoint is not None and not _is_address(endpoint):
        raise InvalidOptionError(
            f"The option '{options.name('endpoint')}' is no address such as https://host:port; correct it."
        )
    virtual = style is False
    if endpoint is not None:
        endpoint = endpoint.rstrip("/")
        scheme, _, host = endpoint.partition("://")
        config["endpoint"] = f"{scheme}://{bucket}.{host}" if virtual else endpoint
    service = endpoint or next(filter(None, map(os.environ.get, _ENDPOINT_VARIABLES)), None)
    config["virtual_hosted_style_request"] = virtual
    # What goes through TLS is protected by that; to sign it as well is to hash it, which takes longer than to send it.
    config["unsigned_payload"] = service is None or service.lower().startswith("https:")
    # A copy that refuses an existing target, where the store can do it.
    config["copy_if_not_exists"] = "multipart"
    return StoreSettings(
        kind="S3Store",
        bucket=bucket,
        endpoint=service,
        heeds_conditions=_heeds_conditions(options, service),
        config=config,
        credentials=credentials,
        patience=Patience.of(options.get, S3_NAMES),
        source=source,
        renews=access is None,
    )


def _is_address(endpoint: str) -> bool:
    try:
        # Raises for what is no address, or no port. A name and a password would be shown wherever the address is.
        parts = urlsplit(endpoint)
        return (
            parts.scheme in ("http", "https") and parts.port != 0 and bool(parts.hostname) and "@" not in parts.netloc
        )
    except ValueError:
        return False


def _heeds_conditions(options: _Options, endpoint: str | None) -> bool | None:
    said = options.get("conditional")
    if said not in (None, "auto", "etag", "disabled"):
        raise InvalidOptionError(f"The option 's3.conditional-put' may be auto, etag or disabled, not '{said}'.")
    if said in (None, "auto"):
        # AWS itself promises to.
        return True if endpoint is None or _AWS.fullmatch(endpoint) else None
    return said == "etag"


def _is_anonymous(options: _Options) -> bool:
    provider = options.get("provider")
    if provider is None:
        return False
    if provider.rsplit(".", 1)[-1] == _ANONYMOUS:
        return True
    # Java's classes name where its client looks; ours looks there by itself.
    if provider.startswith(("org.apache.hadoop.", "com.amazonaws.", "software.amazon.awssdk.")):
        return False
    raise InvalidOptionError(
        f"The option '{options.name('provider')}' names '{provider}', which only Java could load; leave it out, or "
        f"name {_ANONYMOUS}."
    )


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


class _EnvironmentKeys:
    """The keys of the environment as it has them by now."""

    def __call__(self) -> Any:
        return {
            "access_key_id": os.environ.get("AWS_ACCESS_KEY_ID", ""),
            "secret_access_key": os.environ.get("AWS_SECRET_ACCESS_KEY", ""),
            "token": os.environ.get("AWS_SESSION_TOKEN") or None,
            "expires_at": datetime.now(UTC) + timedelta(minutes=_RENEWAL_MINUTES),
        }


def _environment_has_keys() -> bool:
    return any(
        os.environ.get(name)
        for name in (
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
            "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
            "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        )
    )


def _profile() -> Mapping[str, str]:
    """What the files of AWS's tools say of the profile in use; of `config` and of `credentials`."""
    name = os.environ.get("AWS_PROFILE") or "default"
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


def _profile_credentials(profile: Mapping[str, str]) -> Callable[[], Any] | None:
    if profile.get("aws_access_key_id"):
        return _ProfileKeys()
    other = next(
        (key for key in ("sso_session", "sso_start_url", "role_arn", "credential_process") if key in profile), None
    )
    if other is None:
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


class _ProfileKeys:
    """The keys of the profile as its file has them by now."""

    def __call__(self) -> Any:
        profile = _profile()
        return {
            "access_key_id": profile.get("aws_access_key_id", ""),
            "secret_access_key": profile.get("aws_secret_access_key", ""),
            "token": profile.get("aws_session_token"),
            "expires_at": datetime.now(UTC) + timedelta(minutes=_RENEWAL_MINUTES),
        }


# -- Google --------------------------------------------------------------------------------------------------------


def _gcs(bucket: str, options: _Options) -> StoreSettings:
    config: dict[str, Any] = {}
    key_file, auth, endpoint = options.get("key_file"), options.get("auth"), options.get("endpoint")
    kinds = ("SERVICE_ACCOUNT_JSON_KEYFILE", "UNAUTHENTICATED", "APPLICATION_DEFAULT", "COMPUTE_ENGINE")
    if auth is not None and auth not in kinds:
        raise InvalidOptionError(f"The option 'fs.gs.auth.type' may be {', '.join(kinds)}, not '{auth}'.")
    if key_file is not None and auth not in (None, kinds[0]):
        raise InvalidOptionError(
            f"The options '{options.name('key_file')}' and 'fs.gs.auth.type' contradict each other."
        )
    if auth == kinds[0] and key_file is None:
        raise InvalidOptionError(f"'fs.gs.auth.type' = '{auth}' needs '{options.name('key_file')}'.")
    if key_file is not None:
        config["service_account"] = key_file
    if auth == "UNAUTHENTICATED":
        config["skip_signature"] = True
    if endpoint is not None:
        config["base_url"] = endpoint.rstrip("/")
    return StoreSettings(
        kind="GCSStore",
        bucket=bucket,
        endpoint=endpoint,
        heeds_conditions=True if endpoint is None and not os.environ.get("GOOGLE_BASE_URL") else None,
        config=config,
        credentials=_no_token if auth == "UNAUTHENTICATED" else None,
        patience=Patience.of(options.get, GCS_NAMES),
    )


def _no_token() -> Any:
    """What an emulator is content with; obstore asks for a token to write with even where requests go unsigned."""
    return {"token": "none", "expires_at": None}


# -- Azure ---------------------------------------------------------------------------------------------------------


def _azure(scheme: str, authority: str, options: Mapping[str, str]) -> StoreSettings:
    container, at, host = authority.partition("@")
    account = host.partition(".")[0] if at else options.get("fs.azure.account.name")
    if not account:
        raise InvalidOptionError(
            f"{scheme}://{authority} names no account of Azure; write "
            f"{scheme}://container@account.dfs.core.windows.net, or set 'fs.azure.account.name'."
        )
    known = _Options("Azure", _AZURE, ("fs.azure.",), _of_account(options, account, container))
    if at and known.get("account") not in (None, account):
        raise InvalidOptionError(
            f"The option 'fs.azure.account.name' and {scheme}://{authority} contradict each other."
        )
    config: dict[str, Any] = {"account_name": account}
    key, sas, auth = known.get("key"), known.get("sas"), known.get("auth")
    client, secret, authority_url = known.get("client"), known.get("secret"), known.get("authority")
    if sum(given is not None for given in (key, sas, secret)) > 1:
        names = [known.name(what) for what in ("key", "sas", "secret") if known.get(what) is not None]
        raise InvalidOptionError(
            f"The options {_listed(names)} contradict each other: one way to authenticate is used."
        )
    needs = {"SharedKey": key, "SAS": sas, "OAuth": client or "managed identity"}
    if auth is not None and auth not in needs:
        raise InvalidOptionError(f"The option 'fs.azure.account.auth.type' may be {', '.join(needs)}, not '{auth}'.")
    if auth is not None and needs[auth] is None:
        raise InvalidOptionError(f"'fs.azure.account.auth.type' = '{auth}' lacks what it authenticates with.")
    for name, value in (("account_key", key), ("sas_key", sas), ("client_id", client), ("client_secret", secret)):
        if value is not None:
            config[name] = value.lstrip("?") if name == "sas_key" else value
    tenant = known.get("tenant")
    if authority_url is not None:
        # https://login.microsoftonline.com/<tenant>/oauth2/token
        begin, _, rest = authority_url.partition("://")
        login, _, path = rest.partition("/")
        config["authority_host"] = f"{begin}://{login}"
        tenant = tenant or path.partition("/")[0]
    if tenant:
        config["tenant_id"] = tenant
    endpoint = known.get("endpoint")
    heeds = True if endpoint is None and not os.environ.get("AZURE_STORAGE_ENDPOINT") else None
    if endpoint is None and at and not host.endswith(".core.windows.net"):
        # Other clouds have other domains; blobs have theirs beside that of files.
        endpoint = f"https://{host.replace('.dfs.', '.blob.', 1)}"
    if endpoint is not None:
        config["endpoint"] = endpoint.rstrip("/")
    return StoreSettings(
        kind="AzureStore",
        bucket=container,
        endpoint=endpoint,
        heeds_conditions=heeds,
        config=config,
        patience=Patience.of(known.get, AZURE_NAMES),
        source="" if sas is None else f"the option '{known.name('sas')}'",
        end=None if sas is None else _end_of(sas),
    )


def _end_of(signature: str) -> datetime | None:
    """When a shared access signature ends; None where it does not say so: a policy of the container's does.

    Source: Azure Storage, "Create a service SAS", signedExpiry, which is in UTC.
    """
    [said, *_] = parse_qs(signature.lstrip("?")).get("se", [""])
    try:
        end = datetime.fromisoformat(said)
    except ValueError:
        return None
    return end if end.tzinfo else end.replace(tzinfo=UTC)


def _of_account(options: Mapping[str, str], account: str, container: str) -> Mapping[str, str]:
    """The options of Azure without the account that their names end with; those of other accounts are left out.

    `fs.azure.account.key.<account>.dfs.core.windows.net`, `fs.azure.sas.<container>.<account>.blob.core.windows.net`.
    """
    found: dict[str, str] = {}
    names = sorted((name for some in _AZURE.values() for name in some), key=len, reverse=True)
    for key, value in sorted(options.items(), key=lambda item: len(item[0])):
        if not key.startswith("fs.azure."):
            continue
        name = next((name for name in names if key == name or key.startswith(f"{name}.")), None)
        if name is not None:
            rest = key[len(name) + 1 :]
            if not rest or rest.partition(".")[0] == account:
                # The longer name, that of the account, comes later and counts.
                found[name] = value
        elif (match := re.fullmatch(r"fs\.azure\.sas\.([^.]+)\.([^.]+)\..*", key)) is not None:
            if match[1] == container and match[2] == account:
                found["fs.azure.sas.fixed.token"] = value
        else:
            found[key] = value
    return found
