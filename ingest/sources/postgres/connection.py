"""Connections to the database that changes are read from, and the meaning of its errors.

Values are written as texts, so all connections use the same settings: DateStyle ISO, bytea_output hex, TimeZone UTC.
"""

import getpass
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, LiteralString

from interbed.ingest.flow.messages import SourceUnavailableError
from interbed.storage.base.errors import InterbedError, InvalidInputError, InvalidOptionError, load_extra

CONNECT_SECONDS_MAX = 10
LOCK_SECONDS_MAX = 30
_SETTINGS: Mapping[str, str] = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": f"{LOCK_SECONDS_MAX}s",
    # Rows that a policy hides would be missing silently; with this setting, PostgreSQL raises an error.
    "row_security": "off",
}
_WAYS_OUT: Mapping[str, str] = {
    "28P01": "Give the right password in the url, in PGPASSWORD or in ~/.pgpass.",
    "28000": "Let pg_hba.conf of the server admit the user.",
    "3D000": "Name an existing database.",
    "42501": "The user has to have the attribute REPLICATION (ALTER ROLE … REPLICATION), the right to SELECT from the "
    "tables, and, if the publication is to be made for it, to own them.",
    "53400": "Raise max_replication_slots of the server: a run needs one slot, another while it reads tables first.",
}
"""Errors for which a retry does not help, by their SQLSTATE."""


class PostgresConnections:
    """Opens connections by one url (postgresql://… or libpq's key=value); it holds none itself."""

    def __init__(self, url: str) -> None:
        self.psycopg: Any = load_extra("psycopg", needed_by="The source postgres")
        try:
            self._parameters: dict[str, Any] = self.psycopg.conninfo.conninfo_to_dict(url)
        except self.psycopg.Error:
            # The error may quote a part of the url, which may be a part of a password.
            raise InvalidOptionError(
                "The url is none of PostgreSQL: it is postgresql://USER@HOST:PORT/DATABASE, with special characters of "
                "a password written as %XX."
            ) from None
        self._secrets = [str(self._parameters[n]) for n in ("password", "sslpassword") if self._parameters.get(n)]
        host, port = self._parameters.get("host", ""), self._parameters.get("port", "")
        self.name = f"{self._parameters.get('dbname', '')} at {host}{':' if port else ''}{port}"
        """The database and the server, for people."""
        self.user = str(self._parameters.get("user") or os.environ.get("PGUSER") or getpass.getuser())
        """The user of the database."""

    def open(self, *, replication: bool = False) -> Any:
        """Open a connection of psycopg in autocommit. Raises InvalidInputError if a retry does not help."""
        settings = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        parameters = {
            "connect_timeout": CONNECT_SECONDS_MAX,
            "application_name": "interbed ingest",
            **self._parameters,
            "client_encoding": "UTF8",
            "options": f"{self._parameters.get('options', '')} {settings}".strip(),
        }
        if replication:
            parameters["replication"] = "database"
        with self.errors("PostgreSQL can't be reached"):
            return self.psycopg.connect(**parameters, autocommit=True)

    @contextmanager
    def errors(self, what: str) -> Iterator[None]:
        """Convert errors of psycopg in the block to those of a source; `what` begins their message."""
        try:
            yield
        except self.psycopg.Error as error:
            raise self.error(what, error) from None

    def error(self, what: str, error: Exception) -> InterbedError:
        """Return the error of a source for an error of psycopg."""
        state: str | None = getattr(error, "sqlstate", None)
        text = f"{what}: {self.shown(error)} ({self.name})."
        if state is not None and state in _WAYS_OUT:
            grant = way_out(str(error), self.user) if state == "42501" else None
            return InvalidInputError(f"{text} {grant or _WAYS_OUT[state]}")
        for known in ("28P01", "42501"):
            # While a connection is opened, libpq has the message of the server, and not its code.
            if state is None and _MESSAGES[known] in str(error):
                grant = way_out(str(error), self.user) if known == "42501" else None
                return InvalidInputError(f"{text} {grant or _WAYS_OUT[known]}")
        return SourceUnavailableError(f"{text} Try again when it answers.")

    def shown(self, error: object) -> str:
        """Return the text of an error on one line, without secrets."""
        text = " ".join(str(error).split()).rstrip(".")
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def rows(self, connection: Any, statement: LiteralString, values: Sequence[object] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self.errors("PostgreSQL can't be asked"):
            found: list[Any] = connection.execute(statement, values).fetchall()
            return found

    def replied(self, connection: Any, command: str) -> dict[str, str | None]:
        """Return the only row of a command of the replication protocol, by column; empty if it has none."""
        pq = self.psycopg.pq
        with self.errors(f"PostgreSQL refuses {command.split(maxsplit=1)[0]}"):
            result = connection.pgconn.exec_(command.encode())
            if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.COPY_BOTH):
                raise self.psycopg.errors.error_from_result(result)
        if not result.ntuples:
            return {}
        values = [result.get_value(0, i) for i in range(result.nfields)]
        names = [result.fname(i).decode() for i in range(result.nfields)]
        return {n: None if v is None else v.decode() for n, v in zip(names, values, strict=True)}


_MESSAGES: Mapping[str, str] = {"28P01": "password authentication failed", "42501": "permission denied"}


def lsn_of(text: str) -> int:
    """Return the position in the WAL that PostgreSQL writes as 16/B374D848."""
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) | int(low, 16)


def lsn_text(lsn: int) -> str:
    """Return the position in the WAL as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def quoted(name: str) -> str:
    """Return a name as an identifier of SQL."""
    return '"' + name.replace('"', '""') + '"'


def way_out(message: str, user: str) -> str | None:
    """Return the statement that permits what PostgreSQL refused with SQLSTATE 42501; None for an unknown text."""
    role = quoted(user)
    for pattern, statement in _REFUSALS:
        found = re.search(pattern, message)
        if found is not None:
            name = quoted(found[1].strip('"')) if found.groups() else ""
            return f"Let its owner or a superuser run: {statement.format(name=name, role=role)}"
    return None


_REFUSALS: Sequence[tuple[str, str]] = (
    (r"permission denied for (?:table|relation|view) (\S+)", "GRANT SELECT ON {name} TO {role};"),
    (r"permission denied for schema (\S+)", "GRANT USAGE ON SCHEMA {name} TO {role};"),
    (r"permission denied for database (\S+)", "GRANT CREATE ON DATABASE {name} TO {role};"),
    (r"must be owner of (?:table|relation) (\S+)", "ALTER TABLE {name} OWNER TO {role}; or CREATE PUBLICATION itself."),
    (
        r"permission denied to (?:use|start|create) .*replication|replication role|REPLICATION attribute|WAL sender",
        "ALTER ROLE {role} REPLICATION;",
    ),
)
