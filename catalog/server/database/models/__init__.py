"""The tables of the metastore's own database, the same on SQLite and PostgreSQL.

What is searched for or compared is in columns; what is only stored and returned (columns, parameters, storage) is
a JSON document in a text column, written by documents.py, so that reading a table is one row. Changes here need a
migration in alembic/.
"""

from interbed.catalog.server.database.models.metastore import (
    Base,
    CatalogRow,
    ConstraintRow,
    DatabaseRow,
    EventRow,
    FunctionRow,
    LinkedPlaceRow,
    LockRow,
    MoveRow,
    PartitionMarkRow,
    PartitionRow,
    PartitionSetRow,
    PartitionStatisticsRow,
    PartitionStorageRow,
    PropertyRow,
    RuntimeStatisticsRow,
    ScheduledExecutionRow,
    ScheduledQueryRow,
    SequenceRow,
    TableRow,
    TableStatisticsRow,
)
from interbed.catalog.server.database.models.optimizer import (
    OptimizerGroupRow,
    OptimizerLeaseRow,
    OptimizerProcessRow,
    OptimizerRequestRow,
    OptimizerTableRow,
    OptimizerTaskRow,
    OptimizerWorkerRow,
)

__all__ = [
    "Base",
    "CatalogRow",
    "ConstraintRow",
    "DatabaseRow",
    "EventRow",
    "FunctionRow",
    "LinkedPlaceRow",
    "LockRow",
    "MoveRow",
    "OptimizerGroupRow",
    "OptimizerLeaseRow",
    "OptimizerProcessRow",
    "OptimizerRequestRow",
    "OptimizerTableRow",
    "OptimizerTaskRow",
    "OptimizerWorkerRow",
    "PartitionMarkRow",
    "PartitionRow",
    "PartitionSetRow",
    "PartitionStatisticsRow",
    "PartitionStorageRow",
    "PropertyRow",
    "RuntimeStatisticsRow",
    "ScheduledExecutionRow",
    "ScheduledQueryRow",
    "SequenceRow",
    "TableRow",
    "TableStatisticsRow",
]
