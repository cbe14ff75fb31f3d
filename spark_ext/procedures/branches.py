"""Procedures about branches (documentation pages `spark/procedures`, `maintenance/manage-branches`)."""

from interbed.spark_ext.procedures.procedure import DONE, TABLE, Answer, Procedure, ProcedureCall, optional, required
from interbed.storage.base.errors import BranchNotFoundError
from interbed.storage.meta.paths import MAIN_BRANCH

_BRANCH = required("branch")


def _create_branch(call: ProcedureCall) -> Answer:
    # The flag is text in Paimon's procedure.
    lenient = str(call.given("ignoreIfExists")).lower() == "true"
    call.table().create_branch(call.needed("branch"), call.given("tag"), ignore_if_exists=lenient)
    return DONE


def _delete_branch(call: ProcedureCall) -> Answer:
    table = call.table()
    # Several are parted by commas, as in Paimon; all of them are looked up before one goes.
    names = [name.strip() for name in call.needed("branch").split(",") if name.strip()]
    unknown = set(names) - set(table.branches())
    if unknown:
        raise BranchNotFoundError(f"There is no branch {', '.join(map(repr, sorted(unknown)))} of '{table.name}'.")
    for name in names:
        table.delete_branch(name)
    return DONE


def _rename_branch(call: ProcedureCall) -> Answer:
    call.table().rename_branch(call.needed("from_branch"), call.needed("to_branch"))
    return DONE


def _fast_forward(call: ProcedureCall) -> Answer:
    call.table().fast_forward(call.needed("branch"))
    return DONE


def _merge_branch(call: ProcedureCall) -> Answer:
    call.table().merge_branch(call.needed("source_branch"), str(call.given("target_branch") or MAIN_BRANCH))
    return DONE


PROCEDURES = (
    Procedure(
        name="merge_branch",
        description="Adds the rows of a branch to another one, or to the table; of append tables.",
        parameters=(TABLE, required("source_branch"), optional("target_branch")),
        call=_merge_branch,
    ),
    Procedure(
        name="create_branch",
        description="Makes a branch: empty, or with what a tag keeps.",
        parameters=(TABLE, _BRANCH, optional("tag"), optional("ignoreIfExists")),
        call=_create_branch,
    ),
    Procedure(
        name="delete_branch",
        description="Deletes branches.",
        parameters=(TABLE, _BRANCH),
        call=_delete_branch,
    ),
    Procedure(
        name="rename_branch",
        description="Gives a branch another name.",
        parameters=(TABLE, required("from_branch"), required("to_branch")),
        call=_rename_branch,
    ),
    Procedure(
        name="fast_forward",
        description="Makes the table what a branch of it is.",
        parameters=(TABLE, _BRANCH),
        call=_fast_forward,
    ),
)
