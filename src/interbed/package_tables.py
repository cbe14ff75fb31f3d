"""The system tables of catalogs that houses above the catalog have; see docs/decisions/0062.

The catalog shows them and knows nothing of these houses. This module stands above all of them, as the command line
does, and imports none.
"""

from collections.abc import Mapping

PACKAGE_TABLES: Mapping[str, str] = {
    "optimizing_processes": "interbed.optimizer.views.processes_table:OPTIMIZING_PROCESSES",
}
"""By name, where the kind of the table is, which is imported when somebody looks."""
