"""Options of logs: contradictions are refused by name when a table is created or altered."""

from pathlib import Path

import pyarrow as pa
import pytest

import interbed
from interbed.storage.base.errors import InvalidOptionError, NotSupportedError
from interbed.storage.log.kafka import LogSettings
from interbed.storage.table.table import Table

LOG = {"log.system": "kafka", "kafka.bootstrap.servers": "127.0.0.1:1", "bucket": "1"}
COLUMNS = pa.schema((pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string())))
OTHER_MAP = COLUMNS.append(pa.field("m", pa.list_(pa.map_(pa.int32(), pa.string()))))


def create(tmp_path: Path, options: dict[str, str], *, columns: pa.Schema = COLUMNS, keyed: bool = True) -> Table:
    catalog = interbed.load_catalog("test", warehouse=f"file:{tmp_path}")
    catalog.create_database("db", ignore_if_exists=True)
    return catalog.create_table("db.t", columns, primary_keys=["id"] if keyed else [], options=options)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({**LOG, "log.system": "pulsar"}, r"'log\.system' takes one of none, kafka"),
        ({**LOG, "log.format": "avro"}, r"'log\.format' takes one of debezium-json"),
        ({**LOG, "log.key.format": "raw"}, r"'log\.key\.format' takes one of json"),
        ({**LOG, "log.consistency": "strict"}, r"'log\.consistency' takes one of"),
        ({**LOG, "log.retention": "long"}, r"'log\.retention' takes a duration"),
        ({"log.system": "kafka", "bucket": "1"}, r"needs 'kafka\.bootstrap\.servers'"),
        ({**LOG, "bucket": "-1"}, "needs a fixed number of buckets"),
        ({**LOG, "bucket": "-2"}, "needs a fixed number of buckets"),
        ({**LOG, "kafka.topic": "a b"}, "no name of a topic"),
        ({**LOG, "kafka.transactional.id": "x"}, "set by the log itself"),
        ({**LOG, "kafka.secruity.protocol": "x"}, "none of librdkafka's settings.*secruity.protocol"),
        ({**LOG, "log.changelog-mode": "upsert"}, r"'log\.changelog-mode' = 'upsert' can't be combined"),
        ({**LOG, "change-tracking": "false"}, "contradict each other"),
        ({**LOG, "log.consistency": "eventual", "log.changelog-mode": "all"}, "can't be combined"),
        ({**LOG, "log.consistency": "eventual", "merge-engine": "first-row"}, "can't be combined with 'merge-engine'"),
        ({**LOG, "log.consistency": "eventual", "sequence.field": "v"}, "'sequence.field': the last record"),
        ({**LOG, "log.consistency": "eventual", "ignore-delete": "true"}, "'ignore-delete'"),
        ({**LOG, "log.consistency": "eventual", "deletion-vectors.enabled": "true"}, "'deletion-vectors.enabled'"),
        ({**LOG, "log.consistency": "eventual", "changelog-producer": "lookup"}, "'changelog-producer'"),
        ({"log.consistency": "eventual"}, "needs a log"),
        ({"log.changelog-mode": "upsert"}, "needs a log"),
        ({"log.changelog-mod": "all"}, "Did you mean"),
    ],
)
def test_contradictory_options_are_refused_by_name(tmp_path: Path, options: dict[str, str], names: str) -> None:
    with pytest.raises(InvalidOptionError, match=names):
        create(tmp_path, options)


def test_an_eventual_log_needs_a_primary_key(tmp_path: Path) -> None:
    eventual = {**LOG, "log.consistency": "eventual"}
    with pytest.raises(InvalidOptionError, match="needs a primary key"):
        create(tmp_path, {**eventual, "bucket-key": "id"}, keyed=False)
    assert create(tmp_path, eventual).options.log_changelog_mode == "upsert"


def test_a_stream_of_an_eventual_log_refuses_a_consumer_id(tmp_path: Path) -> None:
    table = create(tmp_path, {**LOG, "log.consistency": "eventual"}).copy({"consumer-id": "me"})
    with pytest.raises(NotSupportedError, match="consumer-id"):
        table.stream(log=True)


def test_maps_with_keys_other_than_strings_are_refused_by_their_column(tmp_path: Path) -> None:
    with pytest.raises(InvalidOptionError, match="no form for m MAP<INT NOT NULL"):
        create(tmp_path, LOG, columns=OTHER_MAP)


def test_a_log_can_be_added_to_a_table_and_removed_again(tmp_path: Path) -> None:
    table = create(tmp_path, {"bucket": "1"})
    update = table.update_schema().set_option("log.system", "kafka")
    update.set_option("kafka.bootstrap.servers", "127.0.0.1:1")
    with pytest.raises(InvalidOptionError, match=r"needs 'kafka\.topic'"):
        update.commit()
    assert table.options.log_system == "none"
    with table.update_schema() as update:
        for key, value in {**LOG, "kafka.topic": "mine"}.items():
            update.set_option(key, value)
    assert LogSettings.of(table.options).topic == "mine"
    with table.update_schema() as update:
        update.set_option("log.system", "none")
    assert table.upsert([{"id": 1, "v": "a"}]) == 1


def test_a_table_keeps_the_topic_that_is_named_after_it(tmp_path: Path) -> None:
    assert create(tmp_path, LOG).options.kafka_topic == "db.t"


def test_secrets_are_masked_in_all_texts(tmp_path: Path) -> None:
    table = create(tmp_path, {**LOG, "kafka.sasl.password": "open-sesame"})
    settings = LogSettings.of(table.options)
    assert "open-sesame" not in repr(settings)
    assert settings.shown(ValueError("wrong: open-sesame")) == "wrong: ***"
    with pytest.raises(InvalidOptionError) as caught:
        table.copy({"kafka.sasl.password": "open-sesame", "kafka.linger.ms": "open-sesame"})
    assert "open-sesame" not in str(caught.value)


def test_a_table_that_tracks_no_changes_is_for_batch_reads(tmp_path: Path) -> None:
    table = create(tmp_path, {"bucket": "1", "change-tracking": "false"})
    table.upsert([{"id": 1, "v": "a"}])
    assert table.count() == 1
    with pytest.raises(NotSupportedError, match="change-tracking"):
        table.stream()
