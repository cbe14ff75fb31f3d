"""Requests that clients repeat: idempotency.py has the keys, their repository and the service."""
