"""`interbed spark …`: the settings of a Spark application, and a planner for drivers on other machines."""

import json
import shlex

import click

from interbed.spark_ext.session import (
    CATALOG_CLASS,
    CATALOGS,
    JARS,
    REDACTION,
    SESSION_CATALOG_CLASS,
    TEXT_REDACTION,
    spark_settings,
)
from interbed.storage.base.terminal import SuggestingGroup


@click.group("spark", cls=SuggestingGroup)
def spark() -> None:
    """Settings of Spark applications, and a planner for them."""


@spark.command("settings")
@click.option(
    "--catalog", "-c", help="Also the settings of a catalog of this name; spark_catalog is the session's own."
)
@click.option("--option", "-o", "options", multiple=True, metavar="KEY=VALUE", help="An option of that catalog.")
@click.option("--executor-python", metavar="PATH", help="The Python of driver and executors, in place of this one.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, in place of arguments of spark-submit.")
@click.option("--properties", is_flag=True, help="As lines of spark-defaults.conf.")
def settings_command(
    catalog: str | None, options: tuple[str, ...], executor_python: str | None, as_json: bool, properties: bool
) -> None:
    """Print the settings for spark-submit, spark-sql, spark-shell or a Spark Connect server.

    spark-sql $(interbed spark settings -c lake -o warehouse=file:/lake)
    """
    if options and catalog is None:
        raise click.UsageError("--option is of a catalog: name one by --catalog.")
    settings = spark_settings()
    if executor_python is not None:
        settings["spark.pyspark.python"] = executor_python
    if catalog is not None:
        key = f"{CATALOGS}.{catalog}"
        settings[key] = SESSION_CATALOG_CLASS if catalog == "spark_catalog" else CATALOG_CLASS
        for option in options:
            name, equals, value = option.partition("=")
            if not equals:
                raise click.UsageError(f"--option takes KEY=VALUE, not {option!r}.")
            settings[f"{key}.{name}"] = value
    if as_json:
        click.echo(json.dumps(settings, indent=2))
    elif properties:
        click.echo("\n".join(f"{key} {value}" for key, value in settings.items()))
    else:
        jars = settings.pop(JARS)
        # The patterns need quotes in a shell, and $(…) keeps none; the jar sets them when the session starts.
        del settings[REDACTION], settings[TEXT_REDACTION]
        arguments = ["--jars", jars, *(a for key, value in settings.items() for a in ("--conf", f"{key}={value}"))]
        click.echo(shlex.join(arguments))


@spark.command("planner")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", default=9085, show_default=True, help="The port to listen at; 0 takes a free one.")
def planner_command(host: str, port: int) -> None:
    """Plan for Spark drivers that have no Python: they set spark.interbed.planner to the printed address.

    There is no authentication: any client that reaches the port reads and writes what this process may.
    """
    # Imported here, so that the settings are printed without loading Arrow.
    from interbed.spark_ext.process.planner import PlannerServer

    with PlannerServer(host, port) as server:
        click.echo(server.endpoint)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            click.echo("stopped", err=True)
