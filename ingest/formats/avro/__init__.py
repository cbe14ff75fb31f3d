"""Messages in Avro's binary encoding whose schema stands in a registry."""
