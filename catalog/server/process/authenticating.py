"""Authentication, delegation tokens and credentials for object stores of a server, assembled from its settings."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from interbed.catalog.server.auth.attempts import AttemptLimits, AttemptMemory, FailedAttempts
from interbed.catalog.server.auth.authentication import (
    PLAIN,
    Authentication,
    CertificateEnds,
    PlainMechanism,
    SaslMechanism,
)
from interbed.catalog.server.auth.delegation.digest_md5 import (
    DIGEST_MD5,
    DigestMd5Mechanism,
    DigestQuality,
    offered_qualities,
)
from interbed.catalog.server.auth.delegation.tokens import (
    DelegationRules,
    DelegationTokenService,
    OwnerGroups,
    ShortName,
    TokenLifetimes,
    same_name,
)
from interbed.catalog.server.auth.impersonation import (
    DirectoryGroups,
    GroupedBearers,
    Impersonation,
    NoGroups,
    UserGroups,
    parsed_proxy_users,
    system_groups,
)
from interbed.catalog.server.auth.issued_tokens import OptimizerIdentity, TokenService
from interbed.catalog.server.auth.kerberos import (
    GSSAPI,
    Acceptor,
    GssapiMechanism,
    KerberosUsers,
    KeytabError,
    NegotiateVerifier,
    named_principal,
)
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthToLocal,
    BearerVerifier,
    Credentials,
    JwtRules,
    Mechanism,
    TicketVerifier,
)
from interbed.catalog.server.credentials.issued import CredentialIssuer, TableCredentials, permitted_operation
from interbed.catalog.server.credentials.s3_requests import OwnKeys, S3Address, TableSigning
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.policies import PolicyRules
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.setting_kinds import listed, mechanisms_of
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.thrift.calls.grants import DelegationHandler
from interbed.catalog.server.thrift.edge.authenticating import PortAuthentication
from interbed.catalog.server.thrift.edge.call import ClientSession, present_principal
from interbed.storage.base.errors import load_extra

if TYPE_CHECKING:
    from interbed.catalog.server.auth.ldap_directory import LdapVerifier


def authentication_for(
    settings: ServerSettings, store: SqlRepository, attempts: AttemptMemory | None = None
) -> Authentication | None:
    """Return the authentication of a server, None if it serves every client. MetastoreError, MissingExtraError.

    `attempts` is the memory of failed authentications that its processes share, None for one process.
    """
    mechanisms = mechanisms_of(settings.authentication)
    if not mechanisms:
        return None
    bearers: dict[Mechanism, BearerVerifier] = {}
    if Mechanism.TOKEN in mechanisms:
        bearers[Mechanism.TOKEN] = TokenService(store)
    groups = _directory_groups(settings) if settings.user_groups == "ldap" else None
    if Mechanism.JWT in mechanisms:
        tokens = _jwt_verifier(settings)
        if groups is not None and settings.jwt_groups is None:
            tokens = GroupedBearers(tokens, groups)
        bearers[Mechanism.JWT] = tokens
    passwords = _ldap_verifier(settings) if Mechanism.LDAP in mechanisms else None
    limits = AttemptLimits(
        user_failures_max=settings.authentication_failures_max,
        address_failures_max=settings.authentication_failures_of_address_max,
        wait_seconds_max=settings.authentication_wait_seconds_max,
    )
    has_kerberos = Mechanism.KERBEROS in mechanisms
    return Authentication(
        bearers,
        passwords=passwords,
        certificates=Mechanism.CERTIFICATE in mechanisms,
        attempts=FailedAttempts(limits, memory=attempts),
        has_kerberos=has_kerberos,
        groups=groups,
        negotiate=_negotiate_verifier(settings) if has_kerberos and settings.http_port is not None else None,
    )


def admission(authentication: Authentication | None) -> Callable[[ClientSession], ClientSession]:
    """Return the function that admits connections of Thrift's port before they send a token, by their certificates."""
    if authentication is None:
        return lambda session: session
    way = "Kerberos is by SASL (hive.metastore.sasl.enabled), or over HTTP"
    if authentication.takes_secrets:
        way = "A token is sent by SASL (hive.metastore.client.auth.mode=PLAIN), or over HTTP"

    def admit(session: ClientSession) -> ClientSession:
        try:
            principal = authentication.authenticate(Credentials(certificate=session.certificate))
        except AuthenticationError as error:
            return replace(
                session,
                refusal=f"{error}. {way}",
            )
        return replace(session, principal=principal, user=principal.name)

    return admit


