"""The database of the metastore's state: SQLAlchemy on SQLite or PostgreSQL, behind service/repository.py.

Start with models/ and session.py, which joins the repositories in a transaction and reads cheaply what has changed.
engine.py opens databases and runs statements (sqlite.py shares a file between threads), schema.py migrates them. Each
repository has a module; documents.py writes the JSON documents.
"""
