"""The accepted differences between the two servers, each with its reason; README.md explains them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential.servers import CallAnswer, CallRefusal, Outcome

BEHIND_A_WAITING_LOCK = "lock behind a waiting one"
"""Name of a `lock` call while another request waits."""

CHECKED_BEHIND_A_WAITING_LOCK = "check_lock behind a waiting one"
"""Name of a `check_lock` call while an earlier request waits."""

BESIDE_A_DATABASE = " while the database is shared"
"""Suffix of the names of lock calls while a shared lock on a whole database is held or requested."""

READS = ("get_", "show_")
"""Prefixes of the methods that change nothing."""


@dataclass(frozen=True, slots=True)
class OutcomeDifference:
    """Two different outcomes of one call."""

    method: str
    arguments: tuple[Any, ...]
    java: Outcome
    ours: Outcome
    after: tuple[Outcome, Outcome] | None = None
    """Outcomes of the call before, for a comparison of the warehouses."""

    @property
    def makes_servers_diverge(self) -> bool:
        """Whether the two servers store different objects after this difference."""
        if self.method.startswith(("paths", "lock", "check_lock")):
            return True
        one_refused = isinstance(self.java, CallRefusal) is not isinstance(self.ours, CallRefusal)
        return one_refused and not self.method.startswith(READS)

    def __str__(self) -> str:
        return f"{self.method}{self.arguments}\n  Java: {self.java}\n  ours: {self.ours}"


@dataclass(frozen=True, slots=True)
class AcceptedDifference:
    """Accepted difference: its reason, and the differences that it covers."""

    reason: str
    covers: Callable[[OutcomeDifference], bool]


def _java_raised_an_unhandled_error(difference: OutcomeDifference) -> bool:
    """Return whether Java failed by an unhandled exception, and interbed refused the call as well."""
    java, ours = difference.java, difference.ours
    if not isinstance(java, CallRefusal) or not isinstance(ours, CallRefusal) or ours.kind == "TApplicationException":
        return False
    return java.kind in ("TApplicationException", "TTransportException") or any(
        word in java.text for word in ("NullPointerException", "IllegalArgumentException", "java.lang.", "javax.jdo.")
    )


MATCHED = [
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"The table has been modified.*",
        r"new table \S+ already exists",
        r"\S+ table not found",
        r"(Table|Database|Function) \S+ already exists",
        r"Partition already exists",
        r"is not empty. One or more \w+ exist",
        r"partition keys can not be changed",
        r"\S* is not a valid (object|database) name",
        r"No such lock.*",
        r"the config key \S* cannot be accessed",
        r"Can not drop default database",
    )
]
"""Texts of exceptions that clients match on, or that are shown to users unchanged."""


def _texts_differ(difference: OutcomeDifference) -> bool:
    """Return whether the exceptions are the same, but for a text that no client matches on."""
    java, ours = difference.java, difference.ours
    if not isinstance(java, CallRefusal) or not isinstance(ours, CallRefusal) or java.kind != ours.kind:
        return False
    matches = (pattern.search(java.text) for pattern in MATCHED)
    # One server has names in their stored spelling, the other in the spelling of the call.
    return all(match.group().lower() in ours.text.lower() for match in matches if match)


def _java_passes_a_waiting_lock(difference: OutcomeDifference) -> bool:
    """Return whether Java granted a lock although an earlier request waits."""
    method = difference.method.removesuffix(BESIDE_A_DATABASE)
    return method in (BEHIND_A_WAITING_LOCK, CHECKED_BEHIND_A_WAITING_LOCK) and _only_java_granted(difference)


def _java_stops_at_a_shared_database(difference: OutcomeDifference) -> bool:
    """Return whether Java granted a lock without a check of all others: it stops at a shared lock on a database that
    meets one on a table.
    """
    return difference.method.endswith(BESIDE_A_DATABASE) and _only_java_granted(difference)


def _only_java_granted(difference: OutcomeDifference) -> bool:
    java, ours = difference.java, difference.ours
    return (
        isinstance(java, CallAnswer)
        and isinstance(ours, CallAnswer)
        and java.value["state"] == ttypes.LockState.ACQUIRED
        and ours.value["state"] == ttypes.LockState.WAITING
    )


ACCIDENTS = [
    re.compile(pattern)
    for pattern in (
        # The request lacks a part that interbed fills in: the storage descriptor (a partition gets that of its table),
        # the list of keys, the properties of an environment context.
        r"NullPointerException",
        r"Invalid SerDeInfo object",
        # Interbed treats an empty location as none.
        r"Can not create a Path from an? (empty|null) string",
        # A view has no directory that Java could measure.
        r"FileNotFoundException: File .* does not exist",
        # The pattern has an empty alternative, such as "|".
        r"Method/Identifier expected at character",
        # Hive has no name for this type of table.
        r"No enum constant .*TableType",
        # Java asks the SerDe for the columns; interbed has no SerDes, and returns the stored columns.
        r"ClassNotFoundException Class .* not found",
        # Java reads Hive's patterns as regular expressions, in which a single bracket is invalid.
        r"PatternSyntaxException",
    )
]
"""Texts of Java's failures in calls that interbed executes."""


