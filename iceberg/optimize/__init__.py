"""Keeping an Iceberg table fast to read: what is worth doing, doing it, and taking away what nothing needs."""
