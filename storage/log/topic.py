"""The topic of a table's log: made when something is written to the log first, deleted with the table."""

import logging
from typing import Any

from interbed.storage.base.errors import InvalidOptionError
from interbed.storage.base.extras import load_extra
from interbed.storage.log.settings import LogSettings, kafka_library, kept_settings

_log = logging.getLogger(__name__)

REQUEST_SECONDS = 10.0
"""How long the answer to one request is waited for."""


def ensure_topic(settings: LogSettings, seconds: float = REQUEST_SECONDS) -> int:
    """Make the topic unless it is there; how many partitions it has.

    Its messages are kept as long as `log.retention` says. Raises LogUnavailableError, and InvalidOptionError for a
    topic that keeps only the last message of a key.
    """
    kafka = kafka_library()
    client = _admin_library().AdminClient(dict(kept_settings(settings)), logger=_log)
    try:
        found = client.list_topics(settings.topic, timeout=seconds).topics[settings.topic]
        if found.error is not None and found.error.code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise settings.unavailable("The topic of the log can't be looked at", found.error)
        if found.error is not None or not found.partitions:
            return _created(client, settings, seconds)
        _check_topic(client, settings, seconds)
    except kafka.KafkaException as error:
        raise settings.unavailable("The topic of the log can't be made", error) from error
    return len(found.partitions)


def delete_topic(settings: LogSettings, seconds: float = REQUEST_SECONDS) -> None:
    """Delete the topic, if it is there. Raises LogUnavailableError, MissingExtraError."""
    kafka = kafka_library()
    client = _admin_library().AdminClient(dict(kept_settings(settings)), logger=_log)
    try:
        _answer(client.delete_topics([settings.topic], request_timeout=seconds)[settings.topic], settings, seconds)
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise settings.unavailable("The topic of the log was not deleted", error) from error


def _created(client: Any, settings: LogSettings, seconds: float) -> int:
    kafka, admin = kafka_library(), _admin_library()
    config = {"cleanup.policy": "delete"}
    if settings.retention_millis is not None:
        config["retention.ms"] = str(settings.retention_millis)
    topic = admin.NewTopic(settings.topic, settings.partitions, config=config)
    try:
        _answer(client.create_topics([topic], request_timeout=seconds)[settings.topic], settings, seconds)
    except kafka.KafkaException as error:
        if error.args[0].code() != kafka.KafkaError.TOPIC_ALREADY_EXISTS:
            raise
        return len(client.list_topics(settings.topic, timeout=seconds).topics[settings.topic].partitions)
    return settings.partitions


def _check_topic(client: Any, settings: LogSettings, seconds: float) -> None:
    """Refuse a topic that forgets records, and have this one keep them as long as the table's options say now."""
    admin = _admin_library()
    resource = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, settings.topic)
    known = _answer(client.describe_configs([resource], request_timeout=seconds)[resource], settings, seconds)
    policy = known["cleanup.policy"].value
    if policy != "delete":
        raise InvalidOptionError(
            f"The log of a table keeps every record, but {settings.place} has 'cleanup.policy' = '{policy}'. Set it to "
            "'delete', or give the table another topic by 'kafka.topic'."
        )
    wanted = None if settings.retention_millis is None else str(settings.retention_millis)
    if wanted is None or known["retention.ms"].value == wanted:
        return
    entry = admin.ConfigEntry("retention.ms", wanted, incremental_operation=admin.AlterConfigOpType.SET)
    changed = admin.ConfigResource(admin.ConfigResource.Type.TOPIC, settings.topic, incremental_configs=[entry])
    _answer(client.incremental_alter_configs([changed], request_timeout=seconds)[changed], settings, seconds)


def _answer(future: Any, settings: LogSettings, seconds: float) -> Any:
    """What a request comes to, which has a timeout of its own; raises KafkaException, LogUnavailableError."""
    try:
        return future.result(seconds)
    except TimeoutError as error:
        raise settings.unavailable("The topic of the log can't be looked after", "no answer came") from error


def _admin_library() -> Any:
    return load_extra("confluent_kafka.admin", needed_by="The log of a table")
