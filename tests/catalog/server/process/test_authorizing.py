"""The authorizer of a server, as its settings choose it."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.process.opening import administration_for, authorizer_for
from interbed.catalog.server.service.access.objects import SERVER, Access, Caller, Privilege
from interbed.catalog.server.service.errors import MetastoreError
from interbed.catalog.server.settings import ServerSettings
from tests.support.databases import open_migrated


class OnlyAnn:
    """An authorizer that permits everything to `ann`."""

    def decide(self, caller: Caller, questions: Sequence[Access]) -> Sequence[bool]:
        """Return an answer to each question."""
        return [caller.name == "ann"] * len(questions)


class WithArguments:
    """A class that cannot be made without arguments."""

    def __init__(self, first: str) -> None:
        self.first = first


class UndecidedAuthorizer:
    """A class that decides nothing."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlRepository]:
    """Yield a migrated database."""
    opened = open_migrated(f"sqlite:///{tmp_path / 'metastore.db'}")
    yield opened
    opened.close()


def test_by_default_there_is_none(store: SqlRepository) -> None:
    assert authorizer_for(ServerSettings(), store) is None
    assert administration_for(ServerSettings(), store, None) is None


def test_the_users_of_the_setting_are_administrators(store: SqlRepository) -> None:
    settings = ServerSettings(access_authorizer="builtin", access_admins="root, ops", authentication="token")
    authorizer = authorizer_for(settings, store)
    assert authorizer is not None
    question = [Access(Privilege.ALL, SERVER)]
    answers = {name: authorizer.decide(Caller(name), question) for name in ("root", "ops", "ann")}
    assert answers == {"root": [True], "ops": [True], "ann": [False]}
    administration = administration_for(settings, store, authorizer)
    assert administration is not None
    assert len(administration.roles(Caller("ops"))) == 2


def test_a_class_of_ones_own_is_found_by_its_name(store: SqlRepository) -> None:
    settings = ServerSettings(access_authorizer=f"{__name__}:OnlyAnn", authentication="token")
    authorizer = authorizer_for(settings, store)
    assert authorizer is not None
    assert authorizer.decide(Caller("ann"), [Access(None, SERVER)]) == [True]
    assert administration_for(settings, store, authorizer) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.such.module:A", "the module no.such.module cannot be imported"),
        (f"{__name__}:Missing", "has no class Missing"),
        (f"{__name__}:WithArguments", "cannot be made without arguments: .*first"),
        (f"{__name__}:UndecidedAuthorizer", "has no method `decide`"),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(store: SqlRepository, name: str, message: str) -> None:
    with pytest.raises(MetastoreError, match=message):
        authorizer_for(ServerSettings(access_authorizer=name, authentication="token"), store)
