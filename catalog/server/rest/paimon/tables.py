"""Tables: list, create, register, get, alter, rename, drop; their partitions; and tokens for their files. A branch is a
table `t$branch_b`.

Partitions are those that the metastore keeps for tables with `metastore.partitioned-table`. For other tables the answer
is 501, and clients look for partitions in the files. The sizes are those of the files of the newest snapshot. A commit
that has deleted all files of a partition removes its entry (snapshots.py). A warehouse without a metastore lists the
partitions of the newest snapshot, and changes none.

A token is storage credentials as options of Paimon's file systems. Source: Paimon's REST specification, getTableToken;
the names of the options from pypaimon, and from Paimon's S3FileIO, which hands on those of Hadoop's client.
"""

from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus

from interbed.catalog.client.errors import TableExistsError, TableNotFoundError
from interbed.catalog.client.hive.registration import same_location
from interbed.catalog.client.identifier import SYSTEM_DATABASE, Identifier, TableName
from interbed.catalog.client.partition import Partition, partition_name
from interbed.catalog.server.credentials.issued import (
    AzureCredentials,
    CredentialsError,
    CredentialsUnavailableError,
    GoogleCredentials,
    S3Credentials,
    StorageCredentials,
    TableCredentials,
)
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestError,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, named_in_path, table_name
from interbed.catalog.server.rest.paimon.catalogs import ServedCatalog
from interbed.catalog.server.rest.paimon.databases import DATABASE
from interbed.catalog.server.rest.paimon.messages import (
    AlterTableRequest,
    AuthorizedRequest,
    CreatePartitionsRequest,
    DropPartitionsRequest,
    NewTableRequest,
    PartitionFilterRequest,
    PartitionResponse,
    PartitionSpecsRequest,
    RegisteredTableRequest,
    RenamedTableRequest,
    ReplaceTableRequest,
    RollbackSchemaRequest,
    TableResponse,
    cut,
    global_page,
    matches,
    names_of_page,
    page,
    prefix_of,
)
from interbed.catalog.server.rest.paimon.refusals import ResourceType, existing, invalid, missing, paimon_route
from interbed.catalog.server.rest.paimon.schema_json import given_changes, given_schema, refused_change, shown_schema
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.access.policies import ReaderRules
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.names import joined, normalized
from interbed.catalog.server.service.partitions.changes import check_storable
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.meta.options.format import is_object_table
from interbed.storage.meta.paths import TablePaths
from interbed.storage.meta.schema.table_schema import Schema
from interbed.storage.table.opening import schema_manager
from interbed.storage.table.table import Table

TABLE = f"{DATABASE}/tables/{{table}}"
_PATH = "path"
QUERY_AUTH = "query-auth.enabled"
"""Paimon's option of tables whose readers ask the catalog for row filters and column masks, and apply them."""


