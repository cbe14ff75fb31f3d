"""Missing privileges in PostgreSQL: all are reported at once, with statements that grant them."""

import itertools
import re
from pathlib import Path

import pytest

from interbed.ingest.sources.postgres.connection import way_out
from interbed.ingest.sources.postgres.source import PostgresSource
from interbed.storage.base.errors import InvalidInputError
from tests.ingest.shop import lake
from tests.ingest.sources.postgres.database import Database
from tests.support.tally import Tally

RIGHTS = {
    "replication": "ALTER ROLE {role} REPLICATION",
    "usage": "GRANT USAGE ON SCHEMA public TO {role}",
    "select": "GRANT SELECT ON orders, clients TO {role}",
    "create": "GRANT CREATE ON DATABASE {database} TO {role}",
}
NAMED = {
    "replication": "the attribute REPLICATION",
    "usage": "USAGE of the schema public",
    "select": 'SELECT from "public"."clients"',
    "create": "CREATE on the database",
    "owner": 'the ownership of "public"."clients", "public"."orders"',
}


def test_all_missing_privileges_are_reported_with_statements_that_grant_them(
    database: Database, tmp_path: Path, tally: Tally
) -> None:
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE TABLE clients (id int PRIMARY KEY)",
        "INSERT INTO orders VALUES (1)",
        "INSERT INTO clients VALUES (1)",
        "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    )
    [(name,)] = database.rows("SELECT current_database()")
    subsets = [given for count in range(5) for given in itertools.combinations(RIGHTS, count)]
    cases = [(given, is_published) for given in subsets for is_published in (False, True)]
    for number, (given, is_published) in enumerate(cases):
        role = f"r{number}_{database.slot}"
        database.execute(f"CREATE ROLE {role} LOGIN")
        database.execute(*(RIGHTS[right].format(role=role, database=name) for right in given))
        if is_published:
            database.execute("CREATE PUBLICATION interbed FOR TABLE orders, clients")
        url = database.url.replace("//postgres@", f"//{role}@")
        needed = {"replication", "usage", "select"} | (set() if is_published else {"create", "owner"})
        missing = needed - set(given)
        catalog = lake(tmp_path / str(number))
        if missing:
            with pytest.raises(InvalidInputError, match="lacks rights in") as error:
                database.read(catalog, source=PostgresSource(url, slot=database.slot))
            said = str(error.value)
            for right in needed:
                assert (NAMED[right] in said) == (right in missing), (given, is_published, right, said)
            assert not database.rows(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{database.slot}'")
            [grants] = re.findall(r"superuser run: (.*;) Nothing was created or read", said)
            database.execute(*(statement for statement in grants.split(";") if statement.strip()))
        database.read(catalog, source=PostgresSource(url, slot=database.slot))
        assert catalog.get_table("shop.orders").scan().count() == 1, (given, is_published)
        database.drop_slot()
        database.execute("DROP PUBLICATION interbed")
    tally("sets of missing rights", len(cases))


@pytest.mark.long
def test_the_owner_of_the_tables_needs_only_create_on_the_database(database: Database, tmp_path: Path) -> None:
    role = f"owner_{database.slot}"
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        f"CREATE ROLE {role} LOGIN REPLICATION",
        f"ALTER TABLE orders OWNER TO {role}",
    )
    url = database.url.replace("//postgres@", f"//{role}@")
    with pytest.raises(
        InvalidInputError, match=r"CREATE on the database .* to create the publication 'interbed'"
    ) as error:
        database.read(lake(tmp_path), source=PostgresSource(url, slot=database.slot))
    [grant] = re.findall(r"superuser run: (GRANT CREATE ON DATABASE [^;]*;) Nothing", str(error.value))
    database.execute(grant)
    database.read(lake(tmp_path / "again"), source=PostgresSource(url, slot=database.slot))


@pytest.mark.parametrize(
    ("message", "statement"),
    [
        ("permission denied for table orders", 'GRANT SELECT ON "orders" TO "u";'),
        ("permission denied for view v", 'GRANT SELECT ON "v" TO "u";'),
        ("permission denied for schema audit", 'GRANT USAGE ON SCHEMA "audit" TO "u";'),
        ("permission denied for database shop", 'GRANT CREATE ON DATABASE "shop" TO "u";'),
        ("must be owner of table orders", 'ALTER TABLE "orders" OWNER TO "u"'),
        ("permission denied to use replication slots", 'ALTER ROLE "u" REPLICATION;'),
        ("must be superuser or replication role to use replication slots", 'ALTER ROLE "u" REPLICATION;'),
        ("permission denied to start WAL sender", 'ALTER ROLE "u" REPLICATION;'),
    ],
)
def test_errors_of_postgresql_name_the_statement_that_grants_the_privilege(message: str, statement: str) -> None:
    found = way_out(message, "u")
    assert found is not None
    assert statement in found
    assert way_out("permission denied for tablespace x", "u") is None
