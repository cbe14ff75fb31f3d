"""Settings of Azure's object stores, from options of Hadoop's connectors, whose names may end with the account."""

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs

from interbed.storage.base.errors import InvalidInputError, InvalidOptionError
from interbed.storage.io.stores.options import (
    AZURE_NAMES,
    RequestLimits,
    StoreOptions,
    StoreSettings,
    checked_address,
    checked_bucket,
    checked_word,
    listed,
    with_hadoops,
)

_NAMES = {
    "endpoint": ("fs.azure.endpoint",),
    "account": ("fs.azure.account.name",),
    "key": ("fs.azure.account.key",),
    "sas": ("fs.azure.sas.fixed.token",),
    "auth": ("fs.azure.account.auth.type",),
    "client": ("fs.azure.account.oauth2.client.id",),
    "secret": ("fs.azure.account.oauth2.client.secret",),
    "authority": ("fs.azure.account.oauth2.client.endpoint",),
    "tenant": ("fs.azure.account.oauth2.msi.tenant",),
    "provider": ("fs.azure.account.oauth.provider.type",),
    **AZURE_NAMES,
}
_ENDPOINT_VARIABLES = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_HOST = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_SERVICE, _MACHINE, _WORKLOAD = "ClientCredsTokenProvider", "MsiTokenProvider", "WorkloadIdentityTokenProvider"
_PROVIDERS = (_SERVICE, _MACHINE, _WORKLOAD)


def azure_settings(scheme: str, authority: str, given: Mapping[str, str]) -> StoreSettings:
    """Return the settings of a container; raises InvalidOptionError naming the option, InvalidInputError."""
    container, at, host = authority.partition("@")
    if at and (_HOST.fullmatch(host) is None or not container):
        raise InvalidInputError(
            f"A location of Azure is {scheme}://container@account.dfs.core.windows.net/path, with no key or password "
            "in it; keys are options of their own. Correct it."
        )
    checked_bucket(container, f"{scheme}://{authority}", "container")
    account = host.partition(".")[0] if at else _account(given)
    if not account:
        raise InvalidOptionError(
            f"{scheme}://{authority} names no account of Azure; write "
            f"{scheme}://container@account.dfs.core.windows.net, or set 'fs.azure.account.name'."
        )
    options, names = _of_account(given, account, container)
    known = StoreOptions("Azure", _NAMES, ("fs.azure.",), options)

    def name(what: str) -> str:
        return names.get(known.name(what), known.name(what))

    if at and known.get("account") not in (None, account):
        raise InvalidOptionError(f"The option '{name('account')}' and {scheme}://{authority} contradict each other.")
    config: dict[str, Any] = {"account_name": account}
    key, sas, auth = known.get("key"), known.get("sas"), known.get("auth")
    client, secret, tenant = known.get("client"), known.get("secret"), known.get("tenant")
    ways = [what for what in ("key", "sas", "secret") if known.get(what) is not None]
    if len(ways) > 1:
        raise InvalidOptionError(
            f"The options {listed(map(name, ways))} contradict each other: one way to authenticate is used."
        )
    needs = {"SharedKey": key, "SAS": sas, "OAuth": client or "managed identity"}
    if auth is not None and auth not in needs:
        raise InvalidOptionError(f"The option '{name('auth')}' may be {', '.join(needs)}, not '{auth}'.")
    if auth is not None and needs[auth] is None:
        raise InvalidOptionError(f"'{name('auth')}' = '{auth}' lacks what it authenticates with.")
    _check_whole(known, names)
    for what, value in (("key", key), ("sas", sas), ("client", client), ("secret", secret), ("tenant", tenant)):
        checked_word(value, f"The option '{name(what)}'")
    for field, value in (("account_key", key), ("sas_key", sas), ("client_id", client), ("client_secret", secret)):
        if value is not None:
            config[field] = value.lstrip("?") if field == "sas_key" else value
    authority_url = known.get("authority")
    if authority_url is not None:
        # https://login.microsoftonline.com/<tenant>/oauth2/token
        begin, _, rest = checked_address(authority_url, f"The option '{name('authority')}'").partition("://")
        login, _, path = rest.partition("/")
        config["authority_host"] = f"{begin}://{login}"
        tenant = tenant or path.partition("/")[0]
    if tenant:
        config["tenant_id"] = tenant
    endpoint = known.address("endpoint", _ENDPOINT_VARIABLES)
    honours = True if endpoint is None else None
    if endpoint is None and at and not host.endswith(".core.windows.net"):
        # Other clouds have other domains; blobs have their own beside that of files.
        endpoint = f"https://{host.replace('.dfs.', '.blob.', 1)}"
    if endpoint is not None:
        config["endpoint"] = endpoint
    source = next((f"the option '{name(what)}'" for what in ("key", "sas", "secret") if known.get(what)), "")
    return StoreSettings(
        kind="AzureStore",
        bucket=container,
        location=f"{scheme}://{authority}",
        endpoint=endpoint,
        honours_conditions=honours,
        config=config,
        limits=RequestLimits.of(known.get, AZURE_NAMES, name),
        source=source,
        end=None if sas is None else _end_of(sas),
        given={what: name(what) for what in known.named()},
    )


