"""What a bucket or container is opened with, whoever opens it."""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from interbed.storage.base.errors import InterbedError
from interbed.storage.base.fileio.stores.aws_keys import LOCAL_KEYS
from interbed.storage.base.fileio.stores.patience import Patience

_SECRET_CONFIG = ("account_key", "sas_key", "client_secret")
_SECRET_VARIABLES = (
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_SAS_TOKEN",
    "AZURE_CLIENT_SECRET",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """What obstore opens a bucket or container with; `kind` is the name of its class.

    `heeds_conditions` says whether its puts do, None that it has to be tried. What may be secret is no part of the
    representation.
    """

    kind: str
    bucket: str
    location: str = ""
    """The bucket or container as a location begins: `s3://bucket`."""
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
    given: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What options say, by the names that are used here, and the name of the option that does."""

    @property
    def address_option(self) -> str:
        """What says which address is asked, for messages; empty where it is the cloud's own."""
        if self.endpoint is None:
            return ""
        name = self.given.get("endpoint")
        return "the endpoint of the environment" if name is None else f"the option '{name}'"

    @property
    def ended(self) -> str:
        """When the credentials have ended, by themselves; empty where that is not known to be so."""
        past = self.end is not None and self.end <= datetime.now(UTC)
        return f"{self.end:%Y-%m-%dT%H:%M:%SZ}" if past else ""

    @property
    def secrets(self) -> frozenset[str]:
        """What no message may have in it, as far as it is known here."""
        found = {self.config.get(name) for name in _SECRET_CONFIG} | {os.environ.get(n) for n in _SECRET_VARIABLES}
        if isinstance(self.credentials, LOCAL_KEYS):
            with suppress(InterbedError):
                keys = self.credentials()
                found |= {keys["secret_access_key"], keys["token"]}
        return frozenset(value for value in found if value)
