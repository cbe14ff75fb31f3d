"""How connections to PostgreSQL are made from the database's url: all of them alike, by the rules of their driver."""

from typing import Any

from sqlalchemy.engine import URL

CONNECT_SECONDS_MAX = 10


def postgres_conninfo(url: URL, application: str) -> str:
    """What libpq is told to connect, read from the url as the engine of the other connections reads it: what stands
    after the `?` wins, and hosts may be several. psycopg.ProgrammingError for an option that libpq does not know.
    """
    # Only servers on PostgreSQL need its driver.
    from psycopg.conninfo import make_conninfo

    _, options = url.get_dialect()().create_connect_args(url)
    return make_conninfo("", **postgres_defaults(url, application), **options)


def postgres_defaults(url: URL, application: str) -> dict[str, Any]:
    """What connections are told unless the url says it."""
    defaults: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS_MAX, "application_name": application}
    return {name: value for name, value in defaults.items() if name not in url.query}
