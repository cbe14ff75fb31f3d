"""Checks of settings against other settings and files. Each raises ServerSettingsError that names the source."""

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from interbed.catalog.server.auth.impersonation import EVERYTHING, parsed_proxy_users
from interbed.catalog.server.auth.principals import SERVICE_PRINCIPAL, AuthToLocalError, check_rules
from interbed.catalog.server.authentication_settings import AuthenticationSettings
from interbed.catalog.server.credentials.issued import ROLE_ARN, ROLE_ARN_FORM
from interbed.catalog.server.setting_kinds import NO_AUTHENTICATION, ServerSettingsError, listed, mechanisms_of

_SEPARATOR = re.compile(r"[$.~-]{1,4}|_{2,4}")
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)
_PLACES = re.compile(r"\{\w+\}")
_LDAP_SETTINGS = (
    *("ldap_url", "ldap_ca", "ldap_user_dn", "ldap_user_base"),
    *("ldap_group_base", "ldap_bind_dn", "ldap_bind_password_file"),
)
_JAVA_KEYSTORES = (".jks", ".jceks", ".p12", ".pfx", ".keystore", ".truststore")


def check_ports(ports: Mapping[str, int | None], sources: Mapping[str, str]) -> None:
    """Check that no two services have one port, by the names of their settings."""
    taken: dict[int, str] = {}
    for name, port in ports.items():
        if port and port in taken:
            raise ServerSettingsError(
                f"{sources[name]}: {name} and {taken[port]} are both {port}; set one of them to another"
            )
        if port:
            taken[port] = name


def check_http_path(path: str, interfaces: Iterable[str], source: str, *, has_console: bool = False) -> None:
    """Check that the path of Thrift over HTTP is not that of one of the REST catalogs, or of the console."""
    if not path.startswith("/") or "{" in path:
        raise ServerSettingsError(f"{source}: http_path has to begin with a slash, without braces")
    for name in interfaces:
        if path == f"/{name}" or path.startswith(f"/{name}/"):
            raise ServerSettingsError(
                f"{source}: http_path is {path}, and /{name} is the path of a REST catalog: set another http_path, or "
                f"leave {name} out of rest_interfaces"
            )
    if has_console and (path == "/console" or path.startswith("/console/")):
        raise ServerSettingsError(
            f"{source}: http_path is {path}, and /console is the path of the console: set another http_path, or "
            "console = off"
        )


def check_separator(separator: str, source: str) -> None:
    """Check what separates the levels of Iceberg's namespaces: a path and Thrift's clients have to take it."""
    if separator and not _SEPARATOR.fullmatch(separator):
        raise ServerSettingsError(
            f"{source}: iceberg_namespace_separator is {separator!r}; it is one to four of the characters $ . ~ - or "
            "two to four underscores, or nothing for namespaces of one level"
        )


def check_trash(warehouse: str, directory: str | None, sources: Mapping[str, str]) -> None:
    """Check that directories of the warehouse can be moved to the trash."""
    # Imported here, because the command's help needs only the settings' names.
    from interbed.catalog.server.service.warehouse import file_system_of, normalized_location, renames_directories

    if not renames_directories(warehouse):
        raise ServerSettingsError(
            f"{sources['trash_seconds']}: an object store renames no directories, so that there can be no trash; leave "
            "trash_seconds at 0, and keep older versions of objects in the store"
        )
    file_system = file_system_of(normalized_location(warehouse))
    if directory is not None and file_system_of(normalized_location(directory)) != file_system:
        raise ServerSettingsError(
            f"{sources['trash_directory']}: trash_directory is {directory}, which is on another file system than the "
            f"warehouse {warehouse}"
        )


def check_metadata_root(warehouse: str, root: str | None, source: str) -> None:
    """Check that metadata for Iceberg's readers are on the file system of the warehouse."""
    if root is None:
        return
    # Imported here, because the command's help needs only the settings' names.
    from interbed.catalog.server.service.warehouse import file_system_of, normalized_location

    if file_system_of(normalized_location(root)) != file_system_of(normalized_location(warehouse)):
        raise ServerSettingsError(
            f"{source}: iceberg_metadata_root is {root}, which is on another file system than the warehouse {warehouse}"
        )


