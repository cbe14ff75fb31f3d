"""`interbed doctor`: checks of an installation, each with its finding and the remedy.

Without arguments: Python, the packages and their extras, Java and Spark. With a catalog (`-c NAME`, `-o KEY=VALUE`)
also its metastore and its warehouse; with `--config FILE`, or with INTERBED_SERVER_… variables, the database, the
warehouse and the certificates of a server. The checks change nothing but for a file of a few bytes: it is created in
each warehouse and deleted again.
"""

import json
import os
import re
import ssl
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from interbed.catalog.client.cli.group import CatalogChoice, with_catalog
from interbed.storage.base.errors import InterbedError
from interbed.storage.base.terminal import print_line

if TYPE_CHECKING:
    from interbed.catalog.server.settings import ServerSettings
    from interbed.storage.io.api import FileIO

PYTHON_MIN = (3, 11)

CLOCK_SECONDS_MAX = 5.0
"""The largest difference of two clocks that is not reported. Ages of orphan files, leases and tokens depend on clocks.
"""

CERTIFICATE_DAYS_MIN = 30
"""Days before the end of a certificate from which on it is reported."""

_DAY_SECONDS = 86_400
_REQUIREMENT = re.compile(r"^([A-Za-z0-9._-]+)")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")
_INTERNAL_EXTRAS = frozenset({"demo"})