def impersonation_for(settings: ServerSettings) -> Impersonation:
    """Return the rules by which clients act for other users."""
    return Impersonation(parsed_proxy_users(settings.proxy_users or ""), _groups_of(settings).of)


def port_authentication(
    settings: ServerSettings, authentication: Authentication | None, optimizer: OptimizerIdentity | None
) -> PortAuthentication:
    """Return the mechanisms of SASL on Thrift's port, and on that of the optimizer beside the server.

    MetastoreError, MissingExtraError.
    """
    clients: dict[str, SaslMechanism] = {}
    if authentication is not None:
        mechanisms = mechanisms_of(settings.authentication)
        if Mechanism.KERBEROS in mechanisms:
            clients[GSSAPI] = _gssapi_mechanism(settings)
        if authentication.takes_secrets or not clients:
            clients[PLAIN] = PlainMechanism(authentication)
    return PortAuthentication(
        clients=clients,
        optimizer={} if optimizer is None else {PLAIN: PlainMechanism(optimizer)},
        authentication=authentication,
        certificates=CertificateEnds(),
    )


def certificates_for(settings: ServerSettings, authentication: Authentication | None) -> CertificateEnds | None:
    """Return the check of clients' certificates on the HTTP port of a server without authentication, None where it is
    not needed.
    """
    return None if settings.tls_client_ca is None or authentication is not None else CertificateEnds()


def credentials_for(
    settings: ServerSettings, store: SqlRepository, access: AccessGuard, policies: PolicyRules
) -> TableCredentials | None:
    """Return the storage credentials that a server issues, None if it issues none. MissingExtraError."""
    issuers: list[CredentialIssuer] = []
    if settings.credentials_s3_role is not None:
        # Needs the libraries of an extra.
        from interbed.catalog.server.credentials.issuers import AssumedRole

        issuers.append(
            AssumedRole(
                settings.credentials_s3_role,
                seconds=settings.credentials_seconds,
                region=settings.credentials_s3_region,
                endpoint=settings.credentials_s3_endpoint,
                store_endpoint=settings.credentials_s3_endpoint,
            )
        )
    if settings.credentials_google == "on":
        # Needs the library of an extra.
        from interbed.catalog.server.credentials.issuers import DownscopedTokens

        issuers.append(
            DownscopedTokens(
                token_service=settings.credentials_google_token_endpoint,
                store_endpoint=settings.credentials_google_endpoint,
            )
        )
    if settings.credentials_azure == "on":
        # Needs the libraries of an extra.
        from interbed.catalog.server.credentials.issuers import DelegatedSignatures

        issuers.append(
            DelegatedSignatures(
                seconds=settings.credentials_seconds,
                key_endpoint=settings.credentials_azure_key_endpoint,
                store_endpoint=settings.credentials_azure_endpoint,
            )
        )
    return TableCredentials(store, issuers, partial(permitted_operation, access, policies)) if issuers else None


def signing_for(
    settings: ServerSettings, store: SqlRepository, access: AccessGuard, policies: PolicyRules
) -> TableSigning | None:
    """Return the signatures that a server makes for its clients, None if it makes none. MissingExtraError."""
    if settings.credentials_s3_signing == "off":
        return None
    assert settings.credentials_s3_region is not None
    address = S3Address(region=settings.credentials_s3_region, endpoint=settings.credentials_s3_endpoint)
    return TableSigning(store, address, partial(permitted_operation, access, policies), OwnKeys().sign)


