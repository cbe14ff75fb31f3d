"""Log of a table: its changes as records in partitions of a Kafka topic, beside its files.

Read `api` first. A transactional log has committed changes: `publisher` appends each snapshot's changes
after its commit, through `kafka_log`. An eventual log has rows as soon as they are written (`written`):
`kafka_eventual` sends and reads them. `json_text` is the JSON of values; `kafka` connects.
"""
