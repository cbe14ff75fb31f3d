"""The pages of operators: dropped objects, which are put back here, and locks with the chains of those that wait.

They show what REST, `interbed metastore dropped` and `interbed locks` show, and ask for the same privileges.
"""

import time
from collections.abc import Sequence

from interbed.catalog.server.console.catalog_pages import CATALOG, DATABASE, TABLE, crumbs_of, number_given
from interbed.catalog.server.console.forms import form_fields
from interbed.catalog.server.console.rendering import PageTemplates, address, seen_after
from interbed.catalog.server.rest.interface import (
    ObjectKind,
    RestRequest,
    RestResponse,
    RestRoute,
    route,
)
from interbed.catalog.server.service.access.objects import Privilege
from interbed.catalog.server.service.errors import NoSuchObjectError
from interbed.catalog.server.service.lock_model import LockState
from interbed.catalog.server.service.lock_views import LockView, blockers_of, chain_of, waiters_of
from interbed.catalog.server.service.model import DroppedKind, DroppedObject, DroppedState
from interbed.catalog.server.service.names import normalized
from interbed.catalog.server.service.service import Metastore

ROWS_MAX = 500
"""Dropped objects, and locks, of a page."""

_NO_ENTRY = "The id of the entry is no number."


class OperationPages:
    """The pages of the dropped objects and the locks of a metastore."""

    def __init__(self, metastore: Metastore, templates: PageTemplates) -> None:
        self._metastore = metastore
        self._templates = templates

    def routes(self) -> Sequence[RestRoute]:
        """Return the routes with the privilege that each needs: those of the same operations of REST."""
        usage, create, catalog = Privilege.USAGE, Privilege.CREATE, ObjectKind.CATALOG
        return [
            route("GET", f"{CATALOG}/dropped", "dropped", usage, catalog, self.dropped),
            route("POST", f"{DATABASE}/undrop", "undropDatabase", create, catalog, self.undrop),
            route("POST", f"{TABLE}/undrop", "undropTable", create, ObjectKind.DATABASE, self.undrop),
            route("GET", "locks", "locks", usage, ObjectKind.SERVER, self.locks),
            route("GET", "locks/{lock}", "lock", usage, ObjectKind.SERVER, self.lock),
        ]

    def dropped(self, request: RestRequest) -> RestResponse:
        """Show the dropped objects of a catalog that the caller has dropped, or may drop."""
        name = self._metastore.catalogs.get(request.parts["prefix"]).name
        found = self._metastore.dropped.select(name)
        return self._templates.page(
            request,
            "dropped.html",
            "Dropped objects",
            [*crumbs_of(name)[:-1], (name, address("catalogs", name)), ("Dropped objects", None)],
            entries=[(each, _undrop_address(each), _is_undroppable(each)) for each in found[:ROWS_MAX]],
            further=max(0, len(found) - ROWS_MAX),
            database_kind=DroppedKind.DATABASE,
        )

    def undrop(self, request: RestRequest) -> RestResponse:
        """Put an object back, a table perhaps under another name, and show it."""
        parts, fields = request.parts, form_fields(request.body)
        name = self._metastore.catalogs.get(parts["prefix"]).name
        entry = self._metastore.dropped.find(
            name, parts["database"], parts.get("table"), number_given(fields.get("id", ""), _NO_ENTRY)
        )
        value = self._metastore.dropped.undrop(entry, new_name=fields.get("as", "").strip() or None)
        place = ["catalogs", name, "databases", normalized(entry.database)]
        if entry.kind != DroppedKind.DATABASE:
            place += ["tables", value.name]
        return seen_after(address(*place))

    def locks(self, request: RestRequest) -> RestResponse:
        """Show the locks of objects that the caller sees, the oldest first."""
        found, now = self._metastore.locks.views(), time.time()
        return self._templates.page(
            request,
            "locks.html",
            "Locks",
            [("Catalogs", address()), ("Locks", None)],
            locks=[_shown(each, now) for each in found[:ROWS_MAX]],
            further=max(0, len(found) - ROWS_MAX),
        )

    def lock(self, request: RestRequest) -> RestResponse:
        """Show why a lock waits: the chain to the lock that is held, and the locks around it."""
        number = number_given(request.parts["lock"], "The id of the lock is no number.")
        found, now = self._metastore.locks.views(), time.time()
        lock = next((each for each in found if each.id == number), None)
        if lock is None:
            raise NoSuchObjectError(f"There is no lock {number}: it was released, or its lease has run out.")
        chain = chain_of(lock, found)
        others = [each.id for each in blockers_of(lock, found) if each not in chain]
        return self._templates.page(
            request,
            "lock.html",
            f"Lock {lock.id}",
            [("Catalogs", address()), ("Locks", address("locks")), (str(lock.id), None)],
            waits=lock.state == LockState.WAITING,
            chain=[_shown(each, now) for each in chain],
            others=others,
            after=[each.id for each in waiters_of(lock, found)],
        )


def _shown(lock: LockView, now: float) -> dict[str, object]:
    """Return what a page has of a lock."""
    gone = lock.orphaned_seconds(now)
    return {
        "id": lock.id,
        "state": lock.state.name.lower(),
        "objects": [component.text for component in lock.components],
        "user": lock.user,
        "host": lock.host,
        "agent": lock.agent,
        "age": duration(lock.age_seconds(now)),
        "left": duration(lock.dropped_in_seconds(now)),
        "client": "" if gone is None else f"gone for {duration(gone)}",
        "waits_for": lock.waits_for,
    }


def duration(seconds: float | None) -> str:
    """Return a time of locks for people, whole seconds; empty where it is unknown."""
    if seconds is None:
        return ""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _undrop_address(entry: DroppedObject) -> str:
    place = ["catalogs", entry.catalog, "databases", entry.database]
    if entry.name is not None:
        place += ["tables", entry.name]
    return address(*place, "undrop")


def _is_undroppable(entry: DroppedObject) -> bool:
    """Return whether an entry is put back by itself: a table that was dropped with its database comes with that."""
    return entry.state == DroppedState.DROPPED and entry.parent_id is None
