"""A new snapshot of an Iceberg table: what it replaces, whether it still may, and how it becomes the newest."""
