"""Functions of a catalog: parameters, and a definition for each language or engine, by its name.

A definition is a text of SQL, a lambda, or a class in files. In JSON a function is `{"name", "inputParams",
"returnParams", "deterministic", "definitions", "comment", "options"}`; parameters have the form of fields of a schema.
A change has an `action` and members by its kind. Source: paimon-api's org.apache.paimon.function and
org.apache.paimon.rest, version 1.4.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from interbed.catalog.client.errors import FunctionNotFoundError
from interbed.catalog.client.identifier import check_database_name
from interbed.storage.base.errors import (
    CorruptFileError,
    InterbedError,
    InvalidInputError,
    NotSupportedError,
    plain_errors,
)
from interbed.storage.base.types.data_type import DataField, field_from_json, field_to_json

Json = dict[str, Any]


ANY_SQL = "sql"
"""Name of the definition in SQL that engines take which have none of their own name."""

_NAME = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True)
class FunctionName:
    """The name of a function: that of its database, and its own, which may have dots."""

    database: str
    function: str

    def __str__(self) -> str:
        return f"{self.database}.{self.function}"

    @staticmethod
    def of(identifier: "str | FunctionName") -> "FunctionName":
        """Return the name of a text; the database ends at the first dot. Raises InvalidInputError."""
        database, dot, function = str(identifier).partition(".")
        if not dot or not _NAME.fullmatch(function):
            raise InvalidInputError(
                f"Not the name of a function: {str(identifier)!r}. Write DATABASE.FUNCTION; a function's name has "
                "letters, digits, dots, hyphens and underscores, with a letter among them."
            )
        return FunctionName(check_database_name(database), function)


class DefinitionKind(StrEnum):
    """Kind of the definition of a function, by its name in JSON."""

    SQL = "sql"
    LAMBDA = "lambda"
    FILE = "file"


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDefinition:
    """Definition of a function for one language or engine.

    `definition` is the text of SQL and of a lambda. `file_resources` are pairs of a type, such as JAR, and a URI.
    """

    kind: DefinitionKind
    definition: str | None = None
    language: str | None = None
    file_resources: tuple[tuple[str, str], ...] = ()
    class_name: str | None = None
    function_name: str | None = None

    @staticmethod
    def of_sql(definition: str) -> "FunctionDefinition":
        """Return the definition by an expression of SQL over the parameters."""
        return FunctionDefinition(kind=DefinitionKind.SQL, definition=definition)

    def to_json(self) -> Json:
        """Return the definition as in a request."""
        match self.kind:
            case DefinitionKind.SQL:
                members: Json = {"definition": self.definition}
            case DefinitionKind.LAMBDA:
                members = {"definition": self.definition, "language": self.language}
            case DefinitionKind.FILE:
                resources = [{"resourceType": kind, "uri": uri} for kind, uri in self.file_resources]
                members = {
                    "fileResources": resources,
                    "language": self.language,
                    "className": self.class_name,
                    "functionName": self.function_name,
                }
        return {"type": str(self.kind), **members}

    @staticmethod
    def from_json(value: Json) -> "FunctionDefinition":
        """Return the definition of a response; raises KeyError, TypeError and ValueError for another value."""
        resources = value.get("fileResources") or ()
        return FunctionDefinition(
            kind=DefinitionKind(value["type"]),
            definition=value.get("definition"),
            language=value.get("language"),
            file_resources=tuple((each["resourceType"], each["uri"]) for each in resources),
            class_name=value.get("className"),
            function_name=value.get("functionName"),
        )


@plain_errors
@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogFunction:
    """Function of a catalog: its parameters, its result, and its definitions by their names, such as `spark`."""

    definitions: Mapping[str, FunctionDefinition]
    input_params: tuple[DataField, ...] | None = None
    return_params: tuple[DataField, ...] | None = None
    deterministic: bool = True
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def signature(self, name: object) -> str:
        """Return the function of that name with its parameters and its result: `shop.area(x DOUBLE) -> DOUBLE`."""
        params = ", ".join(f"{each.name} {each.type}" for each in self.input_params or ())
        returned = ", ".join(str(each.type) for each in self.return_params or ())
        return f"{name}({params})" + (f" -> {returned}" if returned else "")

    def sql_for(self, engine: str) -> str | None:
        """Return the definition in SQL under the name of the engine, or under the name `sql`; None without one."""
        for name in (engine, ANY_SQL):
            definition = self.definitions.get(name)
            if definition is not None and definition.kind is DefinitionKind.SQL and definition.definition:
                return definition.definition
        return None

    def no_sql_for(self, engine: str, name: object) -> str:
        """Return the reason why an engine does not run the function of that name, which has no SQL for it."""
        kinds = ", ".join(f"'{each}' ({definition.kind})" for each, definition in self.definitions.items())
        return (
            f"The function '{name}' has no definition in SQL named '{engine}' or '{ANY_SQL}', only {kinds or 'none'}; "
            f"definitions in SQL alone are run. Add one: interbed catalog functions alter {name} --sql {engine}=…"
        )

    def to_json(self, name: str) -> Json:
        """Return the function of that name as in a request."""
        return {
            "name": name,
            "inputParams": _fields_to_json(self.input_params),
            "returnParams": _fields_to_json(self.return_params),
            "deterministic": self.deterministic,
            "definitions": {key: each.to_json() for key, each in self.definitions.items()},
            "comment": self.comment,
            "options": dict(self.options),
        }

    @staticmethod
    def from_json(value: Json, *, source: str) -> "CatalogFunction":
        """Return the function of a response; raises CorruptFileError naming `source`."""
        try:
            definitions = value.get("definitions") or {}
            return CatalogFunction(
                definitions={str(key): FunctionDefinition.from_json(each) for key, each in definitions.items()},
                input_params=_fields_from_json(value.get("inputParams")),
                return_params=_fields_from_json(value.get("returnParams")),
                deterministic=bool(value.get("deterministic", True)),
                comment=value.get("comment"),
                options={str(k): str(v) for k, v in (value.get("options") or {}).items() if v is not None},
            )
        except (KeyError, TypeError, ValueError, AttributeError, InterbedError) as error:
            raise CorruptFileError(f"{source} has no valid function: {error!r}") from error


def _fields_to_json(fields: Sequence[DataField] | None) -> list[Json] | None:
    return None if fields is None else [field_to_json(each) for each in fields]


def _fields_from_json(fields: Sequence[Json] | None) -> tuple[DataField, ...] | None:
    return None if fields is None else tuple(field_from_json(each) for each in fields)


@plain_errors
@dataclass(frozen=True, slots=True)
class FunctionChange:
    """One change of a function, made by the methods below; `catalog.alter_function` takes one or a list of them."""

    action: str
    members: Mapping[str, object]

    @staticmethod
    def set_option(key: str, value: str) -> "FunctionChange":
        """Set an option of the function."""
        return FunctionChange("setOption", {"key": key, "value": value})

    @staticmethod
    def remove_option(key: str) -> "FunctionChange":
        """Remove an option of the function."""
        return FunctionChange("removeOption", {"key": key})

    @staticmethod
    def update_comment(comment: str | None) -> "FunctionChange":
        """Set the comment of the function; None removes it."""
        return FunctionChange("updateComment", {"comment": comment})

    @staticmethod
    def add_definition(name: str, definition: FunctionDefinition) -> "FunctionChange":
        """Add a definition of a new name."""
        return FunctionChange("addDefinition", {"name": name, "definition": definition.to_json()})

    @staticmethod
    def update_definition(name: str, definition: FunctionDefinition) -> "FunctionChange":
        """Replace the definition of a name."""
        return FunctionChange("updateDefinition", {"name": name, "definition": definition.to_json()})

    @staticmethod
    def drop_definition(name: str) -> "FunctionChange":
        """Remove the definition of a name."""
        return FunctionChange("dropDefinition", {"name": name})

    def to_json(self) -> Json:
        """Return the change as in a request."""
        return {"action": self.action, **self.members}


class CatalogFunctions(ABC):
    """The part of a catalog that has functions; this base class has none, as Paimon's file-system catalog."""

    name: str
    functions_refusal: str | None = None
    """The reason why this client neither reads nor changes functions of the catalog."""

    @property
    @abstractmethod
    def described(self) -> str:
        """The name of the catalog in messages."""
        ...

    @abstractmethod
    def get_database(self, name: str) -> object: ...

    def list_functions(self, database: str) -> list[str]:
        """Return the names of the functions of the database, sorted; raises DatabaseNotFoundError.

        This and the other methods raise NotSupportedError in a Hive catalog.
        """
        self._check_functions()
        self.get_database(database)
        return []

    def get_function(self, identifier: "str | FunctionName") -> CatalogFunction:
        """Return the function of that name; raises FunctionNotFoundError."""
        self._check_functions()
        raise self._no_function(FunctionName.of(identifier))

    def create_function(
        self, identifier: "str | FunctionName", function: CatalogFunction, ignore_if_exists: bool = False
    ) -> None:
        """Create a function of that name.

        Raises FunctionExistsError, DatabaseNotFoundError, and NotSupportedError in a catalog without functions.
        """
        self._check_functions()
        raise NotSupportedError("A file-system catalog has no functions; use one with 'metastore' = 'rest'.")

    def alter_function(
        self,
        identifier: "str | FunctionName",
        changes: Sequence[FunctionChange] | FunctionChange,
        ignore_if_not_exists: bool = False,
    ) -> None:
        """Apply changes of a function, all or none.

        Raises FunctionNotFoundError, and InvalidInputError for a definition that is missing or exists.
        """
        self._check_functions()
        name = FunctionName.of(identifier)
        if not ignore_if_not_exists:
            self.get_function(name)

    def drop_function(self, identifier: "str | FunctionName", ignore_if_not_exists: bool = False) -> None:
        """Drop a function; raises FunctionNotFoundError."""
        self._check_functions()
        name = FunctionName.of(identifier)
        if not ignore_if_not_exists:
            self.get_function(name)

    def _no_function(self, identifier: FunctionName) -> FunctionNotFoundError:
        return FunctionNotFoundError(f"There is no function '{identifier}' in {self.described}.")

    def _check_functions(self) -> None:
        if self.functions_refusal is not None:
            raise NotSupportedError(self.functions_refusal)
