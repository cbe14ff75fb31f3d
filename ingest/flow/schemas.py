"""The schemas by which messages were written, which stand in a registry and not in the messages."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """A schema of Avro as JSON, and the schemas that it refers to by name, each after those that it needs itself."""

    text: str
    references: tuple[str, ...] = ()


class WriterSchemas(Protocol):
    """Where schemas are looked up. What is behind a number never changes."""

    def schema(self, number: int) -> WriterSchema:
        """The schema of that number.

        Raises UnknownSchemaError when there is none, SourceUnavailableError when that can't be told now, and
        SchemaRegistryError when it can't be told later either.
        """
        ...
