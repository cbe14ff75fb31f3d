"""Calls of all methods of Hive's interface with hostile names and locations, in this process, beside foreign objects.

A method is called with valid arguments (tests/catalog/server/access/thrift_calls.py) in which one text is replaced by a
hostile one. Texts whose fields are locations get hostile locations, all others hostile names. What a call has made is
dropped with its data, so that a location that was accepted leads to deletions.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import chdir, closing, contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event
from thrift.Thrift import TMessageType, TType
from thrift.transport.TTransport import TMemoryBuffer

from interbed.catalog.server.auth.delegation.tokens import DelegationRules, DelegationTokenService
from interbed.catalog.server.auth.principals import Mechanism, Principal
from interbed.catalog.server.database import schema
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.model import Function, MetastoreDatabase, MetastorePartition
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.calls.grants import DelegationHandler, GrantHandler
from interbed.catalog.server.thrift.edge.call import ClientSession
from interbed.catalog.server.thrift.edge.codec import BinaryCodec
from interbed.catalog.server.thrift.edge.dispatch import CallAnswer, Dispatcher, Request
from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.server.access.guarded import KEYS, STORAGE, table
from tests.catalog.server.access.thrift_calls import arguments_of, names_for
from tests.support.databases import prepare
from tests.support.hostile_locations import ProtectedTree
from tests.support.sandbox import sandbox

REGISTERED = ("wh/keep.db", "wh/keep.db/a", "wh/keep.db/a/dt=1")
"""Directories of foreign objects, below the root of the tree."""

_CODEC = BinaryCodec()
_ROOT = Principal(name="root", mechanism=Mechanism.TOKEN, groups=frozenset())
_SESSION = ClientSession(peer="192.0.2.1:1234", user="root", principal=_ROOT)
_PLACES = ("location", "uri", "path")

_VALUES: Mapping[str, Any] = {"deleteData": True, "cascade": True, "ifExists": True, "privilege": "SELECT"}
"""Values of all fields of these names."""


def _of_existing_partition(arguments: Any) -> None:
    _set_all(arguments, "values", ["2026-01-01"])


def _of_new_partition(arguments: Any) -> None:
    for name in ("part_vals", "partVals"):
        _set_all(arguments, name, ["2026-01-02"])
    for name in ("part_name", "name"):
        _set_all(arguments, name, "dt=2026-01-02")


def _of_new_table(arguments: Any) -> None:
    _set_all(arguments, "tableName", "created")


def _of_grant(arguments: Any) -> None:
    _set_all(arguments, "objectType", ttypes.HiveObjectType.TABLE)
    _set_all(arguments, "objectName", "orders")
    for name in ("partValues", "columnName"):
        _set_all(arguments, name, None)


def _into_copies(arguments: Any) -> None:
    arguments.dest_table_name = "copies"


_CHANGES: Mapping[str, Callable[[Any], None]] = {
    **dict.fromkeys(
        (
            "alter_partition",
            "alter_partition_with_environment_context",
            "alter_partitions",
            "alter_partitions_req",
            "alter_partitions_with_environment_context",
        ),
        _of_existing_partition,
    ),
    **dict.fromkeys(
        (
            "append_partition",
            "append_partition_by_name",
            "append_partition_by_name_with_environment_context",
            "append_partition_req",
            "append_partition_with_environment_context",
        ),
        _of_new_partition,
    ),
    **dict.fromkeys(
        (
            "create_table",
            "create_table_req",
            "create_table_with_constraints",
            "create_table_with_environment_context",
        ),
        _of_new_table,
    ),
    **dict.fromkeys(
        (
            "get_privilege_set",
            "grant_privileges",
            "grant_revoke_privileges",
            "list_privileges",
            "refresh_privileges",
            "revoke_privileges",
        ),
        _of_grant,
    ),
    **dict.fromkeys(("exchange_partition", "exchange_partitions"), _into_copies),
}


def _structures(value: Any) -> Iterator[Any]:
    yield value
    for field in value.thrift_spec or ():
        held = None if field is None else getattr(value, field[2])
        for each in held if isinstance(held, list) else [held]:
            if hasattr(each, "thrift_spec"):
                yield from _structures(each)


def _set_all(value: Any, name: str, to: Any) -> None:
    for each in _structures(value):
        if hasattr(each, name):
            setattr(each, name, to)


def _texts(value: Any) -> Iterator[tuple[Any, str, str]]:
    for each in _structures(value):
        for field in each.thrift_spec or ():
            held = None if field is None else getattr(each, field[2])
            if isinstance(held, str):
                yield each, field[2], held


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A text within the arguments of a method: its fields from the outside on, and whether it is a location."""

    name: str
    put: Callable[[Any, str], None]

    @property
    def is_location(self) -> bool:
        """Whether the text is the location of files."""
        last = self.name.rpartition(".")[2].lower()
        return any(each in last for each in _PLACES)