class TableRoutes:
    """The routes of tables."""

    def __init__(self, access: CatalogAccess) -> None:
        self._access = access

    def routes(self) -> list[RestRoute]:
        """Return the routes of tables."""
        usage, create, alter = Privilege.USAGE, Privilege.CREATE, Privilege.ALTER
        catalog, database, table = ObjectKind.CATALOG, ObjectKind.DATABASE, ObjectKind.TABLE
        tables, every = f"{DATABASE}/tables", "v1/{prefix}/tables"
        return [
            paimon_route("GET", tables, "listTables", usage, database, self._list),
            paimon_route("POST", tables, "createTable", create, database, self._create),
            paimon_route("POST", f"{DATABASE}/register", "RegisterTable", create, database, self._register),
            paimon_route("GET", f"{DATABASE}/table-details", "listTableDetails", usage, database, self._list_details),
            paimon_route("GET", every, "ListTablesGlobally", usage, catalog, self._list_globally),
            paimon_route("GET", f"{every}/id/{{tableId}}", "getTableById", usage, catalog, self._get_by_id),
            paimon_route("POST", f"{every}/rename", "renameTable", alter, catalog, self._rename),
            paimon_route("GET", TABLE, "getTable", Privilege.SELECT, table, self._get),
            paimon_route("POST", TABLE, "alterTable", alter, table, self._alter),
            paimon_route("DELETE", TABLE, "dropTable", Privilege.DROP, table, self._drop),
            paimon_route("POST", f"{TABLE}/replace", "replaceTable", alter, table, self._replace),
            paimon_route("POST", f"{TABLE}/rollback-schema", "rollbackSchema", alter, table, self._roll_back_schema),
            paimon_route("POST", f"{TABLE}/auth", "authTableQuery", Privilege.SELECT, table, self._authorize),
        ]

    def _list(self, request: RestRequest) -> RestResponse:
        found, token = page(request, self._names(self._access.catalog(request), request), str)
        return json_response({"tables": found, "nextPageToken": token})

    def _list_details(self, request: RestRequest) -> RestResponse:
        catalog = self._access.catalog(request)
        found, token = page(request, self._names(catalog, request), str)
        details = []
        for name in found:
            try:
                details.append(self._shown(request, catalog, TableName.parse((request.parts["database"], name))))
            except TableNotFoundError:
                # It was dropped since it was listed, or its files are missing.
                continue
        return json_response({"tableDetails": details, "nextPageToken": token})

    def _list_globally(self, request: RestRequest) -> RestResponse:
        catalog = self._access.catalog(request)
        found, token = global_page(request, catalog, "tableNamePattern", catalog.names_after)
        return json_response({"tables": found, "nextPageToken": token})

    def _names(self, catalog: ServedCatalog, request: RestRequest) -> list[str]:
        """Return the names that a request asks for; without a type those of its page alone."""
        database = request.parts["database"]
        wanted, pattern = request.query.get("tableType"), request.query.get("tableNamePattern")
        if not wanted and database != SYSTEM_DATABASE:
            return names_of_page(request, database, "tableNamePattern", catalog.names_after)
        is_meant, is_system = matches(pattern), database == SYSTEM_DATABASE
        every = (
            catalog.list_tables(database) if is_system else catalog.names_after(database, "", None, prefix_of(pattern))
        )
        names = [name for name in every if is_meant(name)]
        if not wanted:
            return names
        types = catalog.table_types(database, names)
        return [name for name in names if types.get(name) == wanted]

    def _create(self, request: RestRequest) -> RestResponse:
        given = request.json(NewTableRequest)
        name = named_in_path(given.identifier, request)
        with self._access.changing(request) as catalog:
            _check_free(catalog, name)
            schema = given_schema(given.schema)
            if is_object_table(schema.options):
                # The columns of all object tables are the same: Paimon's servers ignore those of a request.
                schema = replace(schema, fields=())
            self._access.check_new(request, name, schema.options.get(_PATH))
            catalog.create_table(name, schema)
        return RestResponse()

    def _register(self, request: RestRequest) -> RestResponse:
        given = request.json(RegisteredTableRequest)
        name = named_in_path(given.identifier, request)
        with self._access.changing(request) as catalog:
            _check_free(catalog, name)
            if "\0" in given.path:
                raise invalid("The path of a table has no NUL character.")
            self._access.check_registrable(request, name.database, given.path)
            file_io, place = catalog.place_of(name, given.path)
            schema = schema_manager(place, file_io).latest()
            if schema is None:
                raise invalid(f"There is no table at {given.path}: it has no schema.")
            registered = Schema(
                fields=schema.fields,
                partition_keys=schema.partition_keys,
                primary_keys=schema.primary_keys,
                options={**schema.options, "path": given.path},
                comment=schema.comment,
            )
            catalog.create_table(name, registered)
        return RestResponse()

    def _get(self, request: RestRequest) -> RestResponse:
        return json_response(self._shown(request, self._access.catalog(request), table_name(request)))

    def _get_by_id(self, request: RestRequest) -> RestResponse:
        catalog, wanted = self._access.catalog(request), request.parts["tableId"].lower()
        name = catalog.table_of_id(wanted)
        if name is None:
            raise missing(ResourceType.TABLE, wanted, f"There is no table of the id {wanted}.")
        return json_response(self._shown(request, catalog, name))

    def _shown(self, request: RestRequest, catalog: ServedCatalog, name: TableName) -> TableResponse:
        """Return the JSON of a table. One with policies that bind the caller asks readers to apply them, and so does
        one of which the caller may read some columns only.
        """
        policies = self._access.policies_of(request, name)
        is_bound = policies is not None and policies[0].is_limited(policies[1])
        return shown_table(catalog, name, {QUERY_AUTH: "true"} if is_bound else {})

    def _alter(self, request: RestRequest) -> RestResponse:
        changes = given_changes(request.json(AlterTableRequest).changes)
        name = table_name(request)
        with self._access.changing(request) as catalog:
            table = opened(catalog, name)
            try:
                catalog.alter_table(name.of_table, changes)
            except (InvalidInputError, NotSupportedError) as error:
                raise refused_change(table.schema, changes, error) or error from error
        return RestResponse()

    def _replace(self, request: RestRequest) -> RestResponse:
        given, name = request.json(ReplaceTableRequest), table_name(request)
        with self._access.changing(request) as catalog:
            table = opened(catalog, name)
            if name.branch is not None:
                raise invalid(f"The branch {name.branch!r} of a table is not replaced; replace the table.")
            schema = given_schema(given.schema)
            path = schema.options.get(_PATH)
            if path is not None and not same_location(path, table.location):
                raise invalid(
                    f"A table that is replaced keeps its location {table.location}, and can't move to {path}."
                )
            options = {key: value for key, value in schema.options.items() if key != _PATH}
            catalog.replace_table(name.identifier, replace(schema, options=options))
        return RestResponse()

    def _roll_back_schema(self, request: RestRequest) -> RestResponse:
        schema_id = request.json(RollbackSchemaRequest).schema_id
        with self._access.changing(request) as catalog:
            opened(catalog, table_name(request)).versions.rollback_schema(schema_id)
        return RestResponse()

    def _authorize(self, request: RestRequest) -> RestResponse:
        name = table_name(request)
        given = request.json(AuthorizedRequest) if request.body else AuthorizedRequest()
        table = opened(self._access.catalog(request), name)
        policies = self._access.policies_of(request, name)
        if policies is not None:
            # Without a list the reader asks for all columns.
            policies[0].check_columns(policies[1], table.schema.names if given.select is None else given.select)
        # Without a metastore there are no policies: all rows and columns may be read.
        rules = ReaderRules() if policies is None else policies[0].reader_rules(policies[1], table.schema.fields)
        return json_response({"filter": list(rules.filters), "columnMasking": dict(rules.masks)})

    def _rename(self, request: RestRequest) -> RestResponse:
        given = request.json(RenamedTableRequest)
        source, target = given.source, given.destination
        old, new = (Identifier.parse((name.database, name.object)) for name in (source, target))
        with self._access.changing(request) as catalog:
            try:
                catalog.rename_table(old, new)
            except TableNotFoundError as error:
                raise missing(ResourceType.TABLE, old.table, str(error)) from error
            except TableExistsError as error:
                raise existing(ResourceType.TABLE, new.table, str(error)) from error
        return RestResponse()

    def _drop(self, request: RestRequest) -> RestResponse:
        name = table_name(request)
        with self._access.changing(request) as catalog:
            if name.branch is not None:
                raise invalid(f"Drop the branch {name.branch!r} by the branches of the table.")
            catalog.drop_table(name.identifier)
        return RestResponse()


