"""Calls about statistics."""

from typing import Any

from interbed.spark_ext.calls.base import Calls, identifier_of


class StatisticsCalls(Calls):
    """What ANALYZE TABLE asks."""

    def analyzeTable(self, table: Any, columns: list[str], all_columns: bool) -> None:  # noqa: N802
        loaded = self._catalog(table.catalog).get_table(identifier_of(table))
        names = {name.lower(): name for name in loaded.field_names}
        # Spark's names of columns are any case's; a name that is none's is left for the error.
        loaded.analyze(None if all_columns else [names.get(c.lower(), c) for c in columns])
