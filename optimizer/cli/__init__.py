"""The commands `interbed optimizer …`: the service and its workers, what they know of tables, and what people ask.

Each is a file, imported when the command is used.
"""

from importlib import import_module

import click

from interbed.catalog.client.cli.group import CatalogGroup, with_catalog

_COMMANDS = {
    "run": ("interbed.optimizer.cli.run:run", "Keep all tables of a catalog in shape, until it is told to end."),
    "status": ("interbed.optimizer.cli.status:status", "Who schedules, and how the tables stand."),
    "why": ("interbed.optimizer.cli.why:why", "What a table needs, and why."),
    "plan": ("interbed.optimizer.cli.why:plan", "What would be done for a table now; nothing is changed."),
    "history": ("interbed.optimizer.cli.status:history", "What was done, and what it brought."),
    "groups": ("interbed.optimizer.cli.status:groups", "The resource groups."),
    "workers": ("interbed.optimizer.cli.status:workers", "The workers."),
    "pause": ("interbed.optimizer.cli.status:pause", "Begin nothing more for a table."),
    "resume": ("interbed.optimizer.cli.status:resume", "Go on with a table that was paused."),
    "now": ("interbed.optimizer.cli.status:now", "Have one kind of work done next for a table."),
    "worker": ("interbed.optimizer.cli.run:worker", "Work for an optimizer that runs elsewhere."),
}
"""Where each command is, and what the list of commands says of it."""


class _Commands(CatalogGroup):
    """Imports commands when they are asked for: those that look need no Thrift, those that work no tables of text."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return with_catalog(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=_Commands)
def optimizer() -> None:
    """Keep the tables of a catalog in shape, by a service that finds what each needs and has workers do it."""