def opened(catalog: ServedCatalog, name: TableName) -> Table:
    """Return a table or a branch of it. TableNotFoundError, also for system tables, which clients make themselves."""
    if name.system is not None:
        raise TableNotFoundError(f"The system table '{name.of_table}${name.system}' is not a table of the catalog.")
    return catalog.get_table(name.of_table)


def shown_table(catalog: ServedCatalog, name: TableName, options: Mapping[str, str]) -> TableResponse:
    """Return the JSON of a table or a branch of it, with options on top of its own."""
    table = opened(catalog, name)
    origin = catalog.table_origin(name.identifier, table)
    return TableResponse(
        id=origin.id,
        database=name.identifier.database,
        name=name.of_table.partition(".")[2],
        path=origin.path,
        is_external=origin.is_external,
        schema_id=table.schema.id,
        schema=shown_schema(replace(table.schema, options={**table.schema.options, **options})),
        owner=origin.owner,
        created_at=origin.created_millis,
        created_by=origin.owner,
        updated_at=max(table.schema.time_millis, origin.created_millis),
        updated_by=origin.owner,
    )


def _check_free(catalog: ServedCatalog, name: Identifier) -> None:
    """Raise RestError with status 409 for a name that is taken: the client is to get it before other faults."""
    catalog.get_database(name.database)
    if catalog.is_taken(name):
        raise existing(ResourceType.TABLE, name.table, f"Table {name} already exists.")


