"""The tables of the metastore's own database, the same on SQLite and PostgreSQL.

What is searched for or compared stands in columns; what is only stored and returned (columns, parameters, storage) is
a JSON document in a text column, written by documents.py, so that reading a table is one row. Changes here need a
migration in alembic/.
"""

from interbed.catalog.server.database.models.base import Base
from interbed.catalog.server.database.models.constraints import ConstraintRow
from interbed.catalog.server.database.models.events import EventRow, MoveRow, PropertyRow
from interbed.catalog.server.database.models.locks import LockRow, SequenceRow
from interbed.catalog.server.database.models.objects import (
    CatalogRow,
    DatabaseRow,
    FunctionRow,
    LinkedPlaceRow,
    TableRow,
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
from interbed.catalog.server.database.models.partitions import (
    PartitionMarkRow,
    PartitionRow,
    PartitionSetRow,
    PartitionStorageRow,
)
from interbed.catalog.server.database.models.queries import (
    RuntimeStatisticsRow,
    ScheduledExecutionRow,
    ScheduledQueryRow,
)
from interbed.catalog.server.database.models.statistics import PartitionStatisticsRow, TableStatisticsRow

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