def places_of(arguments: Any) -> list[TextPlace]:
    """Return the texts of arguments, of absent optional fields as well."""
    return list(_places(arguments, "", lambda root: root))


def _places(value: Any, name: str, find: Callable[[Any], Any]) -> Iterator[TextPlace]:
    for field in value.thrift_spec or ():
        if field is None:
            continue
        kind, attribute, spec = field[1], field[2], field[3]
        inner = f"{name}.{attribute}" if name else attribute
        held = getattr(value, attribute)
        if kind == TType.STRING:
            # Binary fields hold expressions and tokens in bytes.
            if spec != "BINARY":
                yield TextPlace(inner, _attribute(find, attribute))
        elif kind == TType.STRUCT and held is not None:
            yield from _places(held, inner, _inner(find, attribute))
        elif kind in (TType.LIST, TType.SET) and spec[0] == TType.STRING and spec[1] != "BINARY":
            yield TextPlace(inner, _only_element(find, attribute))
        elif kind in (TType.LIST, TType.SET) and spec[0] == TType.STRUCT and held:
            yield from _places(held[0], inner, _first(find, attribute))
        elif kind == TType.MAP and spec[0] == spec[2] == TType.STRING:
            yield TextPlace(f"{inner}.key", _entry(find, attribute, is_key=True))
            yield TextPlace(f"{inner}.value", _entry(find, attribute, is_key=False))


def _attribute(find: Callable[[Any], Any], attribute: str) -> Callable[[Any, str], None]:
    return lambda root, text: setattr(find(root), attribute, text)


def _inner(find: Callable[[Any], Any], attribute: str) -> Callable[[Any], Any]:
    return lambda root: getattr(find(root), attribute)


def _first(find: Callable[[Any], Any], attribute: str) -> Callable[[Any], Any]:
    return lambda root: getattr(find(root), attribute)[0]


def _only_element(find: Callable[[Any], Any], attribute: str) -> Callable[[Any, str], None]:
    return lambda root, text: setattr(find(root), attribute, [text])


def _entry(find: Callable[[Any], Any], attribute: str, *, is_key: bool) -> Callable[[Any, str], None]:
    def put(root: Any, text: str) -> None:
        held = getattr(find(root), attribute) or {}
        key = next(iter(held), "dt")
        setattr(find(root), attribute, {text: held.get(key, "1")} if is_key else {**held, key: text})

    return put