PARTITIONS = f"{TABLE}/partitions"
_Spec = Mapping[str, str]


class PartitionRoutes:
    """The routes of partitions."""

    def __init__(self, access: CatalogAccess) -> None:
        self._access = access

    def routes(self) -> list[RestRoute]:
        """Return the routes of partitions."""
        select, insert, table = Privilege.SELECT, Privilege.INSERT, ObjectKind.TABLE
        by_names, by_filter = f"{PARTITIONS}/list-by-names", f"{PARTITIONS}/list-by-filter"
        return [
            paimon_route("GET", PARTITIONS, "listPartitions", select, table, self._list),
            paimon_route("POST", PARTITIONS, "createPartitions", insert, table, self._create),
            paimon_route("POST", f"{PARTITIONS}/drop", "dropPartitions", insert, table, self._drop),
            paimon_route("POST", f"{PARTITIONS}/mark", "markDonePartitions", insert, table, self._mark),
            paimon_route("POST", by_names, "listPartitionsByNames", select, table, self._list_by_names),
            paimon_route("POST", by_filter, "listPartitionsByFilter", select, table, self._list_by_filter),
        ]

    def _list(self, request: RestRequest) -> RestResponse:
        query = request.query
        return self._page(request, query.get("partitionNamePattern"), query.get("pageToken"), query.get("maxResults"))

    def _list_by_filter(self, request: RestRequest) -> RestResponse:
        # Paimon's document allows more partitions than the filter selects: clients apply it again.
        given = request.json(PartitionFilterRequest)
        return self._page(request, given.partition_name_pattern, given.page_token, given.max_results)

    def _page(
        self, request: RestRequest, pattern: str | None, token: str | None, length: str | int | None
    ) -> RestResponse:
        is_meant = matches(pattern)
        found = [each for each in self._partitions(request) if is_meant(partition_name(each.spec))]
        shown, following = cut(found, lambda each: partition_name(each.spec), token, length, descending=True)
        return json_response({"partitions": [_shown(each) for each in shown], "nextPageToken": following})

    def _list_by_names(self, request: RestRequest) -> RestResponse:
        wanted = request.json(PartitionSpecsRequest).specs
        found = [each for each in self._partitions(request) if dict(each.spec) in wanted]
        return json_response({"partitions": [_shown(each) for each in found], "nextPageToken": None})

    def _partitions(self, request: RestRequest) -> list[Partition]:
        catalog, name = self._access.catalog(request), table_name(request)
        return catalog.known_partitions(name, opened(catalog, name))

    def _create(self, request: RestRequest) -> RestResponse:
        given, name = request.json(CreatePartitionsRequest), table_name(request)
        for spec in given.partition_specs:
            try:
                check_storable(joined(spec.items()))
            except MetastoreError as error:
                raise invalid(str(error)) from error
        with self._access.changing(request) as catalog:
            table = opened(catalog, name)
            before = catalog.partitions_in_metastore(name.identifier)
            ignores = given.ignore_if_exists is not False
            catalog.create_partitions(name.of_table, given.partition_specs, ignores)
        paths = table.store.paths
        existed = [spec for spec in given.partition_specs if _directories(paths, spec) in before]
        created = [spec for spec in given.partition_specs if spec not in existed]
        return json_response({"created": created, "existed": existed})

    def _drop(self, request: RestRequest) -> RestResponse:
        given, name = request.json(DropPartitionsRequest), table_name(request)
        with self._access.changing(request) as catalog:
            paths = opened(catalog, name).store.paths
            before = catalog.partitions_in_metastore(name.identifier)
            lacking = [spec for spec in given.partition_specs if _directories(paths, spec) not in before]
            if lacking and given.ignore_if_not_exists is False:
                raise missing(None, partition_name(lacking[0]), f"There is no partition {partition_name(lacking[0])}.")
            dropped = [spec for spec in given.partition_specs if spec not in lacking]
            if dropped:
                catalog.unregister_partitions(name.of_table, dropped)
        return json_response({"dropped": dropped, "missing": lacking})

    def _mark(self, request: RestRequest) -> RestResponse:
        specs, name = request.json(PartitionSpecsRequest).specs, table_name(request)
        with self._access.changing(request) as catalog:
            opened(catalog, name)
            catalog.partitions_in_metastore(name.identifier)
            catalog.mark_partitions_done(name.of_table, specs)
        return RestResponse()


