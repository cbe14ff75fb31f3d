"""Names in the journal: what a database has room for."""

from interbed.optimizer.journal.api import JournalChanges
from interbed.storage.base.errors import InvalidInputError

NAME_LENGTH_MAX = 512
"""Characters. The names of two directories with a dot fit, and so do the longest ones of a metastore."""


def check_name(what: str, name: str) -> str:
    """The name, if it fits. Raises InvalidInputError, which calls it `what`."""
    if len(name) > NAME_LENGTH_MAX:
        raise InvalidInputError(
            f"The name of {what} '{name[:40]}…' has {len(name)} characters; the optimizer's journal has room for "
            f"{NAME_LENGTH_MAX}. Give it a shorter one, or leave it out."
        )
    # PostgreSQL has no NUL in texts, and no database half of a pair of surrogates (a file's name that is no UTF-8).
    if "\0" in name or (not name.isascii() and any("\ud800" <= letter <= "\udfff" for letter in name)):
        raise InvalidInputError(
            f"The name of {what} {name!a} has characters that the optimizer's journal can't hold. Give it another one, "
            "or leave it out."
        )
    return name


def check_changes(changes: JournalChanges) -> None:
    """Whether the names of all that is to be stored fit. Raises InvalidInputError."""
    for state in changes.tables:
        check_name("table", state.name)
    for name in changes.gone:
        check_name("table", name)
    for process in changes.processes:
        check_name("process", process.id)
        check_name("table", process.table)
    for task in changes.tasks:
        check_name("process", task.process)
