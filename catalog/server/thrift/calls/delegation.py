"""The calls about delegation tokens: those of the server, and the token store of HiveServer2.

The text of a token has its password. It is in no log: the audit log has its sequence number.
"""

from collections.abc import Callable

from interbed.catalog.server.auth.delegation.tokens import DelegationTokenService
from interbed.catalog.server.auth.principals import Principal
from interbed.catalog.server.service.errors import AccessDeniedError, MetastoreError
from interbed.catalog.server.service.service import Metastore

_NOT_ISSUED = (
    "this server issues no delegation tokens: have delegation-token and another mechanism in its setting "
    "`authentication`"
)


class DelegationHandler:
    """The calls about delegation tokens of a server that issues them. `caller` returns the principal of a call and its
    address, None for a client that is not authenticated.
    """

    def __init__(self, tokens: DelegationTokenService, caller: Callable[[], tuple[Principal, str] | None]) -> None:
        self._tokens = tokens
        self._find_caller = caller

    def get_delegation_token(self, token_owner: str, renewer_kerberos_principal_name: str) -> str:
        caller, peer = self._caller()
        return self._tokens.issue(caller, token_owner or "", renewer_kerberos_principal_name or "", peer)

    def renew_delegation_token(self, token_str_form: str) -> int:
        return self._tokens.renew(self._caller()[0], token_str_form or "")

    def cancel_delegation_token(self, token_str_form: str) -> None:
        self._tokens.cancel(self._caller()[0], token_str_form or "")

    def _caller(self) -> tuple[Principal, str]:
        """Return the principal of the present call, and its address."""
        found = self._find_caller()
        if found is None:
            raise AccessDeniedError("delegation tokens are for authenticated clients, and this one is not")
        return found


class NoDelegationHandler:
    """The calls about delegation tokens of a server that issues none."""

    def get_delegation_token(self, token_owner: str, renewer_kerberos_principal_name: str) -> str:
        raise MetastoreError(_NOT_ISSUED)

    def renew_delegation_token(self, token_str_form: str) -> int:
        raise MetastoreError(_NOT_ISSUED)

    def cancel_delegation_token(self, token_str_form: str) -> None:
        raise MetastoreError(_NOT_ISSUED)


class TokenStoreHandler:
    """The calls of HiveServer2's token store."""

    def __init__(self, metastore: Metastore) -> None:
        self._store = metastore.token_store

    def add_token(self, token_identifier: str, delegation_token: str) -> bool:
        return self._store.add_token(token_identifier or "", delegation_token or "")

    def remove_token(self, token_identifier: str) -> bool:
        return self._store.remove_token(token_identifier or "")

    def get_token(self, token_identifier: str) -> str:
        # Thrift has no null results.
        return self._store.token(token_identifier or "") or ""

    def get_all_token_identifiers(self) -> list[str]:
        return list(self._store.identifiers())

    def add_master_key(self, key: str) -> int:
        return self._store.add_key(key or "")

    def update_master_key(self, seq_number: int, key: str) -> None:
        self._store.replace_key(seq_number, key or "")

    def remove_master_key(self, key_seq: int) -> bool:
        return self._store.remove_key(key_seq)

    def get_master_keys(self) -> list[str]:
        return list(self._store.keys())
