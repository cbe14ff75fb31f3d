"""The protocol of decoders, and the decoder of each format."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Protocol

from interbed.ingest.flow.changes import DecodedMessages
from interbed.ingest.flow.messages import Messages, TransactionReader
from interbed.ingest.formats.avro.schema import WriterSchemas
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError


class Decoder(Protocol):
    """Decoder of the messages of one format, which keeps the shapes that it learned between calls.

    Not for use by several threads.
    """

    def decode(self, messages: Messages) -> DecodedMessages:
        """Decode messages. A message that cannot be decoded is returned as bad; it does not raise."""
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
"""The formats whose schemas are looked up in a registry."""


WITH_PLACEHOLDER = ("debezium-avro", "debezium-json")
"""The formats with a placeholder for values that the database did not send."""


def decoder_of(name: str, schemas: WriterSchemas | None = None, unavailable: str | None = None) -> Decoder:
    """Return a new decoder of a format, which looks up `schemas` if the format is one of WITH_SCHEMAS.

    `unavailable` is Debezium's placeholder if it is not the default, a text or `hex:` and its bytes. Raises
    NotSupportedError naming the known formats, and InvalidOptionError for missing schemas, for an invalid placeholder,
    and for a format without placeholder.
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
    from interbed.ingest.formats.lacking_columns import UnavailableValue

    made: Decoder = _made(name, _PLACES[name], schemas, unavailable=UnavailableValue.parse(unavailable))
    return made


def transactions_of(name: str, schemas: WriterSchemas | None = None) -> TransactionReader:
    """Return the reader of the transaction metadata of a format. Raises NotSupportedError for a format without them,
    and InvalidOptionError as `decoder_of`.
    """
    if name not in _TRANSACTIONS:
        raise NotSupportedError(
            f"Messages of the format {name} do not name their transactions; those of {', '.join(_TRANSACTIONS)} do."
        )
    reader: TransactionReader = _made(name, _TRANSACTIONS[name], schemas)
    return reader


def _made(name: str, place: str, schemas: WriterSchemas | None, **more: Any) -> Any:
    """Return an object of the class at a place, with the schemas if the format needs them."""
    module, _, maker = place.partition(":")
    make: Callable[..., Any] = getattr(import_module(module), maker)
    if name not in WITH_SCHEMAS:
        return make(**more)
    if schemas is None:
        raise InvalidOptionError(f"The format {name} needs the registry of its schemas: give --schema-registry URL.")
    return make(schemas, **more)
