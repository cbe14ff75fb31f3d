"""Procedures about partitions (documentation pages `spark/procedures`, `maintenance/manage-partitions`)."""

from interbed.spark_ext.procedures.procedure import (
    DONE,
    TABLE,
    Answer,
    ArgumentType,
    Procedure,
    ProcedureCall,
    column,
    optional,
    required,
)


def _expire_partitions(call: ProcedureCall) -> Answer:
    call.table()
    gone = call.catalog.expire_partitions(
        call.table_name().of_table,
        expiration_time=call.given("expiration_time"),
        timestamp_formatter=call.given("timestamp_formatter"),
        timestamp_pattern=call.given("timestamp_pattern"),
        expire_strategy=call.given("expire_strategy"),
        max_expires=call.given("max_expires"),
        options=call.options(),
    )
    rows = [(", ".join(f"{key}={value}" for key, value in spec.items()),) for spec in gone]
    return rows or (("No expired partitions.",),)


def _mark_partition_done(call: ProcedureCall) -> Answer:
    call.table()
    call.catalog.mark_partitions_done(call.table_name().of_table, call.partitions())
    return DONE


PROCEDURES = (
    Procedure(
        name="mark_partition_done",
        description="Marks partitions as complete, by what the option 'partition.mark-done-action' says.",
        parameters=(TABLE, required("partitions")),
        call=_mark_partition_done,
    ),
    Procedure(
        name="expire_partitions",
        description="Drops the partitions that are too old.",
        parameters=(
            TABLE,
            optional("expiration_time"),
            optional("timestamp_formatter"),
            optional("timestamp_pattern"),
            optional("expire_strategy"),
            optional("max_expires", ArgumentType.INT),
            optional("options"),
        ),
        columns=(column("expired_partitions"),),
        call=_expire_partitions,
    ),
)
