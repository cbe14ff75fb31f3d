"""Outcomes of REST requests by the callers of a guarded metastore, as letters (matrix.py)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interbed.catalog.server.rest.interface import ObjectKind, RestRoute
from tests.catalog.server.access.guarded import CALLERS, NOBODY, READER, WRITER
from tests.catalog.server.access.matrix import OF_OTHERS, restore
from tests.catalog.server.access.rest_interfaces import (
    CLOUD,
    REGION,
    STORE,
    GuardedRest,
    guarded_rest,
    renamed,
)
from tests.catalog.server.rest.valid_bodies import ICEBERG, OWN, PAIMON

BODIES = {"iceberg": ICEBERG, "paimon": PAIMON, "interbed": OWN}

_OF_KINDS = {
    ObjectKind.SERVER: ("nothing", "nothing"),
    ObjectKind.CATALOG: ("hive", "none"),
    ObjectKind.DATABASE: ("sales", "nixes"),
    ObjectKind.FUNCTION: ("sums", "none"),
}
_OF_INTERFACES = {
    "iceberg": {ObjectKind.TABLE: ("ice", "nix"), ObjectKind.VIEW: ("seen", "none")},
    "paimon": {ObjectKind.TABLE: ("lake", "none"), ObjectKind.VIEW: ("glance", "absent")},
    "interbed": {ObjectKind.TABLE: ("orders", "absent")},
}
_READS = ("GET", "HEAD")


def request_on_file(method: str, table: str) -> dict[str, Any]:
    """Return the body of signRequest for a request on a file of a table in the store."""
    uri = f"{STORE}/{CLOUD.replace('cloud', table)}/data/1.parquet"
    return {"method": method, "region": REGION, "uri": uri, "headers": {}}


@dataclass
class RestMatrix:
    """Requests to routes, each on a metastore as it was."""

    pristine: Path
    root: Path

    def letter(self, interface: str, operation: str, name: str) -> str:
        """Return the outcome of an operation for one caller."""
        restore(self.pristine, self.root)
        with guarded_rest(self.root, filled=False) as rest:
            (route,) = [each for each in rest.interfaces[interface].routes if each.operation == operation]
            return self._letter(rest, interface, route, name)

    def letters(self, interface: str, operation: str) -> str:
        """Return the outcomes of an operation for all callers, from that with the fewest privileges on."""
        found, left = "", list(CALLERS)
        while left:
            restore(self.pristine, self.root)
            with guarded_rest(self.root, filled=False) as rest:
                (route,) = [each for each in rest.interfaces[interface].routes if each.operation == operation]
                while left:
                    letter = self._letter(rest, interface, route, left.pop(0))
                    found += letter
                    if letter == "a" and route.method not in _READS:
                        break
        return found

    def _letter(self, rest: GuardedRest, interface: str, route: RestRoute, name: str) -> str:
        kind = ObjectKind.TABLE if "rename" in route.operation else route.needs.kind
        present, absent = _OF_KINDS.get(kind) or _OF_INTERFACES[interface][kind]
        if route.operation == "renameView":
            present, absent = _OF_INTERFACES[interface][ObjectKind.VIEW]
        if route.operation == "signRequest":
            present, absent = "cloud", "other"
        first, second = (self._send(rest, interface, route, kind, each, name) for each in (present, absent))
        words = [word.decode() for word in OF_OTHERS] if name != CALLERS[-1] else []
        words += ["secret", "hidden"] if name in (NOBODY, READER, WRITER) else []
        for answer in (first, second):
            shown = [word for word in words if word in json.dumps(answer)]
            assert not shown, f"{route.operation} shows {shown} to {name}: {answer}"
        assert first[0] < 500 or first[0] in (501, 503), first
        same = json.dumps(first).replace(present, absent) == json.dumps(second)
        # To a caller without privileges all objects are missing, or denied as if they were.
        assert same or name != NOBODY, (first, second)
        if first[0] == 403:
            return "d"
        return "m" if same else "a"

    def _send(
        self, rest: GuardedRest, interface: str, route: RestRoute, kind: ObjectKind, target: str, name: str
    ) -> tuple[int, Any]:
        names = {"prefix": "hive", "namespace": "sales", "database": "sales", "table": "fresh", "view": "fresh"}
        of_kind = {
            ObjectKind.CATALOG: ("prefix",),
            ObjectKind.DATABASE: ("namespace", "database"),
            ObjectKind.TABLE: ("table",),
            ObjectKind.VIEW: ("view",),
            ObjectKind.FUNCTION: ("function",),
        }.get(kind, ())
        names |= dict.fromkeys(of_kind, target)
        path = "/".join(
            names.get(part[1:-1], "1") if part.startswith("{") else part for part in route.template.split("/")
        )
        body = (BODIES[interface].get(route.operation) or [None])[0]
        if route.operation == "signRequest":
            return rest.send(name, interface, route.method, path, request_on_file("GET", target))
        if body is not None:
            moved = target if kind is ObjectKind.TABLE else "fresh"
            database = names["database"] if kind is ObjectKind.DATABASE else "sales"
            body = renamed(body, d=database, t=moved, v=moved, f="fresh", p="other", x="other")
            body = json.loads(json.dumps(body).replace("{root}", str(self.root)).replace("d.db/t", "sales.db/ice"))
        return rest.send(name, interface, route.method, path, body, query={"at": "4000000000"})
