"""Valid bodies of the operations of the REST interfaces: the seeds of mutated requests."""

from collections.abc import Mapping, Sequence

UUID = "6f1a3c64-0f0e-4f3a-9a51-6f8a3a0f7c11"

_GRANT = {
    "privilege": "SELECT",
    "on": {"kind": "table", "catalog": "hive", "database": "d", "name": "t"},
    "to": {"kind": "user", "name": "u"},
}
_ID = {"id": 1, "name": "id", "required": True, "type": "long"}
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "identifier-field-ids": [1],
    "fields": [
        _ID,
        {"id": 2, "name": "data", "required": False, "type": "string", "doc": "a text", "initial-default": "x"},
        {"id": 3, "name": "at", "required": False, "type": "timestamptz"},
        {
            "id": 4,
            "name": "tags",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 5,
                "key": "string",
                "value-id": 6,
                "value-required": False,
                "value": {"type": "list", "element-id": 7, "element-required": True, "element": "decimal(10,2)"},
            },
        },
    ],
}
_SPEC = {
    "spec-id": 0,
    "fields": [
        {"source-id": 1, "field-id": 1000, "name": "b", "transform": "bucket[4]"},
        {"source-id": 3, "field-id": 1001, "name": "day", "transform": "day"},
    ],
}
_ORDER = {
    "order-id": 1,
    "fields": [{"source-id": 2, "transform": "truncate[3]", "direction": "asc", "null-order": "nulls-first"}],
}
_SNAPSHOT = {
    "snapshot-id": 7,
    "sequence-number": 1,
    "timestamp-ms": 1_700_000_000_000,
    "manifest-list": "file:{root}/warehouse/d.db/t/metadata/snap-7.avro",
    "summary": {"operation": "append", "added-records": "1"},
    "schema-id": 0,
    "first-row-id": 0,
    "added-rows": 1,
}
_VERSION = {
    "version-id": 1,
    "timestamp-ms": 1_700_000_000_000,
    "schema-id": 0,
    "summary": {"engine": "spark"},
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
    "default-namespace": ["d"],
}
_STATISTICS = {
    "snapshot-id": 7,
    "statistics-path": "file:{root}/warehouse/d.db/t/metadata/7.puffin",
    "file-size-in-bytes": 100,
    "file-footer-size-in-bytes": 10,
    "blob-metadata": [
        {
            "type": "apache-datasketches-theta-v1",
            "snapshot-id": 7,
            "sequence-number": 1,
            "fields": [1],
            "properties": {},
        }
    ],
}
_UPDATES: Sequence[object] = (
    {"action": "assign-uuid", "uuid": UUID},
    {"action": "upgrade-format-version", "format-version": 3},
    {"action": "add-schema", "schema": {**_SCHEMA, "schema-id": 1}, "last-column-id": 7},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": _SPEC},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": _ORDER},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "add-snapshot", "snapshot": _SNAPSHOT},
    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7, "max-ref-age-ms": 1000},
    {"action": "set-snapshot-ref", "ref-name": "a", "type": "tag", "snapshot-id": 7},
    {"action": "remove-snapshots", "snapshot-ids": [7]},
    {"action": "remove-snapshot-ref", "ref-name": "a"},
    {"action": "set-location", "location": "file:{root}/warehouse/d.db/t"},
    {"action": "set-properties", "updates": {"a": "1", "write.metadata.previous-versions-max": "2"}},
    {"action": "remove-properties", "removals": ["a"]},
    {"action": "set-statistics", "snapshot-id": 7, "statistics": _STATISTICS},
    {"action": "remove-statistics", "snapshot-id": 7},
    {
        "action": "set-partition-statistics",
        "partition-statistics": {"snapshot-id": 7, "statistics-path": "file:{root}/x", "file-size-in-bytes": 1},
    },
    {"action": "remove-partition-statistics", "snapshot-id": 7},
    {"action": "remove-partition-specs", "spec-ids": [1]},
    {"action": "remove-schemas", "schema-ids": [1]},
    {"action": "add-encryption-key", "encryption-key": {"key-id": "k", "encrypted-key-metadata": "aGVsbG8="}},
    {"action": "remove-encryption-key", "key-id": "k"},
)
_REQUIREMENTS: Sequence[object] = (
    {"type": "assert-create"},
    {"type": "assert-table-uuid", "uuid": UUID},
    {"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": None},
    {"type": "assert-last-assigned-field-id", "last-assigned-field-id": 7},
    {"type": "assert-current-schema-id", "current-schema-id": 0},
    {"type": "assert-last-assigned-partition-id", "last-assigned-partition-id": 1001},
    {"type": "assert-default-spec-id", "default-spec-id": 0},
    {"type": "assert-default-sort-order-id", "default-sort-order-id": 0},
)
_TABLE_NAME = {"namespace": ["d"], "name": "t"}