def check_paimon_warehouses(
    warehouse: str, warehouses: Mapping[str, str], interfaces: Iterable[str], source: str
) -> None:
    """Check that directories of tables are served, and that none of them is in another one or in the warehouse: a drop
    in one would delete the files of a table of the other.
    """
    # Imported here, because the command's help needs only the settings' names.
    from interbed.catalog.server.service.model import DEFAULT_CATALOG
    from interbed.catalog.server.service.warehouse import contains

    if "paimon" not in interfaces:
        raise ServerSettingsError(
            f"{source}: paimon_warehouses are served by Paimon's REST catalog: set http_port, and leave paimon in "
            "rest_interfaces"
        )
    check_locations("paimon_warehouses", list(warehouses.values()), (), source)
    if DEFAULT_CATALOG in warehouses:
        raise ServerSettingsError(
            f"{source}: {DEFAULT_CATALOG} is the name of the metastore's catalog: give {warehouses[DEFAULT_CATALOG]} "
            "another name in paimon_warehouses"
        )
    known = {"the warehouse": _without_links(warehouse)}
    for name, given in warehouses.items():
        location = _without_links(given)
        for other, place in known.items():
            if contains(place, location) or contains(location, place):
                raise ServerSettingsError(
                    f"{source}: the location {given} of {name} in paimon_warehouses is in, around or that of {other}, "
                    f"{place}: a table would be in both"
                )
        known[name] = location


def _without_links(location: str) -> str:
    """Return a location as it is stored, that of a local directory without symbolic links."""
    from interbed.catalog.server.service.warehouse import normalized_location

    found = normalized_location(location)
    return f"file:{os.path.realpath(found.removeprefix('file:'))}" if found.startswith("file:") else found


def check_locations(name: str, locations: Sequence[str], words: Sequence[str], source: str) -> None:
    """Check the locations of a setting, which may have some words instead."""
    # Imported here, because the command's help needs only the settings' names.
    from interbed.catalog.server.service.directories.locations import InvalidLocationError, parsed

    for location in locations:
        if location in words:
            continue
        try:
            parsed(location)
        except InvalidLocationError as error:
            raise ServerSettingsError(f"{source}: {name}: {error}") from error


def check_pem(name: str, path: Path, source: str) -> None:
    """Check that a file can be read, and is not a Java keystore."""
    if path.suffix.lower() in _JAVA_KEYSTORES:
        raise ServerSettingsError(
            f"{source}: {name} is {path}, a Java keystore; a PEM file is wanted: keytool -importkeystore "
            "-deststoretype PKCS12 makes a .p12 of it, openssl pkcs12 -nodes a PEM file of that"
        )
    if not os.access(path, os.R_OK):
        raise ServerSettingsError(f"{source}: {name} is {path}, which cannot be read")


