"""Requests that clients repeat. Read keys.py (values and their repository), then idempotency.py (the service)."""