ICEBERG: Mapping[str, Sequence[object]] = {
    "createNamespace": [{"namespace": ["d"], "properties": {"owner": "me"}}, {"namespace": ["e"]}],
    "updateProperties": [{"updates": {"a": "1"}, "removals": ["b"]}],
    "createTable": [
        {"name": name, "schema": _SCHEMA, "properties": {"format-version": version}, **further}
        for name in ("t", "p")
        for version in ("1", "2", "3")
        for further in ({}, {"partition-spec": _SPEC, "write-order": _ORDER}, {"stage-create": True})
    ],
    "registerTable": [
        {"name": "p", "metadata-location": "file:{root}/warehouse/d.db/t/metadata/00000-a.metadata.json"}
    ],
    "registerView": [{"name": "w", "metadata-location": "file:{root}/warehouse/d.db/v/metadata/00000-a.metadata.json"}],
    "updateTable": [
        *({"requirements": [], "updates": [update]} for update in _UPDATES),
        *({"requirements": [requirement], "updates": [_UPDATES[14]]} for requirement in _REQUIREMENTS),
        {"requirements": [_REQUIREMENTS[0]], "updates": [_UPDATES[0], *_UPDATES[2:8], _UPDATES[13]]},
        {"requirements": [], "updates": [_UPDATES[8], _UPDATES[9]]},
    ],
    "renameTable": [{"source": _TABLE_NAME, "destination": {"namespace": ["d"], "name": "p"}}],
    "commitTransaction": [
        {"table-changes": [{"identifier": _TABLE_NAME, "requirements": [], "updates": [_UPDATES[14]]}]},
        {
            "table-changes": [
                {"identifier": {"namespace": ["d"], "name": name}, "requirements": [], "updates": [_UPDATES[15]]}
                for name in ("t", "p")
            ]
        },
    ],
    "reportMetrics": [
        {
            "report-type": "scan-report",
            "table-name": "d.t",
            "snapshot-id": 7,
            "filter": True,
            "schema-id": 0,
            "projected-field-ids": [1],
            "projected-field-names": ["id"],
            "metrics": {"total-planning-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 5}},
        },
        {
            "report-type": "commit-report",
            "table-name": "d.t",
            "snapshot-id": 7,
            "sequence-number": 1,
            "operation": "append",
            "metrics": {"attempts": {"unit": "count", "value": 1}},
        },
    ],
    "createView": [{"name": "v", "schema": _SCHEMA, "view-version": _VERSION, "properties": {"a": "b"}}],
    "replaceView": [
        {"requirements": [{"type": "assert-view-uuid", "uuid": UUID}], "updates": [_UPDATES[14]]},
        {
            "updates": [
                _UPDATES[2],
                {"action": "add-view-version", "view-version": {**_VERSION, "version-id": 2}},
                {"action": "set-current-view-version", "view-version-id": -1},
            ]
        },
    ],
    "renameView": [{"source": {"namespace": ["d"], "name": "v"}, "destination": {"namespace": ["d"], "name": "x"}}],
    "planTableScan": [{"snapshot-id": 7, "select": ["id"], "filter": {"type": "eq", "term": "id", "value": 1}}],
    "fetchScanTasks": [{"plan-task": "x"}],
}
"""Bodies of Iceberg's operations."""

_FIELDS = [
    {"id": 0, "name": "id", "type": "BIGINT NOT NULL"},
    {"id": 1, "name": "day", "type": "STRING NOT NULL", "description": "a day"},
    {"id": 2, "name": "data", "type": "STRING", "defaultValue": "x"},
    {"id": 3, "name": "tags", "type": {"type": "MAP", "key": "STRING", "value": {"type": "ARRAY", "element": "INT"}}},
    {
        "id": 4,
        "name": "place",
        "type": {"type": "ROW", "fields": [{"id": 5, "name": "x", "type": "DOUBLE"}]},
    },
]
_PAIMON_NAME = {"database": "d", "object": "t"}
_PAIMON_SNAPSHOT = {
    "version": 3,
    "id": 1,
    "schemaId": 0,
    "baseManifestList": "manifest-list-a-0",
    "deltaManifestList": "manifest-list-a-1",
    "changelogManifestList": None,
    "commitUser": "me",
    "commitIdentifier": 1,
    "commitKind": "APPEND",
    "timeMillis": 1_700_000_000_000,
    "totalRecordCount": 1,
    "deltaRecordCount": 1,
}
_CHANGES: Sequence[Mapping[str, object]] = (
    {"action": "setOption", "key": "snapshot.num-retained.min", "value": "2"},
    {"action": "removeOption", "key": "snapshot.num-retained.min"},
    {"action": "updateComment", "comment": "a table"},
    {
        "action": "addColumn",
        "fieldNames": ["more"],
        "dataType": "INT",
        "comment": None,
        "move": {"fieldName": "more", "referenceFieldName": "id", "type": "AFTER"},
    },
    {"action": "renameColumn", "fieldNames": ["data"], "newName": "text"},
    {"action": "dropColumn", "fieldNames": ["text"]},
    {"action": "updateColumnType", "fieldNames": ["more"], "newDataType": "BIGINT", "keepNullability": False},
    {"action": "updateColumnNullability", "fieldNames": ["data"], "newNullability": True},
    {"action": "updateColumnComment", "fieldNames": ["data"], "newComment": "a text"},
    {"action": "updateColumnDefaultValue", "fieldNames": ["data"], "newDefaultValue": "y"},
    {"action": "updateColumnPosition", "move": {"fieldName": "data", "type": "FIRST"}},
)
_PARTITIONS = [{"day": "2024-01-01"}]

OWN: Mapping[str, Sequence[object]] = {
    "undropTable": [{}, {"id": 1, "as": "x"}],
    "setPolicy": [
        {"on": _GRANT["on"], "name": "p", "expression": "id > 5", "to": [_GRANT["to"]], "except": [_GRANT["to"]]},
        {"on": _GRANT["on"], "name": "m", "expression": "NULL", "to": [_GRANT["to"]], "column": "id"},
    ],
    "dropPolicy": [{"on": _GRANT["on"], "name": "p"}],
    "createRole": [{"name": "r"}],
    "addMember": [{"member": {"kind": "role", "name": "r"}, "admin-option": True}],
    "removeMember": [{"member": {"kind": "user", "name": "u"}, "admin-option-only": True}],
    "grant": [{"grants": [{**_GRANT, "grant-option": True}]}],
    "revoke": [{"grants": [_GRANT], "grant-option-only": True, "cascade": True}],
    "undropDatabase": [{}, {"id": 1}],
    "purgeTable": [{}, {"id": 1}],
    "purgeDatabase": [{}, {"id": 1}],
    "restoreTable": [{"at": 4_000_000_000, "dry-run": True}, {"at": "2100-01-01T00:00:00Z"}],
    "readRows": [
        {"columns": ["id"], "filter": "id > 1", "limit": 1},
        {"filter": {"op": "eq", "column": "id", "value": 1}, "snapshot-id": 1},
        {"tag": "a", "branch": "b"},
        {"timestamp-millis": 1},
    ],
}

PAIMON: Mapping[str, Sequence[object]] = {
    "createDatabase": [{"name": "d", "options": {"a": "1"}}, {"name": "e"}],
    "alterDatabase": [{"removals": ["a"], "updates": {"b": "2"}}],
    "RegisterTable": [{"identifier": {"database": "d", "object": "p"}, "path": "file:{root}/warehouse/d.db/t"}],
    "createTable": [
        {
            "identifier": {"database": "d", "object": name},
            "schema": {
                "fields": _FIELDS,
                "partitionKeys": partitions,
                "primaryKeys": keys,
                "options": options,
                "comment": "a table",
            },
        }
        for name in ("t", "p")
        for partitions, keys, options in (
            ([], [], {}),
            (["day"], ["id", "day"], {"bucket": "2", "merge-engine": "deduplicate"}),
            (["day"], [], {"metastore.partitioned-table": "true"}),
        )
    ],
    "replaceTable": [{"schema": {"fields": _FIELDS, "partitionKeys": [], "primaryKeys": ["id"], "options": {}}}],
    "alterTable": [{"changes": [change]} for change in _CHANGES],
    "renameTable": [{"source": _PAIMON_NAME, "destination": {"database": "d", "object": "p"}}],
    "commitTable": [{"tableId": UUID, "snapshot": _PAIMON_SNAPSHOT, "statistics": []}],
    "rollbackTable": [
        {"instant": {"type": "snapshot", "snapshotId": 1}},
        {"instant": {"type": "tag", "tagName": "a"}, "fromSnapshot": 1},
    ],
    "rollbackSchema": [{"schemaId": 0}],
    "authTableQuery": [{"select": ["id"]}],
    "createPartitions": [{"partitionSpecs": _PARTITIONS, "ignoreIfExists": True}],
    "dropPartitions": [{"partitionSpecs": _PARTITIONS, "ignoreIfNotExists": False}],
    "markDonePartitions": [{"specs": _PARTITIONS}],
    "listPartitionsByNames": [{"specs": _PARTITIONS}],
    "listPartitionsByFilter": [{"filter": '{"kind":"LEAF"}', "maxResults": 2, "pageToken": ""}],
    "createBranch": [{"branch": "b"}, {"branch": "c", "fromTag": "a"}],
    "renameBranch": [{"toBranch": "c"}],
    "createTag": [{"tagName": "a", "snapshotId": 1, "timeRetained": "1 d", "ignoreIfExists": True}],
    "resetConsumer": [{"consumerId": "c", "nextSnapshotId": 1}, {"consumerId": "c"}],
    "createView": [
        {
            "identifier": {"database": "d", "object": "v"},
            "schema": {
                "fields": _FIELDS,
                "query": "SELECT * FROM t",
                "dialects": {"flink": "SELECT 1"},
                "comment": "a view",
                "options": {"a": "1"},
            },
        }
    ],
    "alterView": [
        {"changes": [{"action": "addDialect", "dialect": "spark", "query": "SELECT 2"}]},
        {"changes": [{"action": "setOption", "key": "a", "value": "2"}]},
    ],
    "renameView": [{"source": {"database": "d", "object": "v"}, "destination": {"database": "d", "object": "x"}}],
    "createFunction": [
        {
            "name": "f",
            "inputParams": [_FIELDS[0]],
            "returnParams": [_FIELDS[2]],
            "deterministic": True,
            "definitions": {"spark": {"type": "sql", "definition": "id + 1"}},
            "comment": "a function",
            "options": {"a": "1"},
        }
    ],
    "alterFunction": [{"changes": [{"action": "updateComment", "comment": "x"}]}],
}
"""Bodies of Paimon's operations."""