def is_loopback(host: str) -> bool:
    """Return whether the address is reachable from this machine alone. Of names only `localhost` is."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def check_authentication(
    settings: AuthenticationSettings, host: str, client_ca: Path | None, sources: Mapping[str, str]
) -> None:
    """Check that each mechanism of authentication has what it needs, and that other machines are not served without
    one by oversight.
    """
    mechanisms = mechanisms_of(settings.authentication)

    def refuse(name: str, reason: str) -> NoReturn:
        raise ServerSettingsError(f"{sources[name]}: {reason}")

    if mechanisms and NO_AUTHENTICATION in listed(settings.authentication):
        refuse("authentication", f"authentication is {settings.authentication}; `none` goes with no mechanism")
    if not settings.authentication and client_ca is None and not is_loopback(host):
        refuse(
            "host",
            f"the server would listen on {host} without authentication: every client that reaches the port "
            "could read and change all metadata, and have the server make and delete directories. Set "
            "`authentication` (certificate, token, jwt, ldap or kerberos), or start the server with "
            '--no-authentication (authentication = "none") if only trusted machines reach the port',
        )
    if "certificate" in mechanisms and client_ca is None:
        refuse("authentication", "authentication by certificate needs tls_client_ca, which signs the clients'")
    for name in ("jwt_issuer", "jwt_audience"):
        if "jwt" in mechanisms and not getattr(settings, name):
            refuse("authentication", f"authentication by jwt needs {name}")
    for name in ("jwt_issuer", "jwt_audience", "jwt_keys", "jwt_groups"):
        if "jwt" not in mechanisms and getattr(settings, name) is not None:
            refuse(name, f"{name} is set, and authentication has no jwt")
    asks_ldap = settings.user_groups == "ldap"
    for name in _LDAP_SETTINGS:
        if "ldap" not in mechanisms and not asks_ldap and getattr(settings, name) is not None:
            refuse(name, f"{name} is set, and authentication has no ldap; nor is it user_groups")
    if not listed(settings.delegation_protection):
        refuse("delegation_protection", "delegation_protection has no layer, so that no client could connect")
    if mechanisms == ["delegation-token"]:
        refuse(
            "authentication",
            "authentication is delegation-token alone: clients ask for delegation tokens when they have authenticated "
            "themselves by another mechanism; add one",
        )
    if "ldap" in mechanisms:
        _check_ldap(settings, "authentication", refuse)
    if asks_ldap and not mechanisms:
        refuse("user_groups", "user_groups is ldap, and without authentication the server does not know its users")
    if asks_ldap:
        _check_ldap(settings, "user_groups", refuse)
        for name in ("ldap_group_base", "ldap_bind_dn"):
            if getattr(settings, name) is None:
                refuse("user_groups", f"user_groups = ldap needs {name}")
    _check_kerberos(settings, mechanisms, refuse)
    _check_proxy_users(settings, mechanisms, refuse)


def _check_kerberos(
    settings: AuthenticationSettings, mechanisms: Sequence[str], refuse: Callable[[str, str], NoReturn]
) -> None:
    if "kerberos" not in mechanisms:
        for name in ("kerberos_keytab", "kerberos_principal", "kerberos_http_principal"):
            if getattr(settings, name) is not None:
                refuse(name, f"{name} is set, and authentication has no kerberos")
        return
    for name in ("kerberos_keytab", "kerberos_principal"):
        if getattr(settings, name) is None:
            refuse("authentication", f"authentication by kerberos needs {name}")
    for name in ("kerberos_principal", "kerberos_http_principal"):
        value = getattr(settings, name)
        if value is not None and SERVICE_PRINCIPAL.fullmatch(value) is None:
            refuse(name, f"{name} is {value:.300}, and is not of the form service/host@REALM or service/_HOST@REALM")
    if not listed(settings.kerberos_protection):
        refuse("kerberos_protection", "kerberos_protection has no layer, so that no client could connect")
    try:
        check_rules(settings.kerberos_auth_to_local)
    except AuthToLocalError as error:
        refuse("kerberos_auth_to_local", f"kerberos_auth_to_local: {error}")


def _check_proxy_users(
    settings: AuthenticationSettings, mechanisms: Sequence[str], refuse: Callable[[str, str], NoReturn]
) -> None:
    if settings.proxy_users is None:
        return
    if not mechanisms:
        refuse("proxy_users", "proxy_users is set, and without authentication the server does not know its services")
    try:
        proxies = parsed_proxy_users(settings.proxy_users)
    except ValueError as error:
        refuse("proxy_users", f"proxy_users: {error}")
    if settings.user_groups != "none":
        return
    for service, proxy in proxies.items():
        if proxy.groups and EVERYTHING not in proxy.groups:
            refuse("proxy_users", f"{service}.groups of proxy_users needs user_groups: without it users have no groups")


def _check_ldap(settings: AuthenticationSettings, needed_by: str, refuse: Callable[[str, str], NoReturn]) -> None:
    if not listed(settings.ldap_url):
        refuse(needed_by, f"{needed_by} by ldap needs ldap_url")
    for url in listed(settings.ldap_url):
        parts = urlsplit(url)
        if parts.scheme not in ("ldap", "ldaps") or not parts.hostname or parts.path.strip("/") or "@" in parts.netloc:
            refuse("ldap_url", "ldap_url has another form than ldaps://host:636 or ldap://host:389")
    if settings.ldap_user_dn is None and settings.ldap_user_base is None:
        refuse(needed_by, f"{needed_by} by ldap needs ldap_user_dn, or ldap_user_base for a search")
    for name in ("ldap_user_dn", "ldap_user_filter"):
        value = getattr(settings, name)
        if value is not None and "{user}" not in value:
            refuse(name, f"{name} is {value}, without {{user}}")
    places = {"{dn}", "{user}"} & set(_PLACES.findall(settings.ldap_group_filter))
    if settings.ldap_group_base is not None and not places:
        refuse("ldap_group_filter", "ldap_group_filter has neither {dn} nor {user}: every user would have all groups")
    if (settings.ldap_bind_dn is None) != (settings.ldap_bind_password_file is None):
        refuse(needed_by, "ldap_bind_dn and ldap_bind_password_file need each other")


_ADDRESSES_OF: Mapping[str, tuple[str, ...]] = {
    "credentials_s3_region": ("credentials_s3_role", "credentials_s3_signing"),
    "credentials_s3_endpoint": ("credentials_s3_role", "credentials_s3_signing"),
    "credentials_google_endpoint": ("credentials_google",),
    "credentials_google_token_endpoint": ("credentials_google",),
    "credentials_azure_endpoint": ("credentials_azure",),
    "credentials_azure_key_endpoint": ("credentials_azure",),
}
"""The settings of stores, and those of which each needs one."""


def check_credentials(settings: AuthenticationSettings, http_port: int | None, sources: Mapping[str, str]) -> None:
    """Check that clients are authenticated that get credentials or signatures, and that the stores have addresses
    without secrets.
    """
    means = dict.fromkeys(name for names in _ADDRESSES_OF.values() for name in names)
    given = [name for name in means if getattr(settings, name) not in (None, "off")]
    for name, needs in _ADDRESSES_OF.items():
        if getattr(settings, name) is not None and not set(needs) & set(given):
            raise ServerSettingsError(f"{sources[name]}: {name} is set without {' or '.join(needs)}")
    for name in given:
        if not mechanisms_of(settings.authentication):
            raise ServerSettingsError(f"{sources[name]}: {name} needs `authentication`: it is for principals")
        if http_port is None:
            raise ServerSettingsError(f"{sources[name]}: {name} needs http_port: it is for clients of REST catalogs")
    role, signs = settings.credentials_s3_role, settings.credentials_s3_signing == "on"
    if role is not None and ROLE_ARN.fullmatch(role) is None:
        raise ServerSettingsError(
            f"{sources['credentials_s3_role']}: credentials_s3_role is not the ARN of a role, {ROLE_ARN_FORM}"
        )
    if signs and settings.credentials_s3_region is None:
        raise ServerSettingsError(
            f"{sources['credentials_s3_signing']}: credentials_s3_signing needs credentials_s3_region: a signature is "
            "for one region"
        )
    for name in (name for name in _ADDRESSES_OF if name.endswith("endpoint")):
        if getattr(settings, name) is None:
            continue
        found = urlsplit(getattr(settings, name))
        has_path = signs and name == "credentials_s3_endpoint" and found.path not in ("", "/")
        # Azure's library sends tokens by TLS alone.
        schemes = ("https",) if name == "credentials_azure_key_endpoint" else ("http", "https")
        if found.scheme not in schemes or not found.hostname or found.username or found.query or has_path:
            raise ServerSettingsError(f"{sources[name]}: {name} is not an address https://host[:port]")


def check_access(settings: AuthenticationSettings, sources: Mapping[str, str]) -> None:
    """Check that an authorizer can be found by its name, and that it knows the callers."""
    chosen = settings.access_authorizer
    if chosen not in ("none", "builtin") and _CLASS.fullmatch(chosen) is None:
        raise ServerSettingsError(
            f"{sources['access_authorizer']}: access_authorizer is {chosen:.200}; it is none, builtin, or a class as "
            "package.module:Class"
        )
    if chosen != "none" and not mechanisms_of(settings.authentication):
        raise ServerSettingsError(
            f"{sources['access_authorizer']}: access_authorizer is {chosen}, which needs authentication: without it "
            "the server does not know its callers"
        )
    if chosen != "builtin" and listed(settings.access_admins):
        raise ServerSettingsError(
            f"{sources['access_admins']}: access_admins is set, and access_authorizer is {chosen}: only builtin has "
            "the role admin"
        )
