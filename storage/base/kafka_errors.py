"""What Kafka's client says of errors, for people, without the secrets that are in its settings."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_SECRET_SETTING = re.compile(
    r"password|passphrase|secret|token|credential|private|key\.pem|oauthbearer\.config", re.IGNORECASE
)
"""Names of librdkafka's settings whose values are shown nowhere."""


def secrets_of(settings: Mapping[str, str]) -> Sequence[str]:
    """The values of settings that are shown nowhere."""
    return [value for name, value in settings.items() if value and _SECRET_SETTING.search(name)]


def shown_error(kafka: Any, error: Any, secrets: Sequence[str]) -> str:
    """The text of an error without the secrets; Kafka's own errors by what they say. `kafka` is confluent_kafka."""
    told = error.args[0] if isinstance(error, kafka.KafkaException) and error.args else error
    text = f"{told.name()}: {told.str()}" if isinstance(told, kafka.KafkaError) else str(told)
    for secret in secrets:
        text = text.replace(secret, "***")
    return text
