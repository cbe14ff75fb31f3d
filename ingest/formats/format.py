"""The protocol of decoders, and which format has which."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from interbed.ingest.flow.changes import Decoded
from interbed.ingest.flow.messages import Messages, TransactionReader
from interbed.ingest.formats.avro.schema import WriterSchemas
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError


class Decoder(Protocol):
    """Understands the messages of one format; keeps what it learns of their shape between calls.

    Not for use by several threads.
    """

    def decode(self, messages: Messages) -> Decoded:
        """What the messages say; a message that can't be understood is bad, and no error."""
        ...


_PLACES: Mapping[str, str] = {
    "canal-json": "interbed.ingest.formats.canal_json:CanalJson",
    "debezium-avro": "interbed.ingest.formats.debezium_avro:DebeziumAvro",
    "debezium-json": "interbed.ingest.formats.debezium_json:DebeziumJson",
    "json": "interbed.ingest.formats.plain_json:PlainJson",
    "maxwell-json": "interbed.ingest.formats.maxwell_json:MaxwellJson",
}
FORMATS = tuple(_PLACES)
_TRANSACTIONS: Mapping[str, str] = {
    "debezium-avro": "interbed.ingest.formats.debezium_transactions:DebeziumAvroTransactions",
    "debezium-json": "interbed.ingest.formats.debezium_transactions:DebeziumJsonTransactions",
}
WITH_SCHEMAS = ("debezium-avro",)
"""The formats whose schemas are looked up."""


WITH_PLACEHOLDER = ("debezium-avro", "debezium-json")
"""The formats with a placeholder for values that the database did not send."""


def decoder_of(name: str, schemas: WriterSchemas | None = None, unavailable: str | None = None) -> Decoder:
    """A new decoder of the format of that name, which looks up `schemas` if it is one of WITH_SCHEMAS.

    `unavailable` is Debezium's placeholder where it is not the usual one, a text or `hex:` and its bytes. Raises
    NotSupportedError, naming those that there are, and InvalidOptionError when schemas are missing, and for a
    placeholder that is none or that the format does not have.
    """
    if name not in _PLACES:
        raise NotSupportedError(f"There is no format {name!r} of messages; there are {', '.join(FORMATS)}.")
    if unavailable is None:
        decoder: Decoder = _made(name, _PLACES[name], schemas)
        return decoder
    if name not in WITH_PLACEHOLDER:
        raise InvalidOptionError(
            f"The format {name} has no placeholder for values; {', '.join(WITH_PLACEHOLDER)} have."
        )
    from interbed.ingest.formats.unavailable_value import UnavailableValue

    made: Decoder = _made(name, _PLACES[name], schemas, unavailable=UnavailableValue.parse(unavailable))
    return made


def transactions_of(name: str, schemas: WriterSchemas | None = None) -> TransactionReader:
    """What tells the transactions of messages of that format; raises NotSupportedError where nothing does, and
    InvalidOptionError as `decoder_of`.
    """
    if name not in _TRANSACTIONS:
        raise NotSupportedError(
            f"Messages of the format {name} do not tell their transactions; those of {', '.join(_TRANSACTIONS)} do."
        )
    reader: TransactionReader = _made(name, _TRANSACTIONS[name], schemas)
    return reader


def _made(name: str, place: str, schemas: WriterSchemas | None, **more: Any) -> Any:
    """An object of the class at a place; with the schemas, if those of the format are looked up."""
    module, _, maker = place.partition(":")
    make: Callable[..., Any] = getattr(import_module(module), maker)
    if name not in WITH_SCHEMAS:
        return make(**more)
    if schemas is None:
        raise InvalidOptionError(f"The format {name} needs the registry of its schemas: give --schema-registry URL.")
    return make(schemas, **more)
