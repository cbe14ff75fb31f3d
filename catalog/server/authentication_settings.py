"""The settings of authentication, of access, and of the credentials that a server issues."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from interbed.catalog.server.auth.principals import ALGORITHMS
from interbed.catalog.server.setting_kinds import (
    NO_AUTHENTICATION,
    PATH,
    SECONDS,
    TEXT,
    about,
    choice,
    integer,
    optional,
    some_of,
    switch,
)

PROTECTIONS = ("authentication", "integrity", "privacy")
"""Layers of protection of SASL, by Hadoop's names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthenticationSettings:
    """The part of ServerSettings about clients: their identities, their rights, their storage credentials."""

    authentication: str = field(
        default="",
        metadata=about(
            "Mechanisms of authentication, separated by commas. Nothing: every client is served, on loopback alone; "
            "none: on any address.",
            some_of(NO_AUTHENTICATION, "certificate", "token", "jwt", "ldap", "delegation-token", "kerberos"),
        ),
    )
    authentication_failures_max: int = field(
        default=10,
        metadata=about(
            "Wrong passwords of one user from one address before further ones wait; 0: no limit.",
            integer(0, 1_000_000, "a number"),
        ),
    )
    authentication_failures_of_address_max: int = field(
        default=100,
        metadata=about(
            "Failed authentications of one address, and wrong passwords of one user, before further ones wait; 0: no "
            "limit.",
            integer(0, 1_000_000, "a number"),
        ),
    )
    authentication_wait_seconds_max: float = field(
        default=60.0,
        metadata=about("The longest of these waits; they begin with a second, and double.", SECONDS),
    )
    jwt_issuer: str | None = field(
        default=None, metadata=about("The issuer of JWTs, as their claim `iss` has it.", optional(TEXT))
    )
    jwt_audience: str | None = field(
        default=None, metadata=about("The audience that JWTs have to be for, their claim `aud`.", optional(TEXT))
    )
    jwt_keys: str | None = field(
        default=None,
        metadata=about(
            "Where the issuer's keys are, a JWK set: a file or an address; nothing: where the issuer's "
            "OpenID configuration says.",
            optional(TEXT),
        ),
    )
    jwt_algorithms: str = field(
        default="RS256,ES256", metadata=about("Algorithms that JWTs may be signed by.", some_of(*ALGORITHMS))
    )
    jwt_principal: str = field(
        default="sub", metadata=about("The claim of JWTs with the user's name, a path with dots.", TEXT)
    )
    jwt_groups: str | None = field(
        default=None, metadata=about("The claim of JWTs with the user's groups; nothing: none.", optional(TEXT))
    )
    ldap_url: str | None = field(
        default=None,
        metadata=about(
            "Servers of the LDAP directory, separated by commas: ldaps://host, or ldap://host with StartTLS (without "
            "TLS on loopback alone).",
            optional(TEXT),
        ),
    )
    ldap_ca: Path | None = field(
        default=None,
        metadata=about("Authorities of the LDAP servers' certificates, PEM; nothing: the system's.", optional(PATH)),
    )
    ldap_user_dn: str | None = field(
        default=None,
        metadata=about(
            "The name that a user binds with, with {user} in it; nothing: the user is searched for.", optional(TEXT)
        ),
    )
    ldap_user_base: str | None = field(
        default=None, metadata=about("Below which entry users are searched for.", optional(TEXT))
    )
    ldap_user_filter: str = field(
        default="(uid={user})", metadata=about("The filter for a user; exactly one entry has to match.", TEXT)
    )
    ldap_group_base: str | None = field(
        default=None,
        metadata=about("Below which entry groups are searched for; nothing: users have no groups.", optional(TEXT)),
    )
    ldap_group_filter: str = field(
        default="(member={dn})", metadata=about("The filter for a user's groups, with {dn} or {user} in it.", TEXT)
    )
    ldap_group_name: str = field(default="cn", metadata=about("The attribute of groups that is their name.", TEXT))
    ldap_bind_dn: str | None = field(
        default=None,
        metadata=about("The entry that searches for users and groups; nothing: the user does.", optional(TEXT)),
    )
    ldap_bind_password_file: Path | None = field(
        default=None, metadata=about("A file with the password of ldap_bind_dn.", optional(PATH))
    )
    delegation_max_seconds: float = field(
        default=7 * 86400.0,
        metadata=about("The lifetime of a delegation token, which no renewal exceeds.", SECONDS),
    )
    delegation_renew_seconds: float = field(
        default=86400.0,
        metadata=about("How long a delegation token is accepted after it was issued, and after each renewal.", SECONDS),
    )
    delegation_key_seconds: float = field(
        default=86400.0,
        metadata=about("How long a master key makes the passwords of new delegation tokens.", SECONDS),
    )
    delegation_protection: str = field(
        default="authentication,integrity,privacy",
        metadata=about(
            "Layers of protection that clients with a delegation token may choose, as in hadoop.rpc.protection.",
            some_of(*PROTECTIONS),
        ),
    )
    kerberos_keytab: Path | None = field(
        default=None, metadata=about("The keytab with the server's keys of Kerberos.", optional(PATH))
    )
    kerberos_principal: str | None = field(
        default=None,
        metadata=about(
            "The server's principal on Thrift's port, service/host@REALM; _HOST is this machine's name.",
            optional(TEXT),
        ),
    )
    kerberos_http_principal: str | None = field(
        default=None,
        metadata=about(
            "The server's principal over HTTP; nothing: HTTP with the host and the realm of kerberos_principal.",
            optional(TEXT),
        ),
    )
    kerberos_auth_to_local: str = field(
        default="DEFAULT",
        metadata=about(
            "Rules that make users of principals, in the syntax of Hadoop's hadoop.security.auth_to_local.", TEXT
        ),
    )
    kerberos_protection: str = field(
        default="authentication,integrity,privacy",
        metadata=about(
            "Layers of protection that clients of Thrift's port may choose, as in hadoop.rpc.protection.",
            some_of(*PROTECTIONS),
        ),
    )
    user_groups: str = field(
        default="none",
        metadata=about(
            "Where the groups of Kerberos's users and of users that services act for come from: none; system, the "
            "users and groups of this machine; ldap, the directory, also for certificates and JWTs without jwt_groups.",
            choice("none", "system", "ldap"),
        ),
    )
    user_groups_seconds: float = field(
        default=300.0,
        metadata=about("How long the groups of a user are kept, also for its open connections.", SECONDS),
    )
    proxy_users: str | None = field(
        default=None,
        metadata=about(
            "Services that may act for other users, as hadoop.proxyuser.* names them: service.hosts=…; "
            "service.groups=…; service.users=…, separated by semicolons.",
            optional(TEXT),
        ),
    )
    credentials_s3_role: str | None = field(
        default=None,
        metadata=about(
            "The ARN of a role for short-lived credentials of S3, each for the directory of one table; nothing: "
            "clients need keys of their own.",
            optional(TEXT),
        ),
    )
    credentials_s3_region: str | None = field(
        default=None, metadata=about("The region of the buckets, for clients.", optional(TEXT))
    )
    credentials_s3_endpoint: str | None = field(
        default=None,
        metadata=about("The address of a store that is not AWS's: its S3, and its AssumeRole.", optional(TEXT)),
    )
    credentials_s3_signing: Literal["off", "on"] = field(
        default="off",
        metadata=about(
            "Whether the server signs requests of Iceberg's clients to S3, each on the directory of one table, by its "
            "own keys: for stores without AssumeRole.",
            switch(),
        ),
    )
    credentials_google: Literal["off", "on"] = field(
        default="off",
        metadata=about(
            "Whether the server issues tokens of Google's store, each for the directory of one table, by its own "
            "credentials of Google.",
            switch(),
        ),
    )
    credentials_google_endpoint: str | None = field(
        default=None,
        metadata=about("The address of Google's store for clients, where it is not the public one.", optional(TEXT)),
    )
    credentials_google_token_endpoint: str | None = field(
        default=None,
        metadata=about("The address of Google's token service, where it is not the public one.", optional(TEXT)),
    )
    credentials_azure: Literal["off", "on"] = field(
        default="off",
        metadata=about(
            "Whether the server issues shared access signatures of Azure's store, each for the directory of one table, "
            "by its own identity.",
            switch(),
        ),
    )
    credentials_azure_endpoint: str | None = field(
        default=None,
        metadata=about(
            "The address of the account of Azure for clients, where it is not that in the locations.", optional(TEXT)
        ),
    )
    credentials_azure_key_endpoint: str | None = field(
        default=None,
        metadata=about(
            "The address of the account of Azure by which the server gets keys, https, where it is not that in the "
            "locations.",
            optional(TEXT),
        ),
    )
    credentials_seconds: int = field(
        default=3600,
        metadata=about("How long credentials of S3 and Azure are valid.", integer(900, 43200, "a number of seconds")),
    )
    access_authorizer: str = field(
        default="none",
        metadata=about(
            "What decides about the access of clients: `builtin`, by grants and roles; `none`, every client may do "
            "everything; or a class of your own, package.module:Class.",
            TEXT,
        ),
    )
    access_admins: str = field(
        default="",
        metadata=about("Users in the role `admin`, separated by commas, beside those that are granted it.", TEXT),
    )
    access_trusted: str = field(
        default="",
        metadata=about(
            "Principals of engines that apply row filters and column masks, separated by commas: they get credentials "
            "and plans for tables whose policies bind them.",
            TEXT,
        ),
    )
