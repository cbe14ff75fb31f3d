"""The entry of a published table in a Hive metastore, which names its newest metadata file.

Source: documentation page `iceberg/hive-catalog`, paimon-hive's IcebergHiveMetadataCommitter. An entry that is not an
Iceberg table is never changed: it may be the table's own entry.
"""

import contextlib
import getpass
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse
from xml.etree import ElementTree

from hive_metastore.ThriftHiveMetastore import Client
from hive_metastore.ttypes import (
    AlreadyExistsException,
    EnvironmentContext,
    GetTableRequest,
    NoSuchObjectException,
    SerDeInfo,
    StorageDescriptor,
)
from hive_metastore.ttypes import Database as HiveDatabase
from hive_metastore.ttypes import FieldSchema as HiveColumn
from hive_metastore.ttypes import Table as HiveTable
from pyiceberg.catalog.hive import SchemaToHiveConverter
from pyiceberg.schema import Schema, visit
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from interbed.iceberg.publish.place import PublishPlace, own_names
from interbed.iceberg.publish.settings import DATABASE, TABLE, URI, PublishSettings
from interbed.storage.base.errors import InvalidOptionError, StorageAccessError
from interbed.storage.meta.file_store import FileStore

METADATA_LOCATION = "metadata_location"
PREVIOUS_LOCATION = "previous_metadata_location"
TABLE_TYPE = "table_type"
ICEBERG = "ICEBERG"

_URIS = "hive.metastore.uris"
_DEFAULT_PORT = 9083
_SECONDS = 30
_NO_UPDATE = "DO_NOT_UPDATE_STATS"
_FILES = ("hive-site.xml", "metastore-site.xml", "core-site.xml")


class MetastoreRegistration:
    """Writes the entries of one table."""

    def __init__(self, store: FileStore, settings: PublishSettings, place: PublishPlace) -> None:
        self._store = store
        self._settings = settings
        self._place = place
        database, table = own_names(store.location)
        self._databases = settings.databases or (database,)
        self._table = settings.table or table

    def point_to(self, metadata: str, schema: Schema) -> None:
        """Make all entries name the metadata file.

        Raises InvalidOptionError if an entry is of another kind of table or no metastore is known, StorageAccessError
        if it does not answer or refuses.
        """
        host, port = metastore_address(self._settings, os.environ)
        socket = TSocket(host, port)
        socket.setTimeout(_SECONDS * 1000)
        transport = TBufferedTransport(socket)
        try:
            transport.open()
            thrift = Client(TBinaryProtocol(transport))
            for database in self._databases:
                self._point(thrift, database, metadata, schema)
        except TException as error:
            raise StorageAccessError(
                f"The metastore at {host}:{port} does not take the entry of {self._store.location}: {error}"
            ) from error
        finally:
            transport.close()

    def _point(self, thrift: Client, database: str, metadata: str, schema: Schema) -> None:
        try:
            found = self._found(thrift, database)
        except NoSuchObjectException:
            self._create_database(thrift, database)
            try:
                thrift.create_table(self._new_entry(database, metadata, schema))
                return
            except AlreadyExistsException:
                found = self._found(thrift, database)
        parameters = dict(found.parameters or {})
        if parameters.get(TABLE_TYPE, "").upper() != ICEBERG:
            raise InvalidOptionError(
                f"The metastore's entry '{database}.{self._table}' is no Iceberg table; name another one for the one "
                f"at {self._store.location} by '{DATABASE}' and '{TABLE}'."
            )
        before = parameters.get(METADATA_LOCATION)
        described: Any = found.sd
        columns = _columns(schema)
        if before == metadata and described.cols == columns:
            return
        if before is not None and before != metadata:
            parameters[PREVIOUS_LOCATION] = before
        parameters[METADATA_LOCATION] = metadata
        found.parameters = parameters
        described.cols = columns
        thrift.alter_table_with_environment_context(
            database, self._table, found, EnvironmentContext(properties=self._context())
        )

    def _found(self, thrift: Client, database: str) -> Any:
        """Return the entry in a database. Raises NoSuchObjectException."""
        try:
            return thrift.get_table(database, self._table)
        except TApplicationException as error:
            # Hive 4 has only the other method.
            if error.type != TApplicationException.UNKNOWN_METHOD:
                raise
        return thrift.get_table_req(GetTableRequest(dbName=database, tblName=self._table)).table

    def _context(self) -> dict[str, str]:
        return {
            "CASCADE": "true",
            "skipAWSGlueArchive": str(self._settings.skips_archive).lower(),
            _NO_UPDATE: str(self._settings.skips_statistics).lower(),
        }

    def _create_database(self, thrift: Client, name: str) -> None:
        try:
            thrift.get_database(name)
        except NoSuchObjectException:
            location = self._place.directory.rsplit("/", 2)[0]
            with contextlib.suppress(AlreadyExistsException):
                thrift.create_database(HiveDatabase(name=name, locationUri=location, parameters={}))

    def _new_entry(self, database: str, metadata: str, schema: Schema) -> HiveTable:
        now = int(time.time())
        return HiveTable(
            dbName=database,
            tableName=self._table,
            owner=getpass.getuser(),
            createTime=now,
            lastAccessTime=now,
            retention=2**31 - 1,
            sd=StorageDescriptor(
                cols=_columns(schema),
                location=self._place.directory.rpartition("/")[0],
                inputFormat="org.apache.hadoop.mapred.FileInputFormat",
                outputFormat="org.apache.hadoop.mapred.FileOutputFormat",
                serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"),
            ),
            partitionKeys=[],
            tableType="EXTERNAL_TABLE",
            parameters={
                "EXTERNAL": "TRUE",
                TABLE_TYPE: ICEBERG,
                METADATA_LOCATION: metadata,
                _NO_UPDATE: str(self._settings.skips_statistics).lower(),
            },
        )


def metastore_address(settings: PublishSettings, environment: Mapping[str, str]) -> tuple[str, int]:
    """Return host and port of the metastore: of the option, or of Hadoop's files in the directories; the first of
    several.

    Raises InvalidOptionError.
    """
    directories = [*settings.conf_directories, *filter(None, [environment.get("HIVE_CONF_DIR")])]
    found = settings.uri or next(filter(None, map(_uri_in, directories)), None)
    if found is None:
        raise InvalidOptionError(f"Publishing in a Hive metastore needs '{URI}', where it is: 'thrift://host:9083'.")
    first = found.split(",")[0].strip()
    parsed = urlparse(first if "//" in first else f"thrift://{first}")
    return parsed.hostname or "localhost", parsed.port or _DEFAULT_PORT


def _uri_in(directory: str) -> str | None:
    for name in _FILES:
        path = Path(directory.removeprefix("file:")) / name
        if not path.is_file():
            continue
        for item in ElementTree.parse(path).getroot().iter("property"):
            if item.findtext("name", "").strip() == _URIS:
                return item.findtext("value", "").strip() or None
    return None


def _columns(schema: Schema) -> list[HiveColumn]:
    converter = SchemaToHiveConverter(hive2_compatible=False)
    return [HiveColumn(name=f.name, type=visit(f.field_type, converter), comment=f.doc) for f in schema.fields]
