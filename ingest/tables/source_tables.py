"""Tables of the lake and their source tables: which table gets the rows of which source tables.

`TableNames` chooses the table of the lake for the changes of a source table. `SourceTables` has the identities of the
source tables of one table of the lake, and checks that they stay the same.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from interbed.catalog.client.api import Catalog
from interbed.catalog.client.identifier import check_table_name
from interbed.ingest.flow.changes import CatalogIdentity, EndedName, RefusedTable, SourceIdentity, SourceTable
from interbed.ingest.flow.messages import SourceChangedError
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.storage.meta.options.lsm import MergeEngine
from interbed.storage.table.table import Table


def check_refused(tables: Iterable[RefusedTable], name_of: Callable[[SourceTable], str | None]) -> None:
    """Raise NotSupportedError for a refused table, unless it is skipped."""
    for table in tables:
        if name_of(table.source) is not None:
            raise NotSupportedError(
                f"{table.reason} It is of the table {table.source}; --excluding-tables leaves a table out, and the "
                "others are read then."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableNames:
    """Names of tables of the lake. All changes go to `table`, or those of each source table to a table of their own in
    `database`, named `prefix` + its name + `suffix`.

    The patterns are regular expressions for whole names of source tables, with their database or without it (Paimon's
    `including_tables` and `excluding_tables`); changes of other tables are skipped. Raises InvalidInputError for an
    invalid pattern, and unless exactly one of `table` and `database` is given. If `databases` are given, changes of
    tables in other databases of the source are skipped as well. Tables that match `skipping` may be skipped if they
    cannot be tables of a lake. With `lower_case` the names of tables are written in lower case, for catalogs that
    ignore case.
    """

    table: str | None = None
    database: str | None = None
    prefix: str = ""
    suffix: str = ""
    including: str = ".*"
    excluding: str | None = None
    databases: frozenset[str] | None = None
    skipping: str | None = None
    lower_case: bool = False

    def __post_init__(self) -> None:
        if (self.table is None) == (self.database is None):
            raise InvalidInputError("Give either the one table that changes go to, or the database of many.")
        for pattern in (self.including, self.excluding or "", self.skipping or ""):
            try:
                re.compile(pattern)
            except re.error as error:
                raise InvalidInputError(f"{pattern!r} is no regular expression: {error}.") from error

    @property
    def are_chosen(self) -> bool:
        """Whether a pattern selects the wanted tables, instead of only excluding others."""
        return self.including != ".*"

    def in_catalog(self, catalog: Catalog) -> "TableNames":
        """Return the same names in the case of the catalog."""
        return self if catalog.is_case_sensitive else replace(self, lower_case=True)

    def of(self, source: SourceTable | None) -> str | None:
        """Return DATABASE.TABLE for a source table; None if it is skipped.

        Raises InvalidInputError if messages do not name their table, and for a name that no table can have.
        """
        if source is None:
            if self.table is None:
                raise InvalidInputError(
                    "Messages of this format do not say which table they are about. Give the one table that they go to."
                )
            return self.table
        if self.databases is not None and source.database not in self.databases:
            return None
        if not self._matches(self.including, source) or (self.excluding and self._matches(self.excluding, source)):
            return None
        if self.table is not None:
            return self.table
        # A name with a '$' would name a branch of another table.
        name = check_table_name(f"{self.prefix}{source.name}{self.suffix}")
        return f"{self.database}.{name.lower() if self.lower_case else name}"

    def own_tables_of(self, sources: Iterable[SourceTable]) -> set[str]:
        """Return the tables that have rows only of these source tables."""
        return {self.possible(source) or "" for source in sources if self.table is None}

    def possible(self, source: SourceTable) -> str | None:
        """Return the same as `of`, and None also for a name that no table of a lake can have."""
        try:
            return self.of(source)
        except InvalidInputError:
            return None

    def may_skip(self, source: SourceTable) -> bool:
        """Return whether a source table may be skipped if it cannot be a table of a lake."""
        return self.skipping is not None and self._matches(self.skipping, source)

    def present(self, catalog: Catalog) -> Sequence[str]:
        """Return the one table, whether it exists or not; or the tables of the database that have such a name."""
        if self.table is not None:
            return [self.table]
        database = self.database or ""
        if not catalog.database_exists(database):
            return []
        names = catalog.list_tables(database)
        prefix, suffix = (p.lower() if self.lower_case else p for p in (self.prefix, self.suffix))
        return [f"{database}.{n}" for n in names if n.startswith(prefix) and n.endswith(suffix)]

    def one_each(self, sources: Iterable[SourceTable]) -> dict[SourceTable, str]:
        """Return the names of those that are not skipped. Raises InvalidInputError if two of them go to one table."""
        found = {source: name for source in sources if (name := self.of(source)) is not None}
        of_name: dict[str, SourceTable] = {}
        for source, name in found.items():
            if (other := of_name.setdefault(name, source)) != source:
                raise InvalidInputError(
                    f"The tables {other} and {source} of the source would both go to '{name}'. Leave one of them out, "
                    "or read them by runs of their own."
                )
        return found

    @staticmethod
    def _matches(pattern: str, source: SourceTable) -> bool:
        return any(re.fullmatch(pattern, name) for name in (source.name, str(source)))


_NAMELESS = SourceTable("", "")


class SourceTables:
    """The source tables of one table of the lake. Not for use by several threads."""

    def __init__(self, table: Table, known: Iterable[SourceIdentity]) -> None:
        self._table = table
        self._known = {each.source: each for each in known}

    @property
    def identities(self) -> Iterable[SourceIdentity]:
        """The known identity of each source table."""
        return self._known.values()

    def admit(
        self, changes: SourceIdentity, place: str, *, only: bool, chosen_key: bool = False, accepted: bool = False
    ) -> None:
        """Check that the source table of changes is known and has the same key; a new table is recorded.

        With `only`, the lake's table may have the rows of one source table only. With `chosen_key`, the user has chosen
        its primary key. If a change is `accepted`, it replaces the known identity. Raises SourceChangedError naming the
        place of the first message, and InvalidInputError if a second source table would go to the same table.
        """
        source = changes.source
        known = self._known.get(source)
        key = changes.key if changes.key is not None or known is None else known.key
        if known is not None and _is_same_key(known.key, changes.key) and known.relation in ("", changes.relation):
            self._known[source] = replace(known, key=key, relation=changes.relation)
            return
        if known is None:
            self._check_only(source, only=only and not accepted)
        elif not accepted:
            self._check_same(known, changes, place)
        if not accepted and (known is None or not known.key):
            self._check_key_is_unique(source, changes.key or (), place, chosen_key=chosen_key)
        published = () if known is None or known.relation != changes.relation else known.published
        self._known[source] = SourceIdentity(
            source=source,
            key=key,
            relation=changes.relation,
            published=published,
            attached=known.attached if known is not None and published else "",
            named=known.named if known is not None and published else "",
        )

    def left_out(self, wanted: Callable[[SourceTable], bool]) -> list[SourceTable]:
        """Return the source tables that a run skips, possibly all of them."""
        return [source for source in self._known if source != _NAMELESS and not wanted(source)]

    def forget(self, sources: Iterable[SourceTable]) -> None:
        """Remove source tables from those that the table gets its rows from."""
        for source in sources:
            del self._known[source]

    def check_none_left_out(self, left_out: Sequence[SourceTable]) -> None:
        """Raise InvalidInputError if a run skips a part of the source tables: their changes would be missing."""
        if left_out:
            raise InvalidInputError(
                f"{self._table.name} has rows of {_full_name(left_out[0])}, which this run skips: its changes "
                "would be missing, also from later runs. Include it, or read the others into another table; or give "
                f"--accept-changed-source {self._table.name} if no more changes of it are wanted."
            )

    def check_truncation(self, source: SourceTable | None, place: str) -> None:
        """Refuse to truncate the table for one source table if it has rows of others.

        Raises SourceChangedError. The source table is None if it is not known.
        """
        others = list(self._known)[1:] if source is None else [other for other in self._known if other != source]
        if others:
            raise SourceChangedError(
                f"The message at {place} truncates {'a source table' if source is None else _full_name(source)}, and "
                f"{self._table.name} has rows of {_full_name(others[0])} as well: which rows to delete is not known. "
                "Delete them yourself, and go on as another group (--group) from a later time (--start); or read each "
                "source table into a table of its own."
            )

    def ended_by(
        self,
        names: Sequence[EndedName],
        place: str,
        *,
        wanted: Callable[[SourceTable], bool],
        more: Iterable[SourceTable] = (),
    ) -> SourceChangedError | None:
        """Return the error of the message at the place if it ends a source table that the table has rows of.

        `more` are source tables that it gets rows of before the message. If no source tables are known, and the table
        has rows, a source table counts whose rows are `wanted` for it.
        """
        known = [source for source in {**self._known, **dict.fromkeys(more)} if source != _NAMELESS]
        if not known and self._table.latest_snapshot() is not None:
            named = [SourceTable(each.database, each.name) for each in names if each.database and each.name]
            known = [source for source in named if wanted(source)]
        for each, source in itertools.product(names, known):
            if each.is_of(source):
                name = self._table.name
                return self._changed(
                    source,
                    f"{each.what}, as the message at {place} says",
                    f"If no row of {name} is missing or wrong (compare both, interbed ingest verify), as after gh-ost "
                    f"or pt-online-schema-change, go on with --accept-changed-source {name}. "
                    f"Otherwise delete the rows of {name} before you do; or drop {name} to read the source table again "
                    "from its first row, which comes after this message (--start). A topic may lack rows that a table "
                    "had before it got its name: have the source send these again.",
                )
        return None

    def compare(
        self,
        catalog: Mapping[SourceTable, CatalogIdentity],
        *,
        wanted: Callable[[SourceTable], bool],
        accepted: bool = False,
    ) -> None:
        """Check that the wanted source tables are those in the catalog of the source.

        Tables that were not compared before are recorded. Raises SourceChangedError.
        """
        for source, known in list(self._known.items()):
            if not wanted(source):
                continue
            found = catalog.get(source)
            if found is None:
                if known.published and not accepted:
                    raise self._changed(
                        source,
                        "is not published any more, so that its changes are not sent",
                        f"Publish it again after you have dropped {self._table.name}, or leave the table out by "
                        "--excluding-tables: its rows stay in the lake as they are.",
                    )
                continue
            if known.published and not accepted:
                self._check_catalog(source, known, found)
            if not known.relation or known.relation == found.relation or accepted:
                self._known[source] = known.in_catalog(found)

    def _check_only(self, source: SourceTable, *, only: bool) -> None:
        others = [other for other in self._known if other != source]
        if only and others:
            raise InvalidInputError(
                f"The tables {_full_name(others[0])} and {_full_name(source)} of the source would both go to "
                f"'{self._table.name}'. Leave one of them out (--excluding-tables), or read them by runs of their own, "
                "with another --database or --table-prefix. Give --table if they are parts of one table."
            )

    def _check_same(self, known: SourceIdentity, changes: SourceIdentity, place: str) -> None:
        if known.relation and changes.relation and known.relation != changes.relation:
            raise self._changed(
                known.source,
                f"is another table since the message at {place}: its number was {known.relation}, and is "
                f"{changes.relation}. It was dropped or renamed, and another table has its name",
            )
        if known.key and not _is_same_key(known.key, changes.key):
            raise self._changed(
                known.source,
                f"has another primary key since the message at {place}: it was ({', '.join(known.key)}), and is "
                f"{_shown_key(changes.key)}, so that its rows could overwrite each other in {self._table.name}",
            )

    def _check_key_is_unique(self, source: SourceTable, key: tuple[str, ...], place: str, *, chosen_key: bool) -> None:
        """Refuse a table whose key identifies several rows of the source as one."""
        own = self._table.schema.primary_keys
        if chosen_key or not own or set(key) <= set(own):
            return
        if self._table.options.merge_engine is not MergeEngine.DEDUPLICATE:
            return
        raise SourceChangedError(
            f"The source table {_full_name(source)} has the primary key ({', '.join(key)}) since the message at "
            f"{place}, and {self._table.name} has ({', '.join(own)}): rows could overwrite each other. Nothing of it "
            f"was written. Drop {self._table.name}, so that it is created with the key of the source; or give "
            f"--primary-key {','.join(own)} if that is unique for its rows."
        )

    def _check_catalog(self, source: SourceTable, known: SourceIdentity, found: CatalogIdentity) -> None:
        if known.relation != found.relation:
            raise self._changed(
                source,
                f"is another table now: its number was {known.relation}, and is {found.relation}. It was dropped or "
                "renamed, and another table has its name",
            )
        if not set(known.published) & set(found.published):
            raise self._changed(
                source,
                "has left the publication and returned, or the publication was changed: changes made in between were "
                "not sent",
            )
        if known.named and known.named != found.named:
            raise self._changed(
                source,
                "was renamed, or moved to another schema, and got its name back: changes made in between were sent "
                "under another name. A change of its owner looks the same",
            )
        if found.attached and found.attached != known.attached:
            raise self._changed(
                source,
                f"has got a partition that was a table before ({found.attached.partition('@')[0]}): the rows that it "
                "had were not sent",
            )

    def _changed(self, source: SourceTable, what: str, way_out: str = "") -> SourceChangedError:
        name = self._table.name
        way_out = way_out or (
            f"Drop {name} to read the source table again from its first row; or compare both (interbed ingest verify), "
            f"and go on with --accept-changed-source {name} if no row is missing or wrong."
        )
        return SourceChangedError(
            f"The source table {_full_name(source)}, which {name} was filled from, {what}. Nothing more of it was "
            f"written. {way_out}"
        )


def _full_name(source: SourceTable) -> str:
    if source == _NAMELESS:
        return "without a name"
    return f"{source} of {source.server}" if source.server else str(source)


def _is_same_key(known: tuple[str, ...] | None, declared: tuple[str, ...] | None) -> bool:
    """Return whether the declared key is the known one, in any order. A message that declares no key is consistent."""
    return declared is None or (known is not None and set(known) == set(declared))


def _shown_key(key: tuple[str, ...] | None) -> str:
    return f"({', '.join(key)})" if key else "none"