def identity_is_needed(settings: ServerSettings) -> bool:
    """Return whether the optimizer beside the server needs a port and an identity of its own: the others ask for
    credentials, TLS or another protocol.
    """
    is_plain = settings.tls_certificate is None and settings.protocol == "binary"
    return settings.optimizer == "on" and (not is_plain or bool(mechanisms_of(settings.authentication)))


def identity_for(settings: ServerSettings) -> OptimizerIdentity | None:
    """Return a new identity for the optimizer beside the server, None if it needs none."""
    return OptimizerIdentity() if identity_is_needed(settings) else None


def _groups_of(settings: ServerSettings) -> UserGroups:
    """Return the groups of users whose mechanism has none."""
    return NoGroups() if settings.user_groups == "none" else _directory_groups(settings)


@lru_cache(maxsize=1)
def _directory_groups(settings: ServerSettings) -> DirectoryGroups:
    """Return the groups of the directory or this machine, which all mechanisms of a server share."""
    look_up = _ldap_verifier(settings).groups_of if settings.user_groups == "ldap" else system_groups
    return DirectoryGroups(look_up, seconds=settings.user_groups_seconds)


def _ldap_verifier(settings: ServerSettings) -> "LdapVerifier":
    load_extra("ldap3", needed_by="Authentication by ldap")
    # Needs the library of an extra.
    from interbed.catalog.server.auth.ldap_directory import LdapRules, LdapVerifier

    password = None
    if settings.ldap_bind_password_file is not None:
        try:
            password = settings.ldap_bind_password_file.read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise MetastoreError(f"cannot read ldap_bind_password_file: {type(error).__name__}") from error
    return LdapVerifier(
        LdapRules(
            urls=listed(settings.ldap_url),
            ca=settings.ldap_ca,
            user_dn=settings.ldap_user_dn,
            user_base=settings.ldap_user_base,
            user_filter=settings.ldap_user_filter,
            group_base=settings.ldap_group_base,
            group_filter=settings.ldap_group_filter,
            group_name=settings.ldap_group_name,
            bind_dn=settings.ldap_bind_dn,
            bind_password=password,
        )
    )


def _gssapi_mechanism(settings: ServerSettings) -> SaslMechanism:
    assert settings.kerberos_keytab is not None
    assert settings.kerberos_principal is not None
    try:
        acceptor = Acceptor(settings.kerberos_keytab, named_principal(settings.kerberos_principal))
    except KeytabError as error:
        raise MetastoreError(str(error)) from error
    return GssapiMechanism(acceptor, _kerberos_users(settings), listed(settings.kerberos_protection))


def _negotiate_verifier(settings: ServerSettings) -> TicketVerifier:
    assert settings.kerberos_keytab is not None
    assert settings.kerberos_principal is not None
    principal = settings.kerberos_http_principal
    if principal is None:
        principal = f"HTTP/{settings.kerberos_principal.partition('/')[2]}"
    try:
        return NegotiateVerifier(settings.kerberos_keytab, named_principal(principal), _kerberos_users(settings))
    except KeytabError as error:
        raise MetastoreError(f"{error}. kerberos_http_principal names the principal over HTTP") from error


def _kerberos_users(settings: ServerSettings) -> KerberosUsers:
    assert settings.kerberos_principal is not None
    return KerberosUsers(
        rules=AuthToLocal(settings.kerberos_auth_to_local, settings.kerberos_principal.rpartition("@")[2]),
        groups=_groups_of(settings),
        impersonation=impersonation_for(settings),
    )