@dataclass(slots=True)
class HostileCalls:
    """A metastore with foreign objects and those that the calls are about, and the methods that it serves."""

    metastore: Metastore
    dispatcher: Dispatcher
    tree: ProtectedTree

    def arguments(self, method: str) -> Any:
        """Return valid arguments of a method, which deletes data and what is below where it is asked whether to."""
        arguments = arguments_of(method, names_for(method)[0])
        for structure, attribute, text in list(_texts(arguments)):
            setattr(structure, attribute, text.replace("/WAREHOUSE", str(self.tree.warehouse)))
        for name, value in _VALUES.items():
            _set_all(arguments, name, value)
        change = _CHANGES.get(method)
        if change is not None:
            change(arguments)
        if method == "create_catalog":
            arguments.catalog.catalog.locationUri = f"file:{self.tree.warehouse}/lab"
        return arguments

    def call(self, method: str, arguments: Any) -> CallAnswer | None:
        """Call a method as a client does; None if the arguments have no bytes, for no client can send them."""
        try:
            # The server decodes what it gets: nothing else reaches a method.
            encoded = _CODEC.encode(arguments)
        except (UnicodeEncodeError, TypeError):
            return None
        decoded = type(arguments)()
        decoded.read(_CODEC.reader(TMemoryBuffer(encoded)))
        request = Request(
            codec=_CODEC,
            name=method,
            kind=TMessageType.CALL,
            sequence=1,
            method=self.dispatcher._methods[method],  # pyright: ignore[reportPrivateUsage]
            arguments=decoded,
        )
        return self.dispatcher.call(request, _SESSION)

    def renew(self) -> None:
        """Create the objects that the calls are about where they are missing."""
        made = self.metastore
        for create in (
            lambda: made.databases.create(MetastoreDatabase(name="sales", owner_name="root", owner_type=1)),
            lambda: made.tables.create(table("orders", partition_keys=KEYS)),
            lambda: made.tables.create(table("copies", partition_keys=KEYS)),
            lambda: made.partitions.add(
                ("hive", "sales", "orders"), [MetastorePartition(values=("2026-01-01",), storage=STORAGE)]
            ),
            lambda: made.functions.create(Function(database="sales", name="totals", class_name="x")),
        ):
            with suppress(MetastoreError):
                create()

    def drop_all(self) -> None:
        """Drop everything but the foreign objects, with its data."""
        made = self.metastore
        for catalog in made.catalogs.names():
            for database in made.databases.names(catalog):
                if (catalog, database) in (("hive", "keep"), ("hive", "default")):
                    continue
                for name in made.tables.names(catalog, database):
                    with suppress(MetastoreError):
                        made.tables.truncate(catalog, database, name)
                    with suppress(MetastoreError):
                        made.tables.drop(catalog, database, name, delete_data=True, purge=True)
                with suppress(MetastoreError):
                    made.databases.drop(catalog, database, delete_data=True, cascade=True)
            if catalog != "hive":
                with suppress(MetastoreError):
                    made.catalogs.drop(catalog)


@contextmanager
def hostile_calls(tree: ProtectedTree) -> Iterator[HostileCalls]:
    """Yield a metastore in a protected tree, with all methods that a server may have."""
    tree.make()
    prepare(f"sqlite:///{tree.database}")
    store = SqlRepository(f"sqlite:///{tree.database}")
    # Durability does not matter here.
    event.listen(store.engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF"))
    schema.upgrade(store.engine)
    authorizer = BuiltinAuthorizer(store)
    metastore = Metastore(store, f"file:{tree.warehouse}", access=AccessGuard(authorizer))
    metastore.databases.bootstrap()
    metastore.databases.create(MetastoreDatabase(name="keep"))
    metastore.tables.create(table("a", "keep", partition_keys=KEYS))
    metastore.partitions.add(("hive", "keep", "a"), [MetastorePartition(values=("1",), storage=STORAGE)])
    (tree.warehouse / "keep.db" / "a" / "dt=1" / "file").write_text("neighbour")
    grants = GrantHandler(AccessAdministration(store, authorizer), lambda: None)
    tokens = DelegationTokenService(store, rules=DelegationRules())
    dispatcher = dispatcher_for(
        metastore, grants=grants, delegation=DelegationHandler(tokens, lambda: (_ROOT, _SESSION.peer))
    )
    with closing(store), chdir(tree.working_directory), sandbox(tree.root.parent):
        yield HostileCalls(metastore, dispatcher, tree)


def outside(tree: ProtectedTree, entries: dict[str, str]) -> dict[str, str]:
    """Return the entries that are not in the warehouse."""
    return {path: held for path, held in entries.items() if not path.startswith(f"{tree.warehouse}/")}


def shares_of(places: Sequence[TextPlace], texts: Sequence[str]) -> Iterator[tuple[TextPlace, str]]:
    """Yield all texts, each with one of the places in turn; each place has texts."""
    for number in range(max(len(places), len(texts)) if places and texts else 0):
        yield places[number % len(places)], texts[number % len(texts)]
