"""A process that damages files of a table repeatedly, and reads the table in every way after each damage.

    python -m tests.support.damage <location> <seed> <times> <operation,…> <file>…

It prints the outcomes as JSON: for each file and operation, how often it returned the right rows ("right"), how often
it raised an error that names the file ("named"), and all other outcomes with the damage that caused them. Each file is
restored when the process ends. It is a separate process because a library may crash on damaged bytes, or may ask for
more memory than the machine has.
"""

import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interbed.storage.base.errors import CorruptFileError, InterbedError
from interbed.storage.read.file_lookup import CACHE
from interbed.storage.scan.manifest_reader import _CACHE
from interbed.storage.table.opening import open_store
from interbed.storage.table.table import Table
from interbed.storage.views.system.table import SYSTEM_TABLES, SystemTable
from tests.support.waits import at_most

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_SECONDS = at_most(900)
MEMORY_BYTES = 8 << 30
"""Limit of the address space, above the need of every operation. A length read from damaged bytes may ask for more."""
RIGHT, NAMED, OTHER_FILE, WRONG = "right", "named", "another file named", "wrong"

Operation = Callable[[Table], object]


def damages(content: bytes, seed: int, times: int) -> Iterator[tuple[str, bytes]]:
    """Yield damaged contents of a file: mostly single flipped bits; also cut or extended ends, and runs of zeros."""
    chance = random.Random(seed)
    for number in range(times):
        at = chance.randrange(len(content))
        kind = ("bit", "bit", "bit", "bit", "bit", "bit", "cut", "longer", "zeros", "noise")[number % 10]
        size = chance.choice((1, 4, 16, 512))
        damaged = bytearray(content)
        match kind:
            case "bit":
                damaged[at] ^= 1 << chance.randrange(8)
            case "cut":
                del damaged[at:]
            case "longer":
                damaged += chance.randbytes(size)
            case "zeros":
                damaged[at : at + size] = bytes(len(damaged[at : at + size]))
            case _:
                damaged[at : at + size] = chance.randbytes(len(damaged[at : at + size]))
        yield f"{kind} at {at} of {len(content)}", bytes(damaged)


def _stream(table: Table) -> list[Any]:
    first = min(s.id for s in table.snapshots())
    return [change.to_arrow() for change in table.stream(from_snapshot=first, idle_seconds=0)]


def _on_a_copy(work: Callable[[Table], object]) -> Operation:
    def worked(table: Table) -> object:
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory) / "copy"
            shutil.copytree(table.location, place)
            copied = Table(table.name, open_store(str(place)))
            work(copied)
            return copied.to_arrow()

    return worked


def _get(table: Table) -> object:
    keys: Any = [dict.fromkeys(table.primary_keys, number) for number in (0, 7, 150, 100_000)]
    return repr(table.get_many(keys)) if table.primary_keys else None


OPERATIONS: Mapping[str, Operation] = {
    "scan": lambda table: table.to_arrow(),
    "filter": lambda table: table.scan(filter="v = '0-58'").to_arrow(),
    "count": lambda table: table.count(),
    "get": _get,
    "changes": lambda table: table.changes().to_arrow(),
    "diff": lambda table: table.changes(mode="diff").to_arrow(),
    "stream": _stream,
    "audit log": lambda table: table.audit_log().scan().to_arrow(),
    "tags": lambda table: [table.scan(snapshot_id=tag.snapshot.id).to_arrow() for tag in table.versions.tags()],
    "branches": lambda table: [table.branch(name).to_arrow() for name in table.versions.branches()],
    "consumers": lambda table: table.versions.consumers(),
    "expire": lambda table: repr(table.maintenance.expire_snapshots(retain_max=1, retain_min=1, dry_run=True)),
    "orphans": lambda table: repr(table.maintenance.remove_orphan_files(dry_run=True)),
    "compact": _on_a_copy(lambda table: table.compact(full=True)),
    "write": _on_a_copy(lambda table: table.upsert(table.to_arrow().slice(0, 3))),
    **{
        f"${kind}": lambda table, kind=kind: repr(SystemTable.of("t", table.store, kind).scan().to_arrow().to_pylist())  # type: ignore[misc]
        for kind in SYSTEM_TABLES
    },
}


@dataclass(frozen=True, slots=True)
class DamageOutcomes:
    """Outcomes of the operations with their counts, and one example of each operation and outcome."""

    outcomes: Mapping[str, int]
    examples: Mapping[str, str]

    def failures(self, *allowed: str) -> dict[str, str]:
        """Return examples of outcomes that are neither right, nor an error that names the file, nor in `allowed`."""
        fine = {RIGHT, NAMED, *allowed}
        return {key: text for key, text in self.examples.items() if key.split(": ", 1)[1] not in fine}


def damage(
    table: Table, files: Sequence[Path], *, times: int, seed: int = 0, operations: Sequence[str] = ()
) -> DamageOutcomes:
    """Damage each file `times` times in a process that must not crash. Without `operations` all operations run."""
    done = subprocess.run(
        [
            *(sys.executable, "-X", "faulthandler", "-m", "tests.support.damage", table.location, str(seed)),
            *(str(times), ",".join(operations or OPERATIONS), *map(str, files)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    return DamageOutcomes(found["outcomes"], found["examples"])


def _fresh(location: str) -> Table:
    CACHE.clear()
    _CACHE.clear()
    return Table("db.t", open_store(location))


def _outcome(operation: Operation, location: str, expected: object, file: Path) -> tuple[str, str]:
    """Return the outcome of the operation, and its details."""
    try:
        found = operation(_fresh(location))
    except CorruptFileError as error:
        # A copy has another location.
        named = "/".join(file.parts[-2:]) in str(error)
        return (NAMED if named else OTHER_FILE), str(error)
    except InterbedError as error:
        return type(error).__name__, str(error)
    except Exception as error:  # noqa: BLE001 - every error is counted
        return f"{type(error).__name__}!", traceback.format_exc()[-1500:]
    return (RIGHT, "") if found == expected else (WRONG, f"{found!r:.300} instead of {expected!r:.300}")


def main() -> None:
    """Damage files as the arguments say."""
    location, seed, times, chosen, *files = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    operations = {key: OPERATIONS[key] for key in chosen.split(",")}
    expected = {key: operation(_fresh(location)) for key, operation in operations.items()}
    outcomes: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for file in map(Path, files):
        content = file.read_bytes()
        try:
            for what, damaged in damages(content, int(seed), int(times)):
                _replace(file, damaged)
                for key, operation in operations.items():
                    outcome, details = _outcome(operation, location, expected[key], file)
                    outcomes[outcome] += 1
                    examples.setdefault(f"{file.name}, {key}: {outcome}", f"{what}: {details}")
        finally:
            _replace(file, content)
    print(json.dumps({"outcomes": outcomes, "examples": examples}))


def _replace(file: Path, content: bytes) -> None:
    """Replace the file, not its content in place: a process that has mapped the file would see a change in place."""
    file.unlink(missing_ok=True)
    file.write_bytes(content)


if __name__ == "__main__":
    main()
