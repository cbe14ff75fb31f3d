"""All procedures by name; a module of procedures has a list PROCEDURES."""

from collections.abc import Iterator, Mapping

from interbed.spark_ext.procedures import (
    compaction,
    files,
    functions,
    ingestion,
    metadata,
    snapshots,
    statements,
)
from interbed.spark_ext.procedures.procedure import Procedure
from interbed.storage.base.errors import InvalidInputError, NotSupportedError

_MODULES = (snapshots, files, metadata, functions, compaction, ingestion)

PROCEDURES: Mapping[str, Procedure] = {p.name: p for module in _MODULES for p in module.PROCEDURES}

_STATEMENTS: Mapping[str, Procedure] = {
    p.name: p for module in (snapshots, statements, functions) for p in module.STATEMENTS
}


def procedure_named(name: str) -> Procedure:
    """Return the procedure of a case-insensitive name. Raises InvalidInputError."""
    found = PROCEDURES.get(name.lower()) or _STATEMENTS.get(name)
    if found is None:
        raise InvalidInputError(f"There is no procedure sys.{name}; there are {', '.join(sorted(PROCEDURES))}.")
    return found


def run_task(name: str, shared: bytes, payload: bytes) -> bytes:
    """Carry out one task of a procedure's job, on an executor."""
    procedure = procedure_named(name)
    if procedure.run_task is None:
        raise NotSupportedError(f"The procedure {name} has no tasks for executors.")
    return procedure.run_task(shared, payload)


def take_blocks(name: str, shared: bytes, payload: bytes, blocks: Iterator[tuple[str, bytes]]) -> bytes:
    """Carry out one task of a procedure's job that takes named blocks, on an executor."""
    procedure = procedure_named(name)
    if procedure.take_blocks is None:
        raise NotSupportedError(f"The procedure {name} has no tasks that take blocks.")
    return procedure.take_blocks(shared, payload, blocks)
