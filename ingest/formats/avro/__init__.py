"""Messages in Avro's binary encoding, whose schemas are in a registry."""
