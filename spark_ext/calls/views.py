"""Calls about views."""

import json
from typing import Any

from interbed.catalog.client.errors import ViewNotFoundError
from interbed.catalog.client.hive.registration import hive_type_name
from interbed.catalog.client.identifier import Identifier
from interbed.catalog.client.views import View, ViewColumn
from interbed.spark_ext.calls.base import Calls, identifier_of
from interbed.spark_ext.values.spark_types import type_from_spark
from interbed.storage.base.errors import InvalidInputError, NotSupportedError
from interbed.thrift_idl.planner import ttypes


class ViewCalls(Calls):
    """What the rule that resolves views, and the statements about them, ask."""

    def listViews(self, catalog: Any, database: str) -> list[str]:  # noqa: N802
        return self._catalog(catalog).list_views(database)

    def loadView(self, view: Any) -> ttypes.ViewInfo:  # noqa: N802
        try:
            found = self._catalog(view.catalog).get_view(identifier_of(view))
        except (InvalidInputError, NotSupportedError) as error:
            # Any name that somebody writes is looked up, also such as can be no view's.
            raise ViewNotFoundError(str(error)) from error
        return ttypes.ViewInfo(
            query=found.query,
            columns=[ttypes.ViewColumn(name=c.name, type=c.type, comment=c.comment) for c in found.columns],
            comment=found.comment,
            properties=dict(found.options),
        )

    def createView(self, view: Any, info: Any, replace: bool, if_not_exists: bool) -> None:  # noqa: N802
        columns = tuple(
            ViewColumn(c.name, hive_type_name(type_from_spark(json.loads(c.type), column=c.name)), c.comment)
            if c.type.startswith(("{", '"'))
            else ViewColumn(c.name, c.type, c.comment)
            for c in info.columns
        )
        self._catalog(view.catalog).create_view(
            identifier_of(view),
            View(query=info.query, columns=columns, comment=info.comment, options=info.properties),
            if_not_exists,
            replace=replace,
        )

    def dropView(self, view: Any) -> bool:  # noqa: N802
        try:
            self._catalog(view.catalog).drop_view(identifier_of(view))
        except ViewNotFoundError:
            return False
        return True

    def renameView(self, view: Any, to_database: str, to_view: str) -> None:  # noqa: N802
        self._catalog(view.catalog).rename_view(identifier_of(view), Identifier(to_database, to_view))
