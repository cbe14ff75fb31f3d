"""`interbed optimizer worker`: a process that carries out tasks for an optimizer elsewhere."""

from contextlib import closing

import click

from interbed.catalog.client.cli.group import CatalogChoice
from interbed.optimizer.cli.run import log_level as with_log_level


@click.command()
@click.option(
    "--uri",
    required=True,
    metavar="thrift://HOST:PORT",
    help="Where the optimizer listens; several with commas, of which one schedules.",
)
@click.option("--group", default="default", show_default=True, metavar="NAME", help="For whose tables to work.")
@click.option(
    "--threads", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="Tasks at the same time."
)
@click.option("--memory", default="1 gb", show_default=True, metavar="SIZE", help="What all tasks may take together.")
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long what runs may take to finish once the worker is told to end.",
)
@click.option(
    "--idle-time",
    metavar="TIME",
    help="End when there was nothing to do for so long, such as '10 min'; never by default.",
)
@with_log_level
@click.pass_obj
def worker(
    chosen: CatalogChoice,
    uri: str,
    group: str,
    threads: int,
    memory: str,
    drain: float,
    idle_time: str | None,
    log_level: str,
) -> None:
    """Work for an optimizer that runs elsewhere.

    The optimizer tells how its catalog is opened, all but secrets: give those, and what is different here, by
    -o KEY=VALUE or --catalog NAME. The worker has to reach the catalog and the files of its tables.

    SIGTERM and SIGINT end it when what runs is finished; a second one ends it at once, and others do what it did.
    """
    import logging

    from interbed.optimizer.cli.run import told_to_end
    from interbed.optimizer.service.local_worker import LOG_FORMAT, place
    from interbed.optimizer.service.scheduler_client import SchedulerClient
    from interbed.optimizer.service.worker import OptimizerWorker, WorkerSettings, opened_with
    from interbed.storage.base.quantities import parse_duration_millis, parse_memory

    logging.basicConfig(level=log_level, format=LOG_FORMAT)
    settings = WorkerSettings(
        group=group,
        threads=threads,
        memory=parse_memory("--memory", memory),
        place=place(),
        drain_seconds=drain,
        idle_seconds=None if idle_time is None else parse_duration_millis("--idle-time", idle_time) / 1000,
    )
    with closing(SchedulerClient(uri)) as client:
        working = OptimizerWorker(client, opened_with(_own_options(chosen)), settings)
        with told_to_end(working.stop):
            working.run()


def _own_options(chosen: CatalogChoice) -> dict[str, str]:
    """What was given here; the default catalog is not meant where none is named."""
    if chosen.name is None:
        return chosen.options
    from interbed.catalog.client.configuration import load_configuration

    return load_configuration().resolved(chosen.name, chosen.options)[1]