def _account(given: Mapping[str, str]) -> str | None:
    """Return the account of an option, for a location without one."""
    account = StoreOptions("Azure", {"account": _NAMES["account"]}, (), given).get("account")
    if account is not None and _HOST.fullmatch(account) is None:
        raise InvalidOptionError("The option 'fs.azure.account.name' names no account of Azure; correct it.")
    return account


def _check_whole(known: StoreOptions, names: Mapping[str, str]) -> None:
    """Raise InvalidOptionError where OAuth lacks an option.

    A service principal has an id, a secret and the address with its tenant. An id alone chooses one of the identities
    of a machine, or is that of a workload, whose token is in the environment.
    """

    def name(what: str) -> str:
        return f"'{names.get(known.name(what), known.name(what))}'"

    client, secret, authority = known.get("client"), known.get("secret"), known.get("authority")
    provider = known.get("provider")
    kind = None if provider is None else provider.rsplit(".", 1)[-1]
    if kind is not None and kind not in _PROVIDERS:
        raise InvalidOptionError(f"The option {name('provider')} may end with {', '.join(_PROVIDERS)}, not '{kind}'.")
    has_tenant = authority or known.get("tenant") or os.environ.get("AZURE_TENANT_ID")
    if secret is not None or authority is not None or kind == _SERVICE:
        lacking = next((what for what, of in (("client", client), ("secret", secret)) if of is None), None)
        if lacking is None and not has_tenant:
            lacking = "authority"
        if lacking is not None:
            there = next(what for what in ("secret", "authority", "client", "provider") if known.get(what) is not None)
            raise InvalidOptionError(f"The option {name(there)} needs {name(lacking)} beside it.")
        if kind not in (None, _SERVICE):
            raise InvalidOptionError(f"The options {name('provider')} and {name('secret')} contradict each other.")
    elif client is not None and not (kind or known.get("tenant") or os.environ.get("AZURE_FEDERATED_TOKEN_FILE")):
        raise InvalidOptionError(
            f"The option {name('client')} needs {name('secret')} and {name('authority')} beside it; or, for an "
            f"identity of the machine, {name('provider')} = '{_MACHINE}'."
        )


def _end_of(signature: str) -> datetime | None:
    """Return the expiry of a shared access signature; None where a policy of the container has it.

    Source: Azure Storage, "Create a service SAS", signedExpiry, which is in UTC.
    """
    [expiry, *_] = parse_qs(signature.lstrip("?")).get("se", [""])
    try:
        end = datetime.fromisoformat(expiry)
    except ValueError:
        return None
    return end if end.tzinfo else end.replace(tzinfo=UTC)


def _of_account(options: Mapping[str, str], account: str, container: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return Azure's options without the account at the end of their names, and the full names of those with one.

    `fs.azure.account.key.<account>.dfs.core.windows.net`, `fs.azure.sas.<container>.<account>.blob.core.windows.net`;
    those of other accounts are left out. As in Hadoop the value of an account overrides the general one, but two keys
    of an account are an error.
    """
    found: dict[str, str] = {}
    whole: dict[str, str] = {}
    names = sorted((name for some in _NAMES.values() for name in with_hadoops(some)), key=len, reverse=True)
    # The longer names, those of the account, come later and override the others.
    for key, value in sorted(options.items(), key=lambda item: len(item[0])):
        if not key.startswith(with_hadoops(("fs.azure.",))):
            continue
        hadoops = "hadoop." if key.startswith("hadoop.") else ""
        name = next((name for name in names if key == name or key.startswith(f"{name}.")), None)
        if name is not None:
            rest = key[len(name) + 1 :]
            if rest and rest.partition(".")[0] != account:
                continue
        elif (match := re.fullmatch(r"(?:hadoop\.)?fs\.azure\.sas\.([^.]+)\.([^.]+)\..*", key)) is not None:
            if (match[1], match[2]) != (container, account):
                continue
            name = f"{hadoops}fs.azure.sas.fixed.token"
        else:
            name = key
        if name.removeprefix("hadoop.") in _NAMES["key"] and value and (found.get(name) or value) != value:
            raise InvalidOptionError(
                f"The options {listed((whole.get(name, name), key))} contradict each other: an account has one key."
            )
        found[name] = value
        whole[name] = key
    return found, whole
