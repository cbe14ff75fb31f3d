"""Which of Hadoop's clients opens the store of a table in Spark, and with what: the catalog's options in its words.

Spark's own Parquet reader reads through Hadoop. It gets a configuration of its own, so that nothing of it shows among
the session's settings, and a file system of its own: Hadoop shares those that are open by the bucket alone, whosever
keys they have.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from interbed.storage.base.fileio.stores.hadoop_settings import hadoop_scheme, hadoop_settings

# interbed.spark.read.CatalogFileSystem, and what it looks for in its configuration.
_CLASS = "interbed.spark.read.CatalogFileSystem"
_CLIENT = "interbed.file-system.client"
_IDENTITY = "interbed.file-system.identity"
_CLIENTS = {"s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopStore:
    """The store of one table for Spark's reader. `lacks` says why that can't have it; then `settings` is empty."""

    prefix: str
    scheme: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    lacks: str | None = None

    def uri(self, path: str) -> str | None:
        """A file's name for Hadoop; None when it is elsewhere."""
        if self.lacks is not None or not path.startswith(self.prefix):
            return None
        authority, _, key = path.partition("://")[2].partition("/")
        return f"{self.scheme}://{authority}/{quote(key)}"


def hadoop_store(location: str, options: Mapping[str, str], *, opens: bool, insists: bool) -> HadoopStore | None:
    """The store of a location, None for one that no client of Hadoop's is known for.

    `opens` says whether Spark has a client for the scheme. `insists` is for reading also where Hadoop's own
    configuration has to say whose requests they are. Raises as store_settings does.
    """
    scheme = hadoop_scheme(location)
    if scheme is None:
        return None
    prefix = "/".join(location.split("/", 3)[:3]) + "/"
    if not opens:
        return HadoopStore(prefix=prefix, scheme=scheme, lacks="no hadoop-aws")
    settings, has_credentials = hadoop_settings(location, options)
    if not has_credentials and not insists:
        return HadoopStore(prefix=prefix, scheme=scheme, lacks="no keys for Hadoop")
    settings = {
        **settings,
        f"fs.{scheme}.impl": _CLASS,
        # Ours is made for each file, and shares what it stands before.
        f"fs.{scheme}.impl.disable.cache": "true",
        _CLIENT: _CLIENTS[scheme],
    }
    identity = hashlib.sha256(json.dumps(sorted(settings.items())).encode()).hexdigest()
    return HadoopStore(prefix=prefix, scheme=scheme, settings={**settings, _IDENTITY: identity})
