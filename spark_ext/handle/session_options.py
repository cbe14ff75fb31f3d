"""Options by SET: a session's settings as dynamic options of the tables that it reads and writes.

    SET spark.interbed.<key> = …                                 for all tables
    SET spark.interbed.<catalog>.<database>.<table>.<key> = …    for one; each of the three names may be `*`

Paimon's prefix `spark.paimon.` has the same meaning (documentation: spark/auxiliary). A setting of a table wins over
one of all tables, fewer `*` over more, and our prefix over Paimon's. Options of a DataFrame win over all of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.meta.options.stream import (
    INCREMENTAL_BETWEEN,
    INCREMENTAL_BETWEEN_TIMESTAMP,
    INCREMENTAL_TO_AUTO_TAG,
    SCAN_MODE,
    SCAN_SNAPSHOT_ID,
    SCAN_TAG_NAME,
    SCAN_TIMESTAMP,
    SCAN_TIMESTAMP_MILLIS,
    SCAN_VERSION,
    SCAN_WATERMARK,
    StreamOptions,
)
from interbed.storage.meta.paths import MAIN_BRANCH
from interbed.storage.scan.starting_point import PINNED
from interbed.storage.table.table import Table

BRANCH = "branch"
PREFIXES = ("spark.interbed.", "spark.paimon.")

TRAVEL_KEYS = frozenset(
    {
        SCAN_MODE,
        SCAN_SNAPSHOT_ID,
        SCAN_TAG_NAME,
        SCAN_TIMESTAMP,
        SCAN_TIMESTAMP_MILLIS,
        SCAN_VERSION,
        SCAN_WATERMARK,
        INCREMENTAL_BETWEEN,
        INCREMENTAL_BETWEEN_TIMESTAMP,
        INCREMENTAL_TO_AUTO_TAG,
        "log.scan",
        "log.scan.timestamp-millis",
    }
)
"""Options that choose the snapshot of a read; those of a DataFrame replace all those of the session."""

_OF_SPARK = frozenset({"path", "paths", "checkpointLocation", "queryName"})

_OF_OTHERS: Mapping[str, str] = {
    "overwrite-mode": "use writeTo(…).overwritePartitions(), or set spark.sql.sources.partitionOverwriteMode",
    "replacewhere": "use writeTo(…).overwrite(condition), or DELETE the rows",
    "replaceon": "use MERGE INTO",
    "replaceusing": "use MERGE INTO",
    "mergeschema": "use 'write.merge-schema'",
    "merge-schema": "use 'write.merge-schema'",
    "txnappid": "use a table with a primary key, or a stream with a checkpoint, whose writes may be repeated",
    "txnversion": "use a table with a primary key, or a stream with a checkpoint, whose writes may be repeated",
    "snapshot-id": "use 'scan.snapshot-id'",
    "as-of-timestamp": "use 'scan.timestamp-millis'",
    "tag": "use 'scan.tag-name'",
    "start-snapshot-id": "use 'incremental-between'",
    "end-snapshot-id": "use 'incremental-between'",
    "startingversion": "use 'scan.snapshot-id' for a stream, 'incremental-between' for a query",
    "endingversion": "use 'incremental-between'",
    "startingtimestamp": "use 'scan.timestamp' for a stream, 'incremental-between-timestamp' for a query",
    "endingtimestamp": "use 'incremental-between-timestamp'",
    "stream-from-timestamp": "use 'scan.timestamp-millis'",
    "readchangefeed": "read `table$audit_log`",
    "readchangedata": "read `table$audit_log`",
    "as.of.instant": "use 'scan.timestamp'",
}
"""Options of other table formats that choose rows, in lower case, and what does the same here.

Without effect they would let a query read, or a write replace, other rows than its author means.
"""

_BY_NAME: Mapping[str, str] = {"versionasof": "use 'scan.version'", "timestampasof": "use 'scan.timestamp'"}
"""Options that Spark itself applies to tables by name, and to tables by path only for sources with catalogs."""

_OF_HUDI = "hoodie."

_OF_THE_APPLICATION = ("python", "pythonEnv.", "planner")
"""Prefixes of settings of the application (docs/spark-setup.md), which are no options of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """One setting of the table; `wildcards` is 4 for a setting of all tables."""

    name: str
    key: str
    value: str
    wildcards: int


