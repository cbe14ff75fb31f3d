"""What an Iceberg table's metadata say, as values of interbed's own."""
