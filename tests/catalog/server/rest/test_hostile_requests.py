"""Hostile names and locations in each part of the requests of every route of REST: nothing foreign is changed.

Routes are those that are served. A route that takes a body and has no valid one in `valid_bodies.py` fails.
"""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.catalog.server.rest.fuzzed_targets import BODIES, KINDS, RestTarget, fuzzed_target, set_up
from tests.support.fuzzed_requests import FuzzedRoute, RequestGenerator
from tests.support.hostile_locations import ProtectedTree, hostile_locations
from tests.support.hostile_names import TABLES
from tests.support.shares import LONG
from tests.support.tally import Tally

pytestmark = [pytest.mark.attack("paths and links"), pytest.mark.longer]

NAMES_A_ROUTE = len(TABLES) if LONG else 6
LOCATIONS_A_ROUTE = 300 if LONG else 6

WITHOUT_BODY = frozenset({"forwardBranch", "unregisterTable"})
"""Operations of POST and PUT that take none."""

Put = Callable[[Any, str], None]


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RestTarget]:
    """Return an interface whose changes of files are limited to a directory."""
    with fuzzed_target(request.param, tmp_path) as opened:
        yield opened


@pytest.fixture
def tree(tmp_path: Path) -> ProtectedTree:
    """Create foreign files beside the warehouse."""
    made = ProtectedTree(root=tmp_path / "outer")
    made.make()
    return made


def texts_of(value: Any, name: str = "") -> Iterator[tuple[str, Put]]:
    """Yield the name of each text within JSON, and the function that replaces it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        called = key if isinstance(key, str) else name
        if isinstance(inner, str):
            yield called, lambda root, text, key=key: root.__setitem__(key, text)  # type: ignore[misc]
        else:
            for further, put in texts_of(inner, called):
                yield further, lambda root, text, key=key, put=put: put(root[key], text)  # type: ignore[misc]


def is_location(name: str) -> bool:
    """Return whether a member of JSON holds the location of files."""
    return any(each in name.lower() for each in ("location", "path", "manifest-list", "uri"))


def _paths(route: FuzzedRoute, plain: str, name: str) -> list[str]:
    """Return the path of a request with a name in each of the variable parts of its route."""
    parts, given = route.template.strip("/").split("/"), plain.strip("/").split("/")
    if len(parts) != len(given):
        return []
    variable = [number for number, part in enumerate(parts) if part.startswith("{") and part != "{prefix}"]
    shown = quote(name.encode(errors="surrogatepass"), safe="")
    return ["/".join([*given[:number], shown, *given[number + 1 :]]) for number in variable]


def _foreign(tmp_path: Path) -> dict[str, str]:
    """Return all entries outside of the warehouse and of the directory of the other catalog."""
    made = tuple(f"{tmp_path}/{each}" for each in ("warehouse", "directory", "metastore.db"))
    entries = ProtectedTree(root=tmp_path).entries()
    return {path: held for path, held in entries.items() if not path.startswith(made)}


def test_every_route_with_a_body_has_a_valid_one(target: RestTarget) -> None:
    bodies = BODIES[target.interface.name]
    lacking = {each.operation for each in target.routes if each.method in ("POST", "PUT")} - set(bodies)
    assert lacking <= WITHOUT_BODY, lacking - WITHOUT_BODY


def test_hostile_names_and_locations_in_every_part_of_every_route(
    target: RestTarget, tree: ProtectedTree, tmp_path: Path, tally: Tally
) -> None:
    bodies = BODIES[target.interface.name]
    locations = hostile_locations(tree, ())
    assert len(locations) >= 300
    everything = RequestGenerator(1, tmp_path, target.routes, bodies)
    before = _foreign(tmp_path)
    sent = of_locations = 0
    shifts = count()
    for route in target.routes:
        valid = [copy.deepcopy(each) for each in bodies.get(route.operation, ())]
        places = [(body, name, put) for body in valid for name, put in texts_of(body)]
        named = [each for each in places if not is_location(each[1])]
        located = [each for each in places if is_location(each[1])]
        set_up(target, everything)
        shift = next(shifts) * 13
        for number in range(NAMES_A_ROUTE):
            name = TABLES[(shift + number * 37) % len(TABLES)]
            plain = RequestGenerator(number, tmp_path, [route], bodies).plain(route)
            for path in _paths(route, plain.path, name):
                target.take(replace(plain, path=path))
                sent += 1
            if named:
                body, _, put = named[number % len(named)]
                sent += _taken(target, plain, body, put, name, tmp_path)
            if number % 20 == 0:
                set_up(target, everything)
        for number in range(LOCATIONS_A_ROUTE if located else 0):
            plain = RequestGenerator(number, tmp_path, [route], bodies).plain(route)
            body, _, put = located[number % len(located)]
            set_up(target, everything)
            of_locations += _taken(
                target, plain, body, put, locations[(shift + number * 41) % len(locations)], tmp_path
            )
            if number % 5 == 0:
                _drop_all(target, everything)
        after = _foreign(tmp_path)
        missing = {path: held for path, held in before.items() if after.get(path) != held}
        assert not missing, (route.operation, missing)
        if not located:
            assert after == before, route.operation
        before = after
    tally(f"hostile names sent to routes of {target.interface.name}", sent)
    tally(f"hostile locations sent to routes of {target.interface.name}", of_locations)


def _taken(target: RestTarget, plain: Any, body: Any, put: Put, text: str, root: Path) -> int:
    """Send a body with one text replaced; return the number of requests."""
    changed = copy.deepcopy(body)
    put(changed, text)
    encoded = json.dumps(changed).replace("{root}", str(root)).encode()
    target.take(replace(plain, body=encoded))
    return 1


def _drop_all(target: RestTarget, requests: RequestGenerator) -> None:
    """Drop what the requests have made, with its data."""
    for database in target.metastore.databases.names("hive"):
        if database != "default":
            target.metastore.databases.drop("hive", database, delete_data=True, cascade=True)
    set_up(target, requests)
