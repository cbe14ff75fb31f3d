"""Where the metastore's state is kept: SQLAlchemy on SQLite or PostgreSQL, behind the protocols of api.py."""
