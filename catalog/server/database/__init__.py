"""The database of the metastore's state: SQLAlchemy on SQLite or PostgreSQL, behind the protocols of service/store.py.

Start with models/ and session.py, which joins the repositories in a transaction. engine.py opens databases (sqlite.py
shares a file between threads), schema.py migrates them. There is a module for each repository; documents.py writes
what is stored as JSON. generation.py says cheaply what has changed.
"""