class CheckVerdict(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    SKIPPED = "not checked"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """Result of one check; `remedy` is what to do, None where there is nothing to do."""

    subject: str
    verdict: CheckVerdict
    found: str
    remedy: str | None = None


Checks = Iterator[CheckFinding]


def _ok(subject: str, found: str) -> CheckFinding:
    return CheckFinding(subject=subject, verdict=CheckVerdict.OK, found=found)


def _failed(subject: str, found: object, remedy: str | None = None) -> CheckFinding:
    return CheckFinding(subject=subject, verdict=CheckVerdict.FAILED, found=str(found), remedy=remedy)


def _warning(subject: str, found: str, remedy: str) -> CheckFinding:
    return CheckFinding(subject=subject, verdict=CheckVerdict.WARNING, found=found, remedy=remedy)


def _skipped(subject: str, found: str) -> CheckFinding:
    return CheckFinding(subject=subject, verdict=CheckVerdict.SKIPPED, found=found)


def check_python(running: tuple[int, int] = sys.version_info[:2]) -> Checks:
    """Check the version of Python."""
    found = f"{sys.executable}, Python {'.'.join(map(str, running))}"
    if running >= PYTHON_MIN:
        yield _ok("Python", found)
    else:
        yield _failed("Python", found, f"Install Python {'.'.join(map(str, PYTHON_MIN))} or newer.")


def check_packages(requirements: Iterable[str] | None = None, installed: Callable[[str], str] = version) -> Checks:
    """Check that the packages that interbed requires are installed, and list its extras.

    `requirements` are those of the installed distribution by default; `installed` returns the version of a package and
    raises PackageNotFoundError.
    """
    missing: dict[str | None, list[str]] = {None: []}
    for text in requires("interbed") or [] if requirements is None else requirements:
        name, extra = _REQUIREMENT.match(text), _EXTRA.search(text)
        if name is None:
            continue
        lacking = missing.setdefault(None if extra is None else extra[1], [])
        try:
            installed(name[1])
        except PackageNotFoundError:
            lacking.append(name[1])
    needed = missing.pop(None)
    if needed:
        yield _failed("packages", f"missing: {', '.join(needed)}", "Run: pip install --force-reinstall interbed")
    else:
        yield _ok("packages", f"interbed {installed('interbed')} and what it requires")
    extras = {name: lacking for name, lacking in missing.items() if name is not None and name not in _INTERNAL_EXTRAS}
    whole = sorted(name for name, lacking in extras.items() if not lacking)
    absent = sorted(name for name, lacking in extras.items() if lacking)
    yield _ok("extras", f"installed: {', '.join(whole) or 'none'}; not installed: {', '.join(absent) or 'none'}")


def check_spark_and_java() -> Checks:
    """Check the versions of Spark and Java, and the jar of the extension; without Spark none of them is needed."""
    from interbed.spark_ext.session import (
        SparkSetupError,
        check_java,
        check_spark,
        jar_path,
        java_found,
        spark_found,
    )

    spark = spark_found()
    if spark is None:
        yield _skipped("Spark", "Spark is not installed; for Spark: pip install 'interbed[spark]', and a JDK 17")
        return
    checks: Mapping[str, tuple[Callable[[], object], Callable[[], str | None]]] = {
        "Spark": (check_spark, lambda: spark),
        "Java": (check_java, java_found),
        "Spark extension": (jar_path, lambda: str(jar_path())),
    }
    for subject, (check, found) in checks.items():
        try:
            check()
        except SparkSetupError as error:
            yield _failed(subject, error)
        else:
            yield _ok(subject, found() or "found")


def check_warehouse(
    subject: str, location: str, file_io: "FileIO", *, has_locks: bool, clock: Callable[[], float] = time.time
) -> Checks:
    """Create a file of a few bytes in a warehouse, read it, compare its time with the clock, and delete it.

    `has_locks` is whether commits hold a lock of a metastore, which stores need that can't create a file exclusively.
    """
    if not file_io.exists(location):
        yield _warning(
            subject,
            f"{location} does not exist",
            "Check the path; a server makes it when it starts, and so does `interbed catalog create-database NAME`.",
        )
        return
    path, content = f"{location}/.interbed-doctor-{uuid.uuid4().hex}", b"interbed doctor"
    before = clock()
    if not file_io.create_exclusive(path, content):
        yield _failed(subject, f"{path} has a new name, and the store says that it exists")
        return
    after = clock()
    try:
        if file_io.read_bytes(path) != content:
            yield _failed(subject, f"{path} has other bytes than those that were written", "Do not use this store.")
            return
        is_exclusive = not file_io.create_exclusive(path, b"another")
        times = [each.modified_millis for each in file_io.list(location) if each.path == path]
    finally:
        file_io.delete(path)
    yield _ok(subject, f"{location}: files can be created, read, listed and deleted")
    yield _exclusive(
        f"{subject}: exclusive creation", location, file_io, is_exclusive=is_exclusive, has_locks=has_locks
    )
    if times and times[0] is not None:
        # The store may record whole seconds.
        off = max(before - 1 - times[0] / 1000, times[0] / 1000 - after, 0.0)
        yield _clock(f"{subject}: clock", off)


def _exclusive(subject: str, location: str, file_io: "FileIO", *, is_exclusive: bool, has_locks: bool) -> CheckFinding:
    if file_io.exclusive_create and not is_exclusive:
        return _failed(
            subject,
            f"{location}: a second creation of one file overwrote it, so that commits may be lost",
            "Use a catalog with metastore=hive and lock.enabled=true, or another store (docs/stores.md).",
        )
    if file_io.exclusive_create:
        return _ok(subject, "the store refuses a second creation, so that commits need no lock")
    if has_locks:
        return _ok(subject, "the store has none; commits hold a lock of the metastore")
    return _failed(
        subject,
        f"{location}: the store can't create a file exclusively, and the catalog has no locks",
        "Use a catalog with metastore=hive and lock.enabled=true; or pip install 'interbed[stores]', if the store has "
        "conditional puts (docs/stores.md).",
    )


def _clock(subject: str, off_seconds: float) -> CheckFinding:
    if off_seconds <= CLOCK_SECONDS_MAX:
        return _ok(subject, f"within {CLOCK_SECONDS_MAX:.0f} s of this machine's")
    return _warning(
        subject,
        f"{off_seconds:.0f} s from this machine's; ages of files, leases and tokens depend on clocks",
        "Synchronize both clocks by NTP.",
    )


def check_catalog(chosen: CatalogChoice) -> Checks:
    """Check that a catalog can be opened and listed, and its warehouse."""
    from interbed.catalog.client.factory import open_configured
    from interbed.catalog.client.filesystem import FileSystemCatalog

    subject = f"catalog {chosen.name}" if chosen.name else "catalog"
    try:
        with open_configured(chosen.name, chosen.options) as catalog:
            by_files = isinstance(catalog, FileSystemCatalog)
            if not by_files or catalog.file_io.exists(catalog.warehouse):
                yield _ok(subject, f"{catalog.described}: {len(catalog.list_databases())} databases")
            warehouse = f"{subject}: warehouse"
            yield from check_warehouse(warehouse, catalog.warehouse, catalog.file_io, has_locks=not by_files)
    except (InterbedError, OSError) as error:
        yield _failed(subject, error)


def check_server(settings: "ServerSettings", clock: Callable[[], float] = time.time) -> Checks:
    """Check the database, the warehouse and the certificates of a server with these settings."""
    from interbed.storage.io.resolve import file_io_for

    yield from check_database(settings.db, clock)
    try:
        file_io, location = file_io_for(settings.warehouse)
        yield from check_warehouse("server: warehouse", location, file_io, has_locks=True, clock=clock)
    except (InterbedError, OSError) as error:
        yield _failed("server: warehouse", error)
    if settings.tls_certificate is None or settings.tls_key is None:
        yield _skipped("server: certificate", "the server has no TLS")
        return
    yield check_certificate("server: certificate", settings.tls_certificate, settings.tls_key, clock)
    if settings.tls_client_ca is not None:
        yield from check_authorities("server: authorities of clients", settings.tls_client_ca, clock)


def check_database(url: str, clock: Callable[[], float] = time.time) -> Checks:
    """Check the database of a server: whether it can be reached, its migrations, and the users that may read it."""
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    from interbed.catalog.server.database.engine import open_engine, parse_database_url
    from interbed.catalog.server.database.schema import current_revision, latest_revision
    from interbed.catalog.server.database.sqlite import readable_by_others
    from interbed.catalog.server.service.errors import MetastoreError

    subject = "server: database"
    try:
        parsed = parse_database_url(url)
        is_sqlite, file = parsed.get_backend_name() == "sqlite", parsed.database or ""
        shown = file if is_sqlite else parsed.render_as_string(hide_password=True)
        if is_sqlite and not os.path.exists(file):
            parent = os.path.dirname(os.path.abspath(file))
            if os.access(parent, os.W_OK):
                yield _ok(subject, f"{shown} does not exist; a server makes it when it starts")
            else:
                yield _failed(subject, f"{shown} does not exist, and {parent} can't be written", "Check the path `db`.")
            return
        engine = open_engine(url)
        try:
            revision, latest = current_revision(engine), latest_revision()
            with engine.connect() as connection:
                sound = "ok"
                if is_sqlite:
                    sound = connection.execute(text("PRAGMA quick_check(1)")).scalar_one()
                else:
                    at = float(connection.execute(text("SELECT extract(epoch FROM clock_timestamp())")).scalar_one())
                    yield _clock(f"{subject}: clock", abs(at - clock()))
        finally:
            engine.dispose()
    except (MetastoreError, InterbedError, SQLAlchemyError, OSError) as error:
        yield _failed(subject, str(error).partition("\n")[0], "Check the setting `db`, and that the database runs.")
        return
    if sound != "ok":
        yield _failed(subject, f"{shown} is damaged: {sound}", "Stop the server, and restore a backup.")
    elif revision is None:
        yield _ok(subject, f"{shown} has no tables of interbed; a server makes them when it starts")
    elif revision > latest:
        yield _failed(
            subject,
            f"{shown} is at migration {revision}, of a newer interbed; this one knows {latest}",
            "Install the newer version again.",
        )
    else:
        pending = "" if revision == latest else f"; a server migrates it to {latest} when it starts"
        yield _ok(subject, f"{shown}, migration {revision}{pending}")
    if is_sqlite and (exposed := readable_by_others(file)) is not None:
        yield _warning(f"{subject}: permissions", exposed, f"Run: chmod 600 {file}*")


def check_certificate(
    subject: str, certificate: Path, key: Path, clock: Callable[[], float] = time.time
) -> CheckFinding:
    """Check that a certificate and its key belong together, and when the certificate ends.

    A handshake in memory reads the certificate as clients do. Its end is that of the first certificate of the file.
    """
    try:
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(certificate, key)
        return _end_of(subject, str(certificate), _own_certificate(server, certificate), clock)
    except ssl.SSLCertVerificationError as error:
        return _failed(subject, f"{certificate}: {error.verify_message}", "Renew the certificate.")
    except (ssl.SSLError, OSError) as error:
        return _failed(subject, f"{certificate}, {key}: {error}", "Check that the key is that of the certificate.")


def check_authorities(subject: str, file: Path, clock: Callable[[], float] = time.time) -> Checks:
    """Check when the certificates of the authorities that sign those of clients end."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cafile=file)
    except (ssl.SSLError, OSError) as error:
        yield _failed(subject, f"{file}: {error}", "Check the file, which has PEM certificates.")
        return
    for each in context.get_ca_certs():
        yield _end_of(subject, f"{file}, {_common_name(each)}", each, clock)


def _own_certificate(server: ssl.SSLContext, certificate: Path) -> Mapping[str, object]:
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    # The certificate itself is trusted: its issuer need not be known here.
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cafile=certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server), server.wrap_bio(to_server, to_client, server_side=True)]
    for end in (*ends, *ends, *ends):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ends[0].getpeercert() or {}


def _end_of(subject: str, shown: str, certificate: Mapping[str, object], clock: Callable[[], float]) -> CheckFinding:
    ends_at = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    date = datetime.fromtimestamp(ends_at, UTC).date()
    days = int((ends_at - clock()) // _DAY_SECONDS)
    if days < 0:
        return _failed(subject, f"{shown} ended on {date}", "Renew the certificate.")
    if days < CERTIFICATE_DAYS_MIN:
        return _warning(subject, f"{shown} ends on {date}, in {days} days", "Renew the certificate.")
    return _ok(subject, f"{shown} ends on {date}, in {days} days")


def _common_name(certificate: Mapping[str, object]) -> str:
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]  # type: ignore[attr-defined]
    return names[0] if names else "without a common name"


def _server_settings(config: Path | None, environ: Mapping[str, str]) -> "ServerSettings | CheckFinding | None":
    """Return the settings of a server, None where none are given, a finding where they are wrong."""
    from interbed.catalog.server.setting_kinds import ENVIRONMENT_PREFIX, ServerSettingsError
    from interbed.catalog.server.settings import load

    if config is None and not any(name.startswith(ENVIRONMENT_PREFIX) for name in environ):
        return None
    try:
        return load(config, environ, {})[0]
    except ServerSettingsError as error:
        return _failed("server: settings", error, "Correct the settings; `interbed server config` shows them.")


def _checks(chosen: CatalogChoice, config: Path | None) -> Checks:
    yield from check_python()
    yield from check_packages()
    yield from check_spark_and_java()
    if chosen.name is not None or chosen.options:
        yield from check_catalog(chosen)
    settings = _server_settings(config, os.environ)
    if isinstance(settings, CheckFinding):
        yield settings
    elif settings is not None:
        yield from check_server(settings)


@click.command("doctor")
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    envvar="INTERBED_SERVER_CONFIG",
    help="The TOML file of a server, whose database, warehouse and certificates are checked.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_obj
def doctor(chosen: CatalogChoice, config: Path | None, as_json: bool) -> None:
    """Check an installation: Python, extras, Java and Spark, a catalog, a server.

    interbed doctor -c lake --config server.toml

    With --catalog or --option, the catalog and its warehouse are checked; with --config, or INTERBED_SERVER_…
    variables, a server's database, warehouse and certificates. The exit code is 1 if a check has failed.
    """
    findings = []
    for each in _checks(chosen, config):
        findings.append(each)
        if not as_json:
            print_line(f"{each.verdict:<11}  {each.subject}: {each.found}")
            if each.remedy is not None:
                print_line(f"{'':<11}  {each.remedy}")
    if as_json:
        click.echo(json.dumps([asdict(each) for each in findings], indent=2))
    if any(each.verdict is CheckVerdict.FAILED for each in findings):
        sys.exit(1)


with_catalog(doctor)
