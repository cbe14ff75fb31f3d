"""The identity of a source table, which shows that a table of the lake still follows the same rows of the same table.

It is kept beside the positions: in each snapshot of the table in the lake (`interbed.stream.source`) and with positions
that are written without rows, as JSON: {"topic": "yZQJ_7CtSxGOFW324gQ7iQ", "source tables": [{"name": "orders", "key":
["id"], …}]}. No topic of Kafka has a blank in its name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from interbed.ingest.flow.changes import RowChanges, SourceTable
from interbed.storage.base.errors import CorruptFileError

_MEMBER = "source tables"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogIdentity:
    """A table in the catalog of its database.

    `relation` is the number of the table; another table of the same name has another number. `published` are the
    reasons why the table is published, each with its number: a table that leaves a publication and returns gets a new
    one. `attached` names the partition that was attached last with rows of its own; it is empty if there is none.
    `named` is the version of its name: a table that was renamed, or moved to another schema, and back has another one.
    """

    relation: str
    published: tuple[str, ...]
    attached: str = ""
    named: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceIdentity:
    """A source table, the primary key that it declares, and its identity in the catalog as far as that is known.

    The key is empty if the table has none, and None if messages do not state it.
    """

    source: SourceTable
    key: tuple[str, ...] | None
    relation: str = ""
    published: tuple[str, ...] = ()
    attached: str = ""
    named: str = ""

    def in_catalog(self, found: CatalogIdentity) -> "SourceIdentity":
        """Return the same table with its identity in the catalog."""
        return replace(
            self, relation=found.relation, published=found.published, attached=found.attached, named=found.named
        )

    def to_json(self) -> dict[str, Any]:
        """Return the identity as a JSON object, without empty members."""
        members = {**asdict(self.source), **{name: value for name, value in asdict(self).items() if name != "source"}}
        return {name: value for name, value in members.items() if value or (name == "key" and value is not None)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> "SourceIdentity":
        """Decode the result of to_json. Raises TypeError and AttributeError for other values."""
        names = ("database", "name", "server", "relation", "attached", "named")
        text = {name: str(value.get(name, "")) for name in names}
        return SourceIdentity(
            source=SourceTable(text["database"], text["name"], text["server"]),
            key=tuple(map(str, value["key"])) if value.get("key") is not None else None,
            relation=text["relation"],
            published=tuple(map(str, value.get("published", ()))),
            attached=text["attached"],
            named=text["named"],
        )


def identity_of(changes: RowChanges) -> SourceIdentity:
    """Return the identity of the source table of changes. A table without a name has an empty name."""
    return SourceIdentity(source=changes.source or SourceTable("", ""), key=changes.key, relation=changes.relation)


def source_to_json(topic_ids: Mapping[str, str], identities: Iterable[SourceIdentity]) -> str | None:
    """Return the ids of topics and the identities of tables as one text; None if there are none."""
    tables = sorted((each.to_json() for each in identities), key=json.dumps)
    value: dict[str, Any] = dict(sorted(topic_ids.items()))
    if tables:
        value[_MEMBER] = tables
    return json.dumps(value) if value else None


def topic_ids_of(text: str | None) -> str | None:
    """Return the ids of topics in a text of source_to_json, as text. Any other text is returned unchanged."""
    try:
        value = _object(text)
    except ValueError:
        return text
    ids = {name: each for name, each in value.items() if name != _MEMBER}
    return json.dumps(ids) if ids else None


def identities_of(text: str | None, place: str) -> Sequence[SourceIdentity]:
    """Return the identities in a text of source_to_json. Raises CorruptFileError naming the place."""
    try:
        return [SourceIdentity.from_json(each) for each in _object(text).get(_MEMBER, ())]
    except (ValueError, TypeError, AttributeError) as error:
        raise CorruptFileError(
            f"{place} holds no identities of source tables: {error}: {(text or '')[:200]!r}"
        ) from error


def _object(text: str | None) -> dict[str, Any]:
    value = json.loads(text or "{}")
    if not isinstance(value, dict):
        raise ValueError("it is not an object")
    return value
