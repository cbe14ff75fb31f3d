"""The differences between the two servers that are kept on purpose, each with its reason; README.md tells of them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential.sides import Answered, Outcome, Refused

BEHIND_A_WAITING_LOCK = "lock behind a waiting one"
"""A `lock` that is asked for while another one waits."""

CHECKED_BEHIND_A_WAITING_LOCK = "check_lock behind a waiting one"
"""A `check_lock` while a lock that was asked for earlier waits."""

BESIDE_A_DATABASE = " while somebody shares the database"
"""What the name of a call about locks ends with while there is a shared lock on a whole database."""

READS = ("get_", "show_")
"""How the names of methods begin that change nothing."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Two outcomes of one call that are not the same."""

    method: str
    arguments: tuple[Any, ...]
    java: Outcome
    ours: Outcome
    after: tuple[Outcome, Outcome] | None = None
    """For what lies in the warehouse: how the call before ended."""

    @property
    def leaves_them_apart(self) -> bool:
        """Whether the two servers hold different things from now on."""
        if self.method.startswith(("paths", "lock", "check_lock")):
            return True
        one_refused = isinstance(self.java, Refused) is not isinstance(self.ours, Refused)
        return one_refused and not self.method.startswith(READS)

    def __str__(self) -> str:
        return f"{self.method}{self.arguments}\n  Java: {self.java}\n  ours: {self.ours}"


@dataclass(frozen=True, slots=True)
class Kept:
    """A difference that is kept: what it is, and which differences it covers."""

    reason: str
    covers: Callable[[Difference], bool]


def _java_broke(difference: Difference) -> bool:
    """Java failed by an exception that nobody handles, and interbed refused as well."""
    java, ours = difference.java, difference.ours
    if not isinstance(java, Refused) or not isinstance(ours, Refused) or ours.kind == "TApplicationException":
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
"""Texts of exceptions by which clients tell cases apart, or that are told to users as they come."""


def _other_words(difference: Difference) -> bool:
    """The same exception with a text that no client matches on."""
    java, ours = difference.java, difference.ours
    if not isinstance(java, Refused) or not isinstance(ours, Refused) or java.kind != ours.kind:
        return False
    matches = (pattern.search(java.text) for pattern in MATCHED)
    # Names are told as they are stored by the one and as they were given by the other.
    return all(match.group().lower() in ours.text.lower() for match in matches if match)


def _passes_a_waiting_lock(difference: Difference) -> bool:
    """Java granted a lock although one that waits was asked for earlier."""
    method = difference.method.removesuffix(BESIDE_A_DATABASE)
    return method in (BEHIND_A_WAITING_LOCK, CHECKED_BEHIND_A_WAITING_LOCK) and _only_java_granted(difference)


def _ends_its_search_at_a_shared_database(difference: Difference) -> bool:
    """Java granted a lock without looking at all others: it stops at a pair of a shared database and a table."""
    return difference.method.endswith(BESIDE_A_DATABASE) and _only_java_granted(difference)


def _only_java_granted(difference: Difference) -> bool:
    java, ours = difference.java, difference.ours
    return (
        isinstance(java, Answered)
        and isinstance(ours, Answered)
        and java.value["state"] == ttypes.LockState.ACQUIRED
        and ours.value["state"] == ttypes.LockState.WAITING
    )


ACCIDENTS = [
    re.compile(pattern)
    for pattern in (
        # A part is missing that interbed fills in: the storage descriptor (a partition gets that of its table), the
        # list of keys, the properties of an environment context.
        r"NullPointerException",
        r"Invalid SerDeInfo object",
        # An empty location is none.
        r"Can not create a Path from an? (empty|null) string",
        # A view has no directory that could be measured.
        r"FileNotFoundException: File .* does not exist",
        # Alternatives without a letter, as in the pattern "|".
        r"Method/Identifier expected at character",
        # A type of table that Hive has no name for.
        r"No enum constant .*TableType",
        # Java asks the serde for the columns; interbed has none to ask, and answers with those it was told.
        r"ClassNotFoundException Class .* not found",
        # Hive's patterns are taken for regular expressions by Java; a lone bracket is none.
        r"PatternSyntaxException",
    )
]
"""Texts of Java's failures where interbed does what was asked for."""


