"""System tables of catalogs that packages above the catalog define; see docs/decisions/0062.

The catalog shows them and knows nothing of these packages. This module is above all of them, as the command line is,
and imports none.
"""

from collections.abc import Mapping

PACKAGE_TABLES: Mapping[str, str] = {
    "optimizing_processes": "interbed.optimizer.views.status:OPTIMIZING_PROCESSES",
}
"""By name, where the kind of the table is, which is imported when a reader asks for the table."""