def _directories(paths: TablePaths, spec: _Spec) -> dict[str, str]:
    return paths.directory_spec(paths.parse_partition_spec(spec))


def _shown(partition: Partition) -> PartitionResponse:
    return PartitionResponse(
        spec=dict(partition.spec),
        record_count=partition.record_count,
        file_size_in_bytes=partition.file_size_in_bytes,
        file_count=partition.file_count,
        last_file_creation_time=partition.last_file_creation_time,
        total_buckets=partition.total_buckets,
        done=partition.done,
    )


class TokenRoutes:
    """The route of tokens."""

    def __init__(self, access: CatalogAccess, credentials: TableCredentials) -> None:
        self._access = access
        self._credentials = credentials

    def routes(self) -> list[RestRoute]:
        """Return the route of tokens."""
        path = f"{TABLE}/token"
        return [paimon_route("GET", path, "getTableToken", Privilege.SELECT, ObjectKind.TABLE, self._token)]

    def _token(self, request: RestRequest) -> RestResponse:
        name = table_name(request)
        catalog = self._access.metastore_catalog(request)
        if catalog is None:
            raise invalid("The server issues tokens for tables of its metastore, not for those of paimon_warehouses.")
        # It raises the error for a table that does not exist.
        self._access.catalog(request).get_table(name.of_table)
        table = name.identifier
        principal = request.session.principal
        if principal is None:
            raise invalid("The client is not authenticated.")
        try:
            issued = self._credentials.of_table(
                catalog, normalized(table.database), normalized(table.table), principal.name
            )
        except CredentialsUnavailableError as error:
            raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, "", str(error)) from error
        except CredentialsError as error:
            advice = "Set 'data-token.enabled' to false, and give the client keys of the store."
            raise invalid(f"{error}. {advice}") from error
        answer = {"token": token_options(issued), "expiresAtMillis": issued.expires_millis}
        return json_response(answer, headers={"cache-control": "no-store"})


def token_options(issued: StorageCredentials) -> Mapping[str, str]:
    """Return the options of credentials: those of S3 and Azure by the names of Hadoop's client, and of pypaimon, those
    of Google's store by our own, because Hadoop's connector gets its tokens from classes of Java.
    """
    if isinstance(issued, GoogleCredentials):
        return {
            "fs.gs.auth.access.token": issued.token,
            "fs.gs.auth.access.token.expires-at": str(issued.expires_millis),
            **({} if issued.endpoint is None else {"fs.gs.storage.root.url": issued.endpoint}),
        }
    if isinstance(issued, AzureCredentials):
        return {
            "fs.azure.sas.fixed.token": issued.signature,
            f"fs.azure.account.auth.type.{issued.host}": "SAS",
            f"fs.azure.sas.fixed.token.{issued.host}": issued.signature,
            **({} if issued.endpoint is None else {"fs.azure.endpoint": issued.endpoint}),
        }
    assert isinstance(issued, S3Credentials)
    options = {
        "fs.s3a.access.key": issued.access_key,
        "fs.s3a.secret.key": issued.secret_key,
        "fs.s3a.session.token": issued.session_token,
        "fs.s3.accessKeyId": issued.access_key,
        "fs.s3.accessKeySecret": issued.secret_key,
        "fs.s3.securityToken": issued.session_token,
    }
    if issued.region is not None:
        options |= {"fs.s3a.endpoint.region": issued.region, "fs.s3.region": issued.region}
    if issued.endpoint is not None:
        # Stores that are no service of AWS have no names of hosts for buckets.
        options |= {
            "fs.s3a.endpoint": issued.endpoint,
            "fs.s3.endpoint": issued.endpoint,
            "fs.s3a.path.style.access": "true",
        }
    return options