def _java_fails_on_valid_calls(difference: OutcomeDifference) -> bool:
    java = difference.java
    return (
        isinstance(java, CallRefusal)
        and isinstance(difference.ours, CallAnswer)
        and any(pattern.search(java.text) for pattern in ACCIDENTS)
    )


def _column_types_are_not_checked(difference: OutcomeDifference) -> bool:
    java = difference.java
    return isinstance(java, CallRefusal) and java.text.startswith(
        ("Invalid column type", "java.lang.StringIndexOutOfBoundsException")
    )


def _columns_need_names(difference: OutcomeDifference) -> bool:
    ours = difference.ours
    return isinstance(ours, CallRefusal) and bool(
        re.search(r"has a column without a name|Duplicate column name|of table \S+ has no type", ours.text)
    )


def _dots_in_names(difference: OutcomeDifference) -> bool:
    """Return whether the name of a table has a dot: Java misreads such a name in a request for columns."""
    return difference.method in ("get_fields", "get_schema") and "." in difference.arguments[1]


def _slashes_in_names(difference: OutcomeDifference) -> bool:
    """Return whether Java accepted a slash in the name of a table, which puts its directory into
    that of another name.
    """
    ours = difference.ours
    return isinstance(ours, CallRefusal) and bool(re.fullmatch(r"\S*/\S* is not a valid object name", ours.text))


def _java_leaves_directories(difference: OutcomeDifference) -> bool:
    """Return whether both refused a call for which Java had already created a directory."""
    java, ours = difference.java, difference.ours
    return (
        difference.after is not None
        and all(isinstance(outcome, CallRefusal) for outcome in difference.after)
        and isinstance(java, CallAnswer)
        and isinstance(ours, CallAnswer)
        and set(ours.value) < set(java.value)
    )


def _in_another_order(difference: OutcomeDifference) -> bool:
    java, ours = difference.java, difference.ours
    if not isinstance(java, CallAnswer) or not isinstance(ours, CallAnswer):
        return False
    match difference.method:
        case "get_all_functions":
            return _sorted(java.value.get("functions")) == _sorted(ours.value.get("functions"))
        case "get_table_objects_by_name":
            return _sorted(java.value) == _sorted(ours.value)
    return False


def _sorted(values: list[Any] | None) -> list[Any]:
    return sorted(values or [], key=str)


COUNTS = {"numFiles", "totalSize"}


def _files_are_not_counted(difference: OutcomeDifference) -> bool:
    """Return whether only file counts differ: Java counted the files of a directory that existed before its table or
    partition.
    """
    java, ours = difference.java, difference.ours
    return (
        isinstance(java, CallAnswer)
        and isinstance(ours, CallAnswer)
        and _uncounted(java.value) == _uncounted(ours.value)
    )


def _uncounted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _uncounted(item) for key, item in value.items() if key not in COUNTS}
    return [_uncounted(item) for item in value] if isinstance(value, list) else value


def _hive_4_requires_it(difference: OutcomeDifference) -> bool:
    """Return whether a part is missing that Hive 4 requires, and that Hive 2.3 checks later or not at all."""
    ours = difference.ours
    return isinstance(ours, CallRefusal) and bool(
        re.search(
            r"has no (SerDe|storage descriptor|list of columns|name|type)|location must not be root path", ours.text
        )
    )


ACCEPTED = [
    AcceptedDifference(
        "Java fails by accident; interbed refuses with an exception that the method declares.",
        _java_raised_an_unhandled_error,
    ),
    AcceptedDifference("Java fails by accident; interbed does what was asked for.", _java_fails_on_valid_calls),
    AcceptedDifference("A call that fails leaves no directory behind.", _java_leaves_directories),
    AcceptedDifference("Errors are worded for people; what clients match on is the same.", _texts_differ),
    AcceptedDifference(
        "Locks are granted in order of arrival; Java lets readers pass a waiting writer.", _java_passes_a_waiting_lock
    ),
    AcceptedDifference(
        "A lock looks at all others; Java stops at a shared one on the database.", _java_stops_at_a_shared_database
    ),
    AcceptedDifference(
        "Types of columns are the clients' affair; newer ones have newer types.", _column_types_are_not_checked
    ),
    AcceptedDifference("A table's name holds no dots.", _dots_in_names),
    AcceptedDifference("A table's name holds no slashes.", _slashes_in_names),
    AcceptedDifference("Objects come in the order of their names; Java has none.", _in_another_order),
    AcceptedDifference("Statistics come from the engines; directories are not measured.", _files_are_not_counted),
    AcceptedDifference("What Hive 4 asks for is asked for, and first of all.", _hive_4_requires_it),
    AcceptedDifference("Every column and key has a type and a name of its own.", _columns_need_names),
]


def reason_to_accept(difference: OutcomeDifference, more: Iterable[AcceptedDifference] = ()) -> str | None:
    """Return why this difference is accepted, by the rules above or by more of them; None if it is not accepted."""
    for accepted in (*ACCEPTED, *more):
        if accepted.covers(difference):
            return accepted.reason
    return None