def session_options(settings: Mapping[str, str], catalog: str, database: str, table: str) -> dict[str, str]:
    """Return the options of the table in the settings."""
    return {setting.key: setting.value for setting in _settings_of(settings, catalog, database, table)}


def with_session_options(
    loaded: Table, settings: Mapping[str, str], catalog: str, database: str, *, travels: bool
) -> tuple[Table, dict[str, str]]:
    """Return the table with its options of the session, and these options; without `travels` no TRAVEL_KEYS.

    Raises InvalidOptionError for an option that can't be dynamic, NotSupportedError for one that is not supported; both
    name the settings.
    """
    name = loaded.name.partition(".")[2].partition("$")[0]
    found = _settings_of(settings, catalog, database, name)
    options = {s.key: s.value for s in found if travels or s.key not in TRAVEL_KEYS}
    branch = options.pop(BRANCH, None)
    if branch is not None and loaded.access.branch_name == MAIN_BRANCH:
        loaded = loaded.branch(branch)
    if not options:
        return loaded, options
    try:
        return loaded.copy(options), options
    except (InvalidOptionError, NotSupportedError) as error:
        names = ", ".join(sorted(s.name for s in found if s.key in options))
        raise type(error)(f"{error} The session has set {names}; RESET removes a setting.") from error


def read_options(session: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a read: those of the session, overridden by those of its DataFrame."""
    given = table_options(given)
    if TRAVEL_KEYS.isdisjoint(given):
        return {**session, **given}
    return {**without_travel(session), **given}


def table_options(given: Mapping[str, str]) -> dict[str, str]:
    """Return the options of a DataFrame that are its table's, without its path and Spark's own options.

    Raises NotSupportedError for an option by which another table format chooses the rows.
    """
    _refuse(given, _OF_OTHERS)
    return {key: value for key, value in given.items() if key not in _OF_SPARK}


def check_options_of_path(given: Mapping[str, str]) -> None:
    """Raise NotSupportedError for an option of a table by path by which another format chooses the rows."""
    _refuse(given, {**_OF_OTHERS, **_BY_NAME})


def _refuse(given: Mapping[str, str], refused: Mapping[str, str]) -> None:
    for key in given:
        of_hudi = "remove it" if key.lower().startswith(_OF_HUDI) else None
        instead = refused.get(key.lower(), of_hudi)
        if instead is not None:
            raise NotSupportedError(
                f"The option '{key}' of a DataFrame is that of another table format, and has no effect on this table: "
                f"{instead}."
            )


def without_pins(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that name one snapshot, for callers that have the snapshot's id."""
    return without_travel(options) if StreamOptions(options).startup_mode in PINNED else dict(options)


def without_travel(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options without those that choose a snapshot."""
    return {key: value for key, value in options.items() if key not in TRAVEL_KEYS}


def _settings_of(settings: Mapping[str, str], catalog: str, database: str, table: str) -> list[_Setting]:
    """Return the settings of the table, in ascending priority."""
    names = (re.escape(name) for name in (catalog, database, table))
    of_table = re.compile(r"\.".join(rf"(\*|{name})" for name in names) + r"\.(.+)")
    # Settings of other tables.
    of_others = re.compile(rf"(\*|{re.escape(catalog)})\.[^.]+\.[^.]+\..+|[^.]+\.\*\.[^.]+\..+|[^.]+\.[^.]+\.\*\..+")
    found = []
    for name in sorted(settings, key=lambda setting: not setting.startswith(PREFIXES[1])):
        prefix = next((p for p in PREFIXES if name.startswith(p)), None)
        key = "" if prefix is None else name[len(prefix) :]
        if not key or key.startswith(_OF_THE_APPLICATION):
            continue
        match = of_table.fullmatch(key)
        if match is not None:
            wildcards = match.groups().count("*")
            found.append(_Setting(name=name, key=match[4], value=settings[name], wildcards=wildcards))
        elif not of_others.fullmatch(key):
            found.append(_Setting(name=name, key=key, value=settings[name], wildcards=4))
    # The sort is stable: among equals Paimon's prefix comes first, and ours after it.
    return sorted(found, key=lambda setting: -setting.wildcards)