def _java_fails_by_accident(difference: Difference) -> bool:
    java = difference.java
    return (
        isinstance(java, Refused)
        and isinstance(difference.ours, Answered)
        and any(pattern.search(java.text) for pattern in ACCIDENTS)
    )


def _column_types_are_not_checked(difference: Difference) -> bool:
    java = difference.java
    return isinstance(java, Refused) and java.text.startswith(
        ("Invalid column type", "java.lang.StringIndexOutOfBoundsException")
    )


def _columns_need_names(difference: Difference) -> bool:
    ours = difference.ours
    return isinstance(ours, Refused) and bool(
        re.search(r"has a column without a name|Duplicate column name|of table \S+ has no type", ours.text)
    )


def _dots_in_names(difference: Difference) -> bool:
    """Java takes what comes after a dot in a table's name for something else when it is asked for columns."""
    return difference.method in ("get_fields", "get_schema") and "." in difference.arguments[1]


def _slashes_in_names(difference: Difference) -> bool:
    """Java takes a slash in a table's name, which puts its directory into one of another name."""
    ours = difference.ours
    return isinstance(ours, Refused) and bool(re.fullmatch(r"\S*/\S* is not a valid object name", ours.text))


def _java_leaves_directories(difference: Difference) -> bool:
    """Both refused a call for which Java had made a directory already."""
    java, ours = difference.java, difference.ours
    return (
        difference.after is not None
        and all(isinstance(outcome, Refused) for outcome in difference.after)
        and isinstance(java, Answered)
        and isinstance(ours, Answered)
        and set(ours.value) < set(java.value)
    )


def _in_another_order(difference: Difference) -> bool:
    java, ours = difference.java, difference.ours
    if not isinstance(java, Answered) or not isinstance(ours, Answered):
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


def _files_are_not_counted(difference: Difference) -> bool:
    """Java measured a directory that was there before its table or partition."""
    java, ours = difference.java, difference.ours
    return (
        isinstance(java, Answered) and isinstance(ours, Answered) and _uncounted(java.value) == _uncounted(ours.value)
    )


def _uncounted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _uncounted(item) for key, item in value.items() if key not in COUNTS}
    return [_uncounted(item) for item in value] if isinstance(value, list) else value


def _hive_4_asks_for_it(difference: Difference) -> bool:
    """Something is missing that Hive 4 refuses to do without, and Hive 2.3 looks at later, or not at all."""
    ours = difference.ours
    return isinstance(ours, Refused) and bool(
        re.search(
            r"has no (SerDe|storage descriptor|list of columns|name|type)|location must not be root path", ours.text
        )
    )


KEPT = [
    Kept("Java fails by accident; interbed refuses with an exception that the method declares.", _java_broke),
    Kept("Java fails by accident; interbed does what was asked for.", _java_fails_by_accident),
    Kept("A call that fails leaves no directory behind.", _java_leaves_directories),
    Kept("Errors are worded for people; what clients match on is the same.", _other_words),
    Kept("Locks are granted in order of arrival; Java lets readers pass a waiting writer.", _passes_a_waiting_lock),
    Kept(
        "A lock looks at all others; Java stops at a shared one on the database.", _ends_its_search_at_a_shared_database
    ),
    Kept("Types of columns are the clients' affair; newer ones have newer types.", _column_types_are_not_checked),
    Kept("A table's name holds no dots.", _dots_in_names),
    Kept("A table's name holds no slashes.", _slashes_in_names),
    Kept("Objects come in the order of their names; Java has none.", _in_another_order),
    Kept("Statistics come from the engines; directories are not measured.", _files_are_not_counted),
    Kept("What Hive 4 asks for is asked for, and first of all.", _hive_4_asks_for_it),
    Kept("Every column and key has a type and a name of its own.", _columns_need_names),
]


def reason_to_keep(difference: Difference, more: Iterable[Kept] = ()) -> str | None:
    """Why this difference is kept, by the rules above or by more of them; None if it is not."""
    for kept in (*KEPT, *more):
        if kept.covers(difference):
            return kept.reason
    return None