def _jwt_verifier(settings: ServerSettings) -> BearerVerifier:
    for library in ("jwt", "cryptography"):
        load_extra(library, needed_by="Authentication by jwt")
    # Needs the libraries of an extra.
    from interbed.catalog.server.auth.json_web_tokens import (
        JwtVerifier,
        SigningKeys,
        discovering_fetcher,
        file_fetcher,
        url_fetcher,
    )

    assert settings.jwt_issuer is not None
    assert settings.jwt_audience is not None
    try:
        if settings.jwt_keys is None:
            fetch = discovering_fetcher(settings.jwt_issuer)
        elif "://" in settings.jwt_keys:
            fetch = url_fetcher(settings.jwt_keys)
        else:
            fetch = file_fetcher(Path(settings.jwt_keys))
    except ValueError as error:
        raise MetastoreError(f"the keys of JWTs: {error}") from error
    rules = JwtRules(
        issuer=settings.jwt_issuer,
        audience=settings.jwt_audience,
        algorithms=listed(settings.jwt_algorithms),
        principal_claim=settings.jwt_principal,
        groups_claim=settings.jwt_groups,
    )
    return JwtVerifier(rules, SigningKeys(fetch))


_QUALITIES = {
    "authentication": DigestQuality.AUTH,
    "integrity": DigestQuality.INTEGRITY,
    "privacy": DigestQuality.CONFIDENTIALITY,
}


def delegation_for(settings: ServerSettings, store: SqlRepository) -> DelegationTokenService | None:
    """Return the delegation tokens of a server, None if it has none."""
    if Mechanism.DELEGATION_TOKEN not in mechanisms_of(settings.authentication):
        return None
    lifetimes = TokenLifetimes(
        max_seconds=settings.delegation_max_seconds,
        renew_seconds=settings.delegation_renew_seconds,
        key_seconds=settings.delegation_key_seconds,
    )
    impersonation = impersonation_for(settings)
    rules = DelegationRules(
        lifetimes=lifetimes,
        acting=impersonation.acting,
        short_name=_short_names(settings),
        directory=_owner_groups(settings, impersonation),
    )
    return DelegationTokenService(store, rules=rules)


def _owner_groups(settings: ServerSettings, impersonation: Impersonation) -> OwnerGroups | None:
    """Return the directory that is asked again for the groups of the owners of tokens; None without one."""
    if settings.user_groups == "none":
        return None
    found = {Mechanism.KERBEROS}
    if settings.user_groups == "ldap":
        found |= {Mechanism.CERTIFICATE, Mechanism.LDAP}
        if settings.jwt_groups is None:
            found.add(Mechanism.JWT)
    return OwnerGroups(
        groups=_directory_groups(settings), mechanisms=frozenset(found), check_user=impersonation.check_user
    )


def _short_names(settings: ServerSettings) -> ShortName:
    """Return the function that maps principals of Kerberos to users. Names without a realm are users."""
    if Mechanism.KERBEROS not in mechanisms_of(settings.authentication) or settings.kerberos_principal is None:
        return same_name
    rules = AuthToLocal(settings.kerberos_auth_to_local, settings.kerberos_principal.rpartition("@")[2])
    return lambda name: rules.user(name) if "@" in name else name


def delegation_handler_for(tokens: DelegationTokenService | None) -> DelegationHandler | None:
    """Return the handler of the calls about delegation tokens, None if there are none."""
    return None if tokens is None else DelegationHandler(tokens, present_principal)


def with_delegation(
    ports: PortAuthentication, settings: ServerSettings, tokens: DelegationTokenService | None
) -> PortAuthentication:
    """Return the mechanisms of SASL with the one of delegation tokens, if there are any. MissingExtraError."""
    if tokens is None:
        return ports
    return replace(ports, clients={**ports.clients, DIGEST_MD5: _digest_mechanism(settings, tokens)})


def _digest_mechanism(settings: ServerSettings, tokens: DelegationTokenService) -> SaslMechanism:
    wanted = tuple(_QUALITIES[name] for name in listed(settings.delegation_protection))
    if wanted == (DigestQuality.CONFIDENTIALITY,):
        load_extra("cryptography", needed_by="The protection of delegation tokens by privacy alone")
    possible = offered_qualities()
    return DigestMd5Mechanism(tokens, tuple(each for each in wanted if each in possible))
