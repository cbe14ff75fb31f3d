"""Registration of a published table in a Hive metastore or in an Iceberg REST catalog.

The entry in a Hive metastore names the newest metadata file. Source: documentation page `iceberg/hive-catalog`,
paimon-hive's IcebergHiveMetadataCommitter. An entry that is not an Iceberg table is never changed: it may be the
table's own entry.

In a REST catalog the table is registered by its metadata file. Later publications are commits of the catalog: new
schemas, new and removed snapshots, tags. The catalog then has metadata files of its own, in the same directory. Where a
commit cannot express the change, as after a rollback, the table is registered again; that deletes no file. A process
that is killed between the end of the old registration and the new one leaves no table of that name, until the next
publication.

A publication that fails leaves the catalog at an older snapshot, and the next one continues from there. Manifests of
removed snapshots are deleted only after the catalog has removed the snapshots. Source: documentation page
`iceberg/rest-catalog`, Iceberg's REST specification, TableMetadata.Builder of iceberg-core. Paimon replaces any table
of that name; here a table that is not this one's publication is never changed.
"""

import contextlib
import getpass
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
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
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    NoSuchTableError,
    OAuthError,
    RESTError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationException,
)
from pyiceberg.schema import Schema, visit
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)
from requests.exceptions import RequestException
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.Thrift import TApplicationException, TException
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from interbed.iceberg.publish.document import MetadataDocument
from interbed.iceberg.publish.place import DATABASE, REST, TABLE, URI, PublishPlace, PublishSettings, own_names
from interbed.storage.base.errors import InterbedError, InvalidOptionError, StorageAccessError
from interbed.storage.io.resolve import normalize_path
from interbed.storage.meta.file_store import FileStore

SECRETS = {"token": "INTERBED_ICEBERG_REST_TOKEN", "credential": "INTERBED_ICEBERG_REST_CREDENTIAL"}
"""Environment variables of secrets, which a table's options would show to each of its readers."""

_OF_JAVA = frozenset({"clients", "catalog-impl", "io-impl", "type"})
"""Options for Java's client, without effect here."""

_COMMITS_MAX = 5

_METADATA_PATH = "write.metadata.path"


