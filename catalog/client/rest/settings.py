"""Settings of the Paimon REST client: its options, its token provider, and what the server adds to them.

`GET /v1/config?warehouse=` answers `defaults` and `overrides`: the options of the catalog are the defaults, below the
caller's own, below the overrides. `prefix` begins the paths of the catalog, `header.<name>` are headers of requests.
Source: paimon-api's RESTApi and RESTCatalogOptions, version 1.4.
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from interbed.catalog.client.credentials import (
    ClientCredentials,
    KerberosLogin,
    NegotiateTokens,
    OAuth2Token,
    server_principal,
)
from interbed.catalog.client.options import CatalogOptions, is_known
from interbed.catalog.client.rest.client import RestClient
from interbed.catalog.client.rest.http import NOT_FOUND, RestAddress, RestHttp, RestRefusedError, catalog_error
from interbed.catalog.client.rest.tokens import (
    BearerToken,
    BearerTokenFile,
    BearerTokenOfClient,
    DlfAuth,
    DlfToken,
    KerberosTickets,
    TokenProvider,
    dlf_token_of_file,
    dlf_token_of_role,
)
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError

PREFIX = "prefix"
DEFAULT_TIMEOUT_MILLIS = 180_000
DEFAULT_POOL_SIZE = 8

_REGION = re.compile(r"(?:pre-)?([a-z]+-[a-z]+(?:-\d+)?)")
_OPEN_API_HOST = "dlfnext"


def open_client(options: CatalogOptions) -> tuple[RestClient, CatalogOptions]:
    """Return the client of a catalog, and its options with those of the server.

    Raises InvalidOptionError for missing and wrong options, CatalogUnavailableError and CatalogAccessError.
    """
    if not options.uri:
        raise InvalidOptionError("A REST catalog needs the option 'uri', the address of its server: http://host:port.")
    if not options.warehouse:
        raise InvalidOptionError("A REST catalog needs the option 'warehouse', as the server names it.")
    millis = options.client_timeout_millis
    size = options.client_pool_size
    http = RestHttp(
        options.uri,
        token_provider(options),
        headers=options.headers,
        timeout_seconds=(DEFAULT_TIMEOUT_MILLIS if millis is None else millis) / 1000,
        idle_max=DEFAULT_POOL_SIZE if size is None else size,
    )
    try:
        merged = with_server_options(options.raw, _configuration(http, options.warehouse))
        # Options of the server that this version does not have, such as those of its Java clients, have no effect.
        known = CatalogOptions({k: v for k, v in merged.items() if is_known(k)})
        http.headers.update(known.headers)
        return RestClient(http, merged.get(PREFIX, "")), known
    except BaseException:
        http.close()
        raise


def with_server_options(given: Mapping[str, str], configuration: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a catalog: the server's defaults, the given ones, the server's overrides. Pure."""
    merged: dict[str, str] = {}
    for part in (configuration.get("defaults"), given, configuration.get("overrides")):
        merged.update({str(k): str(v) for k, v in (part or {}).items() if v is not None})
    return merged


def _configuration(http: RestHttp, warehouse: str) -> Mapping[str, Any]:
    try:
        found = http.get("/v1/config", {"warehouse": warehouse})
    except RestRefusedError as error:
        if error.status == NOT_FOUND:
            raise InvalidOptionError(
                f"The REST catalog at {http.uri} has no warehouse '{warehouse}', or the option 'uri' lacks a path such "
                f"as /paimon: {error}"
            ) from error
        raise catalog_error(error) from error
    if not isinstance(found, Mapping):
        raise InvalidOptionError(f"The address {http.uri} of the option 'uri' is not that of a Paimon REST catalog.")
    return found


# -- token providers ---------------------------------------------------------------------------------------------------


def token_provider(options: CatalogOptions) -> TokenProvider:
    """Return the provider of the option `token.provider`; raises InvalidOptionError, NotSupportedError."""
    match options.token_provider:
        case None:
            raise InvalidOptionError("A REST catalog needs the option 'token.provider': bear, dlf or spnego.")
        case "bear":
            return _bearer(options)
        case "dlf":
            return _dlf(options)
        case "spnego":
            return _spnego(options)
        case other:
            raise InvalidOptionError(f"Option 'token.provider' takes bear, dlf or spnego, not '{other}'.")


def _spnego(options: CatalogOptions) -> TokenProvider:
    login = KerberosLogin.of(options)
    host = RestAddress.parse(options.uri or "").host
    principal = options.spnego_principal
    return KerberosTickets(
        NegotiateTokens(login, f"HTTP@{host}" if principal is None else server_principal(principal, host))
    )


def _bearer(options: CatalogOptions) -> TokenProvider:
    client = ClientCredentials.of(options)
    if client is not None:
        return BearerTokenOfClient(OAuth2Token(client))
    token, path = options.token, options.token_path
    if (token is None) == (path is None):
        raise InvalidOptionError(
            "The token provider 'bear' needs one of the options 'token' and 'token.provider.path', a file with the "
            "token, or 'credential'."
        )
    return BearerToken(token) if token is not None else BearerTokenFile(str(path))


def _dlf(options: CatalogOptions) -> TokenProvider:
    uri = options.uri or ""
    algorithm = options.dlf_signing_algorithm or ("openapi" if _OPEN_API_HOST in uri.lower() else "default")
    if algorithm == "openapi":
        raise NotSupportedError(
            "Option 'dlf.signing-algorithm' = 'openapi', which addresses with 'dlfnext' have by default, is not "
            "supported; use the VPC endpoint of DLF, or set it to default."
        )
    if algorithm != "default":
        raise InvalidOptionError(f"Option 'dlf.signing-algorithm' takes default, not '{algorithm}'.")
    region = options.dlf_region
    if region is None:
        found = _REGION.search(uri)
        if found is None:
            raise InvalidOptionError(f"The address {uri} names no region; set the option 'dlf.region'.")
        region = found[1]
    loader, path = options.dlf_token_loader, options.dlf_token_path
    if loader == "ecs":
        return DlfAuth(partial(dlf_token_of_role, options.dlf_metadata_url, options.dlf_role_name), region)
    if loader not in (None, "local_file"):
        raise InvalidOptionError(f"Option 'dlf.token-loader' takes ecs or local_file, not '{loader}'.")
    if path is not None:
        return DlfAuth(partial(dlf_token_of_file, path), region)
    key, secret = options.dlf_access_key_id, options.dlf_access_key_secret
    if key is None or secret is None or loader is not None:
        raise InvalidOptionError(
            "The token provider 'dlf' needs the options 'dlf.access-key-id' and 'dlf.access-key-secret', or "
            "'dlf.token-path', or 'dlf.token-loader' = 'ecs'."
        )
    fixed = DlfToken(key_id=key, key_secret=secret, security_token=options.dlf_security_token)
    return DlfAuth(lambda: fixed, region)
