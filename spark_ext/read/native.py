"""Choice of the splits for Spark's own Parquet reader: those whose files have the table's rows unchanged.

The reader has no merging, no schema evolution and none of Paimon's types; a file qualifies when it needs none of them.
The reader reports the positions of rows, by which rows of deletion vectors are left out.

Spark's reader uses Hadoop. It gets a configuration of its own (the catalog's options as Hadoop's settings), so that no
secret is among the session's settings, and a file system of its own: Hadoop caches open file systems by the bucket
alone, whatever their credentials.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from interbed.spark_ext.handle.table_handle import TableHandle
from interbed.storage.base.types.data_type import TIMESTAMPS, AtomicType, DataField, DataType, MultisetType, TypeRoot
from interbed.storage.io.stores.settings import hadoop_scheme, hadoop_settings
from interbed.storage.meta.schema.table_schema import TableSchema
from interbed.storage.scan.split import Split
from interbed.storage.table.table import Table
from interbed.thrift_idl.planner.ttypes import NativeFile

# interbed.spark.read.CatalogFileSystem, and the keys of its configuration.
_CLASS = "interbed.spark.read.CatalogFileSystem"
_CLIENT = "interbed.file-system.client"
_IDENTITY = "interbed.file-system.identity"
_CLIENTS = {"s3a": "org.apache.hadoop.fs.s3a.S3AFileSystem"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HadoopStore:
    """The object store of one table for Spark's reader. With a reason in `lacks` it can't be used."""

    prefix: str
    scheme: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    lacks: str | None = None

    def uri(self, path: str) -> str | None:
        """Return a file's name for Hadoop; None when it is in another place."""
        if self.lacks is not None or not path.startswith(self.prefix):
            return None
        authority, _, key = path.partition("://")[2].partition("/")
        return f"{self.scheme}://{authority}/{quote(key)}"


def hadoop_store(location: str, options: Mapping[str, str], *, opens: bool, insists: bool) -> HadoopStore | None:
    """Return the object store of a location; None when Hadoop has no known client for it.

    `opens`: Spark has a client for the scheme. `insists`: read also when only Hadoop's own configuration may have
    credentials. Raises the errors of store_settings.
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
        # Ours is created for each file, and caches the client behind it.
        f"fs.{scheme}.impl.disable.cache": "true",
        _CLIENT: _CLIENTS[scheme],
    }
    identity = hashlib.sha256(json.dumps(sorted(settings.items())).encode()).hexdigest()
    return HadoopStore(prefix=prefix, scheme=scheme, settings={**settings, _IDENTITY: identity})


OPTION = "spark.native-read"

# Finer timestamps are written as INT96, which Spark reads as instants for any type of the column.
_TIMESTAMP_PRECISION_MAX = 6


def native_files(handle: TableHandle, table: Table, columns: Sequence[str], *, hadoop_opens: bool) -> "NativeFiles":
    """Return the choice of native files for a scan; `hadoop_opens` is that of planner.thrift's ScanRequest.

    Raises the errors of hadoop_store.
    """
    options = {**handle.file_system_options, **handle.dynamic_options}
    insists = table.schema.options.get(OPTION, "").lower() == "true"
    if handle.tokens_of is None:
        store = hadoop_store(handle.location, options, opens=hadoop_opens, insists=insists)
    else:
        # Hadoop's client would keep the keys of an expired token.
        store = HadoopStore(prefix=handle.location, scheme="", lacks="tokens of the server")
    return NativeFiles(table.schema, columns, lambda schema_id: table.access.schema_of(schema_id).fields, store)


class NativeFiles:
    """Chooses the files of one scan for Spark's reader.

    `fields_of` returns the columns of an older schema by its id. `store` has the files that are not on a local disk.
    """

    def __init__(
        self,
        schema: TableSchema,
        columns: Sequence[str],
        fields_of: Callable[[int], tuple[DataField, ...]],
        store: HadoopStore | None = None,
    ) -> None:
        self._store = store
        self._schema = schema
        self._fields_of = fields_of
        self._same_fields: dict[int, bool] = {schema.id: True}
        folded = [name.lower() for name in schema.names]
        self._readable = (
            schema.core.boolean(OPTION, True)
            # Spark resolves columns case-insensitively.
            and len(set(folded)) == len(folded)
            and all(name in schema.by_name and _is_readable(schema.by_name[name].type) for name in columns)
        )

    def of(self, split: Split) -> list[NativeFile]:
        """Return the files of a split for Spark's reader; none when Python has to read the split."""
        if not self._readable or not split.raw_convertible or not split.files or split.branch is not None:
            return []
        files = []
        for file in split.files:
            path = split.path_of(file)
            uri = self._uri(path)
            if uri is None or not path.endswith(".parquet") or file.lacks_columns:
                return []
            if not self._has_same_fields(file.schema_id):
                return []
            files.append(NativeFile(uri=uri, byteSize=file.file_size))
        return files

    @property
    def hadoop_settings(self) -> Mapping[str, str]:
        """Hadoop's configuration for Spark's reader; it may have secrets."""
        return {} if self._store is None else self._store.settings

    @property
    def lacks(self) -> str | None:
        """Reason for which Spark's reader can't use the table's object store, in few words; None when it can."""
        return None if self._store is None or not self._readable else self._store.lacks

    def _uri(self, path: str) -> str | None:
        if path.startswith("/"):
            return Path(path).as_uri()
        return None if self._store is None else self._store.uri(path)

    def _has_same_fields(self, schema_id: int) -> bool:
        same = self._same_fields.get(schema_id)
        if same is None:
            same = self._fields_of(schema_id) == self._schema.fields
            self._same_fields[schema_id] = same
        return same


def _is_readable(data_type: DataType) -> bool:
    match data_type:
        case AtomicType(root=TypeRoot.TIME):
            return False
        case AtomicType() if data_type.root in TIMESTAMPS:
            return (data_type.precision or 0) <= _TIMESTAMP_PRECISION_MAX
        case MultisetType():
            return False
        case _:
            return all(_is_readable(child) for child in data_type.children())
