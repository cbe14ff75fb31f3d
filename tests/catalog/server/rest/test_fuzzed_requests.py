"""Requests that no client sends: each has an answer of the specification, without an internal error or a traceback."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.server.rest.fuzzed_targets import BODIES, KINDS, RestTarget, fuzzed_target, set_up
from tests.catalog.server.rest.valid_bodies import ICEBERG
from tests.support import shares
from tests.support.fuzzed_requests import RequestGenerator, without_each_part
from tests.support.tally import Tally

REQUESTS = 40_000 if shares.LONG else 400


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RestTarget]:
    """Return an interface whose changes of files are limited to a directory."""
    with fuzzed_target(request.param, tmp_path) as opened:
        yield opened


@pytest.mark.longer
def test_mutated_requests_cause_no_internal_error(target: RestTarget, tmp_path: Path, tally: Tally) -> None:
    requests = RequestGenerator(1, tmp_path, target.routes, BODIES[target.interface.name])
    for number in range(REQUESTS):
        if number % 20 == 0:
            set_up(target, requests)
        target.take(requests.next())
    done = sum(count for status, count in target.statuses.items() if status < 300)
    assert done > REQUESTS // 10, target.statuses
    for status, number in sorted(target.statuses.items()):
        tally(f"fuzzed requests of {target.interface.name}, answered {status}", number)


@pytest.mark.longer
def test_requests_without_one_of_their_parts_cause_no_internal_error(
    target: RestTarget, tmp_path: Path, tally: Tally
) -> None:
    bodies = BODIES[target.interface.name]
    taken = 0
    for route in target.routes:
        for body in bodies.get(route.operation, ())[: None if shares.LONG else 1]:
            for number, lacking in enumerate(without_each_part(body)):
                if number % (1 if shares.LONG else 8):
                    continue
                requests = RequestGenerator(number, tmp_path, [route], {route.operation: [lacking]})
                set_up(target, RequestGenerator(number, tmp_path, target.routes, bodies))
                target.take(requests.plain(route))
                taken += 1
    assert taken > len(target.routes) // 4
    tally(f"requests of {target.interface.name} without one of their parts", taken)


def _metadata(target: RestTarget, tmp_path: Path) -> Any:
    """Return the metadata of a table with a snapshot and references."""
    by_name = {route.operation: route for route in target.routes}

    def sent(operation: str, body: object) -> None:
        requests = RequestGenerator(1, tmp_path, [by_name[operation]], {operation: [body]})
        path = f"v1/hive/namespaces/d/tables{'/t' if operation == 'updateTable' else ''}"
        assert target.take(replace(requests.plain(by_name[operation]), path=path)) == 200

    sent("createTable", ICEBERG["createTable"][7])
    for number in (8, 9, 10, 16):
        sent("updateTable", ICEBERG["updateTable"][number])
    newest = max(tmp_path.glob("warehouse/d.db/*/metadata/*.metadata.json"))
    return json.loads(newest.read_bytes())


@pytest.mark.longer
@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_mutated_metadata_files_cause_no_internal_error(target: RestTarget, tmp_path: Path, tally: Tally) -> None:
    """A file is registered, loaded, changed and dropped: a client may place any content in a metadata file."""
    document = _metadata(target, tmp_path)
    by_name = {route.operation: route for route in target.routes}
    file = tmp_path / "00000-a.metadata.json"
    body = {"name": "r", "metadata-location": f"file:{file}"}
    bodies = {**ICEBERG, "registerTable": [body]}
    for number in range(REQUESTS // 4):
        made = RequestGenerator(number, tmp_path, target.routes, bodies)
        file = tmp_path / f"{number:05d}-a.metadata.json"
        file.write_bytes(made.mutated_json(document))
        body["metadata-location"] = f"file:{file}"
        path = "v1/hive/namespaces/d/tables/r"
        target.take(replace(made.plain(by_name["registerTable"]), path="v1/hive/namespaces/d/register"))
        target.take(replace(made.plain(by_name["loadTable"]), path=path))
        target.take(replace(made.plain(by_name["updateTable"]), path=path))
        target.take(replace(made.plain(by_name["dropTable"]), path=path))
    tally("mutated metadata files", REQUESTS // 4)
