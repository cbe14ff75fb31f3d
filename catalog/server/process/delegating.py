"""The delegation tokens of a server, assembled from its settings."""

from dataclasses import replace

from interbed.catalog.server.auth.delegation.digest_md5 import (
    DIGEST_MD5,
    DigestMd5Mechanism,
    DigestQuality,
    offered_qualities,
)
from interbed.catalog.server.auth.delegation.rules import DelegationRules, ShortName, TokenLifetimes, same_name
from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.auth.kerberos.auth_to_local import AuthToLocal
from interbed.catalog.server.auth.principals import Mechanism
from interbed.catalog.server.auth.sasl import SaslMechanism
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.authenticating import impersonation_for
from interbed.catalog.server.setting_kinds import listed, mechanisms_of
from interbed.catalog.server.settings import ServerSettings
from interbed.catalog.server.thrift.calls.delegation import DelegationHandler
from interbed.catalog.server.thrift.edge.authenticating import PortAuthentication
from interbed.catalog.server.thrift.edge.caller import present_principal
from interbed.storage.base.errors import load_extra

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
    acting = impersonation_for(settings).acting
    rules = DelegationRules(lifetimes=lifetimes, acting=acting, short_name=_short_names(settings))
    return DelegationTokenService(store, rules=rules)


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