class RestPublication:
    """The table of one store in the REST catalog of its settings."""

    def __init__(self, store: FileStore, settings: PublishSettings) -> None:
        self._store = store
        self._settings = settings
        self._properties = rest_properties(settings, os.environ)
        database, table = own_names(store.location)
        self._names = [(name, settings.table or table) for name in settings.databases or (database,)]

    def publish(self, metadata: str, document: MetadataDocument) -> None:
        """Make the catalog's table equal to a document that is in the metadata file.

        A token that the catalog refuses is replaced once: by that of the environment, if it has another one by then, or
        by a new one for a credential. Raises InvalidOptionError if the name is that of another table, and
        StorageAccessError if the catalog does not answer or refuses.
        """
        with self._errors():
            try:
                self._publish_all(metadata, document)
            except UnauthorizedError:
                renewed = rest_properties(self._settings, os.environ)
                if renewed == self._properties and "credential" not in renewed:
                    raise
                self._properties = renewed
                self._publish_all(metadata, document)

    def _publish_all(self, metadata: str, document: MetadataDocument) -> None:
        with closing(RestCatalog("interbed", **self._properties)) as catalog:
            for name in self._names:
                catalog.create_namespace_if_not_exists(name[:-1])
                self._publish(catalog, name, metadata, document)

    def _publish(self, catalog: RestCatalog, name: tuple[str, str], metadata: str, document: MetadataDocument) -> None:
        seen = None
        for _ in range(_COMMITS_MAX):
            try:
                found = catalog.load_table(name)
            except NoSuchTableError:
                try:
                    catalog.register_table(name, metadata)
                    return
                except TableAlreadyExistsError:
                    continue
            self._check_own(name, found)
            updates = updates_for(found.metadata, document, directory=metadata.rpartition("/")[0])
            if updates == []:
                return
            if updates is not None:
                # A registered file does not name the branch main, and some catalogs add it when they load the file.
                # After a conflict without another commit there is none.
                lacks_main, seen = seen == found.metadata_location, found.metadata_location
                try:
                    catalog.commit_table(found, _requirements(found, lacks_main=lacks_main), tuple(updates))
                    return
                except CommitFailedException:
                    # Another process has published, and the next look shows it.
                    continue
                except (BadRequestError, ValidationException):
                    # This catalog has a rule that the updates do not follow.
                    pass
            self._register_again(catalog, name, metadata)
            return
        raise StorageAccessError(
            f"The table {'.'.join(name)} of the Iceberg catalog at {self._properties['uri']} changes faster than it is "
            "published."
        )

    def _register_again(self, catalog: RestCatalog, name: tuple[str, str], metadata: str) -> None:
        """Replace the registration. The files belong to the store, and the catalog is not asked to delete any."""
        try:
            catalog.register_table(name, metadata, overwrite=True)
        except TableAlreadyExistsError:
            # The catalog does not replace registrations.
            catalog.drop_table(name)
            catalog.register_table(name, metadata)

    def _check_own(self, name: tuple[str, str], found: Table) -> None:
        if normalize_path(found.metadata.location.rstrip("/")) != normalize_path(self._store.location):
            raise InvalidOptionError(
                f"The table {'.'.join(name)} of the Iceberg catalog at {self._properties['uri']} is another one, at "
                f"{found.metadata.location}; name the publication of {self._store.location} differently by "
                f"'{DATABASE}' and '{TABLE}'."
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except InterbedError:
            raise
        except (RESTError, RequestException, OAuthError, ValueError) as error:
            raise StorageAccessError(
                f"The Iceberg catalog at {self._properties['uri']} does not take the table at {self._store.location}: "
                f"{error}"
            ) from error


def rest_properties(settings: PublishSettings, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the properties for the REST client. Raises InvalidOptionError without an address."""
    given = {key: value for key, value in settings.rest.items() if key not in _OF_JAVA}
    secrets = {key: environment[name] for key, name in SECRETS.items() if key not in given and environment.get(name)}
    if not given.get("uri"):
        raise InvalidOptionError(
            f"Publishing in an Iceberg REST catalog needs '{REST}uri', where it is: 'http://host:8181/iceberg'."
        )
    return {**secrets, **given}


def updates_for(base: TableMetadata, document: MetadataDocument, *, directory: str) -> list[TableUpdate] | None:
    """Return the updates that make a catalog's table equal to a document; None if updates cannot. The catalog shall
    write its metadata files into `directory`.

    They cannot for another identity, format version or partition spec, and for snapshots that are not newer than all
    of the catalog's, because sequence numbers only grow.
    """
    has = {one.snapshot_id: one for one in base.snapshots}
    wanted = {one.snapshot_id: one for one in document.snapshots}
    if (
        str(base.table_uuid) != document.table_uuid
        or base.format_version != document.format_version
        or base.spec().fields != document.spec.fields
        or any(has[each].manifest_list != wanted[each].manifest_list for each in has.keys() & wanted.keys())
    ):
        return None
    added = sorted(wanted.keys() - has.keys())
    if added and added[0] <= max((one.sequence_number or 0 for one in base.snapshots), default=0):
        return None
    ids, updates = _schemas(base, document)
    updates += [
        AddSnapshotUpdate(snapshot=_with_schema(wanted[each], ids))  # Each with the id that its schema has there.
        for each in added
    ]
    current = ids[document.current_schema_id]
    if current != base.current_schema_id:
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": current}))
    updates += _references(base, document)
    if base.properties.get(_METADATA_PATH) != directory:
        updates.append(SetPropertiesUpdate(updates={_METADATA_PATH: directory}))
    removed = sorted(has.keys() - wanted.keys())
    if removed:
        updates.append(RemoveSnapshotsUpdate.model_validate({"snapshot-ids": removed}))
    return updates


def _schemas(base: TableMetadata, document: MetadataDocument) -> tuple[dict[int, int], list[TableUpdate]]:
    """Return the catalog's ids of the document's schemas, and the updates that add the missing ones.

    A catalog gives a new schema the highest id and one, and an equal schema the id that it has.
    """
    there: list[tuple[int, Schema]] = [(one.schema_id, one) for one in base.schemas]
    ids: dict[int, int] = {}
    updates: list[TableUpdate] = []
    for schema in document.schemas:
        same = [number for number, one in there if one.fields == schema.fields]
        if same:
            ids[schema.schema_id] = schema.schema_id if schema.schema_id in same else same[0]
            continue
        number = max((number for number, _ in there), default=-1) + 1
        made = Schema(*schema.fields, schema_id=number)
        there.append((number, made))
        ids[schema.schema_id] = number
        updates.append(AddSchemaUpdate(schema=made))
    return ids, updates


def _with_schema(snapshot: Any, ids: Mapping[int, int]) -> Any:
    return snapshot.model_copy(update={"schema_id": ids.get(snapshot.schema_id, snapshot.schema_id)})


def _references(base: TableMetadata, document: MetadataDocument) -> list[TableUpdate]:
    wanted = {name: ref.snapshot_id for name, ref in document.refs.items()}
    has = {name: ref.snapshot_id for name, ref in base.refs.items() if name != MAIN_BRANCH}
    updates: list[TableUpdate] = []
    if base.current_snapshot_id != document.current.snapshot_id:
        updates.append(_set_reference(MAIN_BRANCH, SnapshotRefType.BRANCH, document.current.snapshot_id))
    updates += [
        _set_reference(name, SnapshotRefType.TAG, number)
        for name, number in sorted(wanted.items())
        if has.get(name) != number
    ]
    return updates + [
        RemoveSnapshotRefUpdate.model_validate({"ref-name": name}) for name in sorted(has.keys() - wanted.keys())
    ]


def _set_reference(name: str, kind: SnapshotRefType, snapshot_id: int) -> TableUpdate:
    return SetSnapshotRefUpdate.model_validate({"ref-name": name, "type": kind, "snapshot-id": snapshot_id})


def _requirements(found: Table, *, lacks_main: bool) -> tuple[Any, ...]:
    main = None if lacks_main else found.metadata.current_snapshot_id
    return (
        AssertTableUUID(uuid=found.metadata.table_uuid),
        AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": main}),
    )


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
