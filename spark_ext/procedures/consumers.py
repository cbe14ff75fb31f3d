"""Procedures about consumers of streams (documentation page `spark/procedures`)."""

import re

from interbed.spark_ext.procedures.procedure import (
    DONE,
    TABLE,
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    optional,
    required,
)


def _reset_consumer(call: ProcedureCall) -> Answer:
    table = call.table()
    number = call.given("nextSnapshotId")
    if number is not None:
        # It has to be there: a consumer can't go on from a snapshot that is gone.
        table.store.snapshots.read(number)
    table.reset_consumer(call.needed("consumerId"), number)
    return DONE


def _clear_consumers(call: ProcedureCall) -> Answer:
    table = call.table()
    patterns = {name: call.given(name) for name in ("includingConsumers", "excludingConsumers")}
    for name, pattern in patterns.items():
        try:
            re.compile(pattern or "")
        except re.error as error:
            raise call.error(name, f"is no regular expression: {error}") from error
    table.clear_consumers(patterns["includingConsumers"] or ".*", patterns["excludingConsumers"])
    return DONE


PROCEDURES = (
    Procedure(
        name="reset_consumer",
        description="Lets a consumer go on from a snapshot, or forgets it without one.",
        parameters=(TABLE, required("consumerId"), optional("nextSnapshotId", ArgumentType.LONG)),
        call=_reset_consumer,
    ),
    Procedure(
        name="clear_consumers",
        description="Forgets the consumers whose ids match a regular expression.",
        parameters=(TABLE, optional("includingConsumers"), optional("excludingConsumers")),
        call=_clear_consumers,
    ),
)
