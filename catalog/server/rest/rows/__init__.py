"""Rows of tables, read by the server for clients that get no credentials of the store: Arrow's stream format over HTTP.

Read `streams` first, then `routes`.
"""
