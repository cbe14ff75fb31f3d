"""The calls about queries that clients run: those that run by a schedule, and what is known of earlier runs."""
