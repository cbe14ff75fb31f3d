"""Tags, branches and snapshots of tables by the table's name, as pypaimon's catalogs have them."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from interbed.catalog.client.identifier import Identifier
from interbed.storage.base.errors import InvalidInputError

if TYPE_CHECKING:
    from interbed.catalog.client.partition import PagedList
    from interbed.storage.meta.snapshot.snapshot import Snapshot
    from interbed.storage.meta.snapshot.tag import Tag
    from interbed.storage.table.table import Table


class VersionsByName(ABC):
    """What a catalog can do with the versions of its tables; each is the table's own method."""

    @abstractmethod
    def get_table(self, identifier: "str | Identifier") -> "Table":
        """The table of that name."""

    def load_snapshot(self, identifier: "str | Identifier") -> "Snapshot | None":
        """The newest snapshot of a table; None while nothing was committed."""
        return self.get_table(identifier).latest_snapshot()

    def rollback_to(self, identifier: "str | Identifier", instant: int | str) -> "Snapshot":
        """Roll the table back to a snapshot (its id) or a tag (its name); see TableVersions.rollback_to."""
        return self.get_table(identifier).versions.rollback_to(instant)

    def create_tag(
        self,
        identifier: "str | Identifier",
        tag_name: str,
        snapshot_id: int | None = None,
        time_retained: str | None = None,
        ignore_if_exists: bool = False,
    ) -> "Tag":
        """Name a snapshot of a table, the newest one by default; see TableVersions.create_tag."""
        table = self.get_table(identifier)
        return table.versions.create_tag(tag_name, snapshot_id, ignore_if_exists, time_retained)

    def get_tag(self, identifier: "str | Identifier", tag_name: str) -> "Tag":
        """The tag of a name; raises TagNotFoundError."""
        return self.get_table(identifier).versions.get_tag(tag_name)

    def delete_tag(self, identifier: "str | Identifier", tag_name: str) -> "Tag | None":
        """Delete a tag; it is returned, None when its file is damaged. Raises TagNotFoundError."""
        return self.get_table(identifier).versions.delete_tag(tag_name)

    def list_tags_paged(
        self,
        identifier: "str | Identifier",
        max_results: int | None = None,
        page_token: str | None = None,
        tag_name_prefix: str | None = None,
    ) -> "PagedList[str]":
        """A page of the names of a table's tags, sorted; the token is the last name of the page before.

        Raises InvalidInputError for a page of no names.
        """
        from interbed.catalog.client.partition import PagedList

        if max_results is not None and max_results < 1:
            raise InvalidInputError(f"A page has at least one tag, not {max_results}.")
        names = sorted(
            name
            for name in self.get_table(identifier).list_tags()
            if name.startswith(tag_name_prefix or "") and (page_token is None or name > page_token)
        )
        page = names[:max_results]
        return PagedList(elements=page, next_page_token=page[-1] if len(page) < len(names) else None)

    def list_branches(self, identifier: "str | Identifier") -> list[str]:
        """The names of a table's branches but `main`."""
        return self.get_table(identifier).versions.branches()

    def create_branch(self, identifier: "str | Identifier", branch_name: str, tag_name: str | None = None) -> None:
        """Make a branch of a table: empty, or with the rows that a tag keeps. See TableVersions.create_branch."""
        self.get_table(identifier).versions.create_branch(branch_name, tag_name)

    def rename_branch(self, identifier: "str | Identifier", from_branch: str, to_branch: str) -> None:
        """Give a branch another name; see TableVersions.rename_branch."""
        self.get_table(identifier).versions.rename_branch(from_branch, to_branch)

    def drop_branch(self, identifier: "str | Identifier", branch_name: str) -> None:
        """Delete a branch; raises BranchNotFoundError."""
        self.get_table(identifier).versions.delete_branch(branch_name)

    def fast_forward(self, identifier: "str | Identifier", branch_name: str) -> None:
        """Make the table what the branch is; see TableVersions.fast_forward."""
        self.get_table(identifier).versions.fast_forward(branch_name)
