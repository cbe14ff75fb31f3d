"""`interbed locks list | explain | release`: the locks of a metastore, which of them wait for which, and a remedy."""

import functools
import json
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.service.lock_model import LockComponent, LockState
from interbed.catalog.server.service.lock_views import LockView, blockers_of, chain_of, waiters_of
from interbed.catalog.server.setting_kinds import parse_seconds
from interbed.catalog.server.shown_settings import without_password
from interbed.storage.base.terminal import SuggestingGroup, print_columns, print_line, print_text

if TYPE_CHECKING:
    from interbed.catalog.server.cli.lock_table import LockSource

_IDS_SHOWN_MAX = 20

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _seconds(_context: click.Context, _parameter: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_seconds(text)
    except (ValueError, KeyError):
        raise click.BadParameter(f"{text!r} is no time such as 300 or 5min.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _LockSourceOptions:
    """The metastore of a command, by its options of the same names."""

    uri: str | None
    db: str | None
    lease_seconds: float | None
    disconnect_seconds: float | None


def _source_options(work: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a command's metastore; the command gets them as one value."""

    @functools.wraps(work)
    def command(
        uri: str | None, db: str | None, lease_seconds: float | None, disconnect_seconds: float | None, **given: Any
    ) -> None:
        work(
            _LockSourceOptions(uri=uri, db=db, lease_seconds=lease_seconds, disconnect_seconds=disconnect_seconds),
            **given,
        )

    command = click.option(
        "--lease-seconds",
        callback=_seconds,
        metavar="SECONDS",
        help="The server's lock_lease_seconds; asked of the server with --uri, 300 with --db.",
    )(command)
    command = click.option(
        "--disconnect-seconds",
        callback=_seconds,
        metavar="SECONDS",
        help="The server's lock_disconnect_seconds; asked of the server with --uri, 5 with --db.",
    )(command)
    command = click.option(
        "--db", metavar="URL", help="The database of an interbed server: sqlite:///file.db or postgresql://…"
    )(command)
    return click.option(
        "--uri",
        metavar="URI",
        help="A metastore, interbed's or Hive's: thrift://host:9083, the default with localhost.",
    )(command)


@click.group(cls=SuggestingGroup)
def locks() -> None:
    """Look at the locks of a metastore and release them.

    With --uri through the server's own interface, which works with Hive's metastore, too; with --db in the database.
    """
    # thrift logs every address that does not answer; the raised error names it once.
    logging.getLogger("thrift").setLevel(logging.CRITICAL)


@locks.command(name="list")
@_source_options
@click.option("--waiting", is_flag=True, help="Only those that wait, and what they wait for.")
@click.argument("name", required=False, metavar="[DATABASE[.TABLE]]")
@_json
def list_locks(chosen: _LockSourceOptions, waiting: bool, name: str | None, as_json: bool) -> None:
    """List all locks, oldest first, with object, holder, age, remaining lease and the lock waited for.

    CLIENT is empty for a client that is connected, and if the metastore does not know whether it is.
    """
    found, now = _read(chosen)
    if name is not None:
        database, _, table = name.lower().partition(".")
        found = [lock for lock in found if any(_is_about(part, database, table) for part in lock.components)]
    if waiting:
        blockers = {lock.waits_for for lock in found}
        found = [lock for lock in found if lock.state == LockState.WAITING or lock.id in blockers]
    if as_json:
        click.echo(json.dumps([lock.to_json(now) for lock in found], indent=2))
    elif not found:
        print_line("No locks.")
    else:
        print_columns(
            [
                ["ID", "STATE", "LOCK", "USER", "HOST", "AGENT", "AGE", "LEASE LEFT", "CLIENT", "WAITS FOR"],
                *(
                    [
                        str(lock.id),
                        lock.state.name.lower(),
                        ", ".join(component.text for component in lock.components),
                        lock.user,
                        lock.host,
                        lock.agent,
                        _duration(lock.age_seconds(now)),
                        _duration(lock.dropped_in_seconds(now)),
                        _gone(lock, now),
                        "" if lock.waits_for is None else str(lock.waits_for),
                    ]
                    for lock in found
                ),
            ]
        )


@locks.command()
@_source_options
@click.argument("lock_id", type=int, metavar="ID")
@_json
def explain(chosen: _LockSourceOptions, lock_id: int, as_json: bool) -> None:
    """Explain why a lock waits: the chain to the lock that is held, its holder, and a remedy."""
    found, now = _read(chosen)
    lock = _chosen(found, lock_id)
    chain = chain_of(lock, found)
    in_the_way, after = blockers_of(lock, found), waiters_of(lock, found)
    way_out = _way_out(lock, chain, now, chosen)
    if as_json:
        view = {
            "lock": lock.to_json(now),
            "chain": [each.to_json(now) for each in chain],
            "waits_for_all": [each.id for each in in_the_way],
            "waited_for_by": [each.id for each in after],
            "way_out": way_out,
        }
        click.echo(json.dumps(view, indent=2))
        return
    for depth, each in enumerate(chain):
        arrow = "" if depth == 0 else "   " * (depth - 1) + "└─ waits for "
        print_line(f"{arrow}{_line(each, now)}")
    others = [each for each in in_the_way if each not in chain]
    if others:
        print_line(f"It has to wait for {_ids(others)} as well.")
    if after:
        print_line(f"Waited for by {_ids(after)}.")
    print_text(way_out)


@locks.command()
@_source_options
@click.argument("lock_id", type=int, metavar="ID")
@_json
def release(chosen: _LockSourceOptions, lock_id: int, as_json: bool) -> None:
    """Release a lock that is held, or withdraw a waiting request.

    The client is not notified: make sure that it has ended, or it will go on as if it held the lock.
    """
    with _source(chosen) as source:
        found, now = source.locks(), time.time()
        lock = _chosen(found, lock_id)
        source.release(lock_id)
    next_ids = [each.id for each in waiters_of(lock, found) if each.waits_for == lock_id]
    if as_json:
        click.echo(json.dumps({"released": lock.to_json(now), "waited_for_by": next_ids}, indent=2))
        return
    print_line(f"Released {_line(lock, now)}.")
    if next_ids:
        print_line(f"Lock {next_ids[0]} was waiting for it and gets its turn when its client asks again.")


@contextmanager
def _source(chosen: _LockSourceOptions) -> "Iterator[LockSource]":
    # Needs Thrift and SQL, which are slow to import for the help of a command.
    from interbed.catalog.server.cli.lock_table import open_source

    if chosen.uri is not None and chosen.db is not None:
        raise click.UsageError("--uri and --db exclude each other.")
    uri = "thrift://localhost:9083" if chosen.uri is None and chosen.db is None else chosen.uri
    try:
        with open_source(uri, chosen.db, chosen.lease_seconds, chosen.disconnect_seconds) as source:
            yield source
    except MetastoreError as error:
        raise click.ClickException(str(error)) from error


def _read(chosen: _LockSourceOptions) -> tuple[list[LockView], float]:
    with _source(chosen) as source:
        return source.locks(), time.time()


def _chosen(found: Sequence[LockView], lock_id: int) -> LockView:
    for lock in found:
        if lock.id == lock_id:
            return lock
    known = f"there are {_ids(found)}" if found else "there are no locks at all"
    raise click.ClickException(f"there is no lock {lock_id}: it was released or its lease has run out; {known}")


def _way_out(lock: LockView, chain: Sequence[LockView], now: float, chosen: _LockSourceOptions) -> str:
    if lock.state != LockState.WAITING:
        return f"It does not wait: it is held.{_orphan(lock, now)}"
    last = chain[-1]
    if last is lock:
        return "Nothing is in its way any more: it is granted when its client asks again."
    if last.state == LockState.WAITING:
        return f"Lock {last.id} waits for nothing any more: it is granted when its client asks again."
    left = last.dropped_in_seconds(now)
    where = "" if chosen.uri is None else f" --uri {chosen.uri}"
    if chosen.db is not None:
        where = f" --db {without_password(chosen.db)}"
    runs_out = "" if left is None else f", or wait: it runs out in {_duration(left)} unless that client renews it"
    orphan = _orphan(last, now)
    if orphan:
        return f"In the way is lock {last.id}.{orphan} To drop it now: interbed locks release {last.id}{where}"
    return (
        f"In the way is lock {last.id}, held by {last.user or 'an unknown user'} on {last.host or 'an unknown host'}"
        f"{f' ({last.agent})' if last.agent else ''}. Let that client end{runs_out}. If it has died: "
        f"interbed locks release {last.id}{where}"
    )


def _gone(lock: LockView, now: float) -> str:
    seconds = lock.orphaned_seconds(now)
    return "" if seconds is None else f"gone for {_duration(seconds)}"


def _orphan(lock: LockView, now: float) -> str:
    """Return a sentence, after a blank, about a lock whose client has no connection any more; nothing for
    another lock.
    """
    seconds = lock.orphaned_seconds(now)
    if seconds is None:
        return ""
    return (
        f" The last connection of its client ({lock.user or 'an unknown user'} on {lock.host or 'an unknown host'}) "
        f"broke {_duration(seconds)} ago: the metastore drops it in {_duration(lock.dropped_in_seconds(now))} unless "
        "that client connects again."
    )


def _line(lock: LockView, now: float) -> str:
    age, left = lock.age_seconds(now), lock.dropped_in_seconds(now)
    details = [
        f"{lock.user or '?'} on {lock.host or '?'}",
        lock.agent,
        "" if age is None else f"for {_duration(age)}",
        "" if left is None else f"lease left {_duration(left)}",
        f"client {gone}" if (gone := _gone(lock, now)) else "",
    ]
    text = ", ".join(component.text for component in lock.components)
    return f"lock {lock.id} ({lock.state.name.lower()}): {text}; {', '.join(filter(None, details))}"


def _is_about(component: LockComponent, database: str, table: str) -> bool:
    return component.database == database and (not table or component.table in (None, table))


def _ids(found: Sequence[LockView]) -> str:
    shown = ", ".join(str(lock.id) for lock in found[:_IDS_SHOWN_MAX])
    more = len(found) - _IDS_SHOWN_MAX
    return f"lock {shown}" if len(found) == 1 else f"locks {shown}" + (f" and {more} more" if more > 0 else "")


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02}m"
