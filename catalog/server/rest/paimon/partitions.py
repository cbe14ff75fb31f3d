"""Partitions that the metastore keeps for tables with `metastore.partitioned-table`.

For other tables the answer is 501, and clients look for partitions in the files. The sizes are those of the files of
the newest snapshot. A commit that has deleted all files of a partition removes its entry (snapshots.py). A warehouse
without a metastore lists the partitions of the newest snapshot, and changes none.
"""

from collections.abc import Mapping

from interbed.catalog.client.partition import Partition, partition_name
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    json_response,
)
from interbed.catalog.server.rest.paimon.access import CatalogAccess, table_name
from interbed.catalog.server.rest.paimon.messages import (
    CreatePartitionsRequest,
    DropPartitionsRequest,
    PartitionFilterRequest,
    PartitionResponse,
    PartitionSpecsRequest,
    cut,
    matches,
)
from interbed.catalog.server.rest.paimon.refusals import missing, paimon_route
from interbed.catalog.server.rest.paimon.tables import TABLE, opened
from interbed.catalog.server.service.access.objects import Privilege
from interbed.storage.meta.paths import TablePaths

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
