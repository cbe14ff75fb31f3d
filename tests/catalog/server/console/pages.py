"""The pages of a guarded metastore in this process."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from interbed.catalog.server.auth.console_sessions import new_secret
from interbed.catalog.server.console.cookies import SECRET_HEADER, form_token
from interbed.catalog.server.console.interface import console_interface
from interbed.catalog.server.console.rendering import PageTemplates
from interbed.catalog.server.process.main import dispatcher_for
from interbed.catalog.server.rest.interface import RestError, RestInterface, RestRequest, RouteTable
from interbed.catalog.server.service.access.administration import AccessAdministration
from interbed.catalog.server.service.access.builtin import BuiltinAuthorizer
from interbed.catalog.server.service.access.granting import GrantRequest
from interbed.catalog.server.service.access.guard import AccessGuard
from interbed.catalog.server.service.access.objects import Privilege, SecuredObject, user_named
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.call import present_caller
from tests.catalog.server.access.guarded import ADMIN, GuardedMetastore, guarded_metastore, handled, session_of
from tests.catalog.server.console.browser import PageAnswer, problems_of


@dataclass
class ConsolePages:
    """The pages of a metastore that decides what callers may do."""

    guarded: GuardedMetastore
    interface: RestInterface
    secret: str

    def get(self, name: str, address: str) -> PageAnswer:
        """Return a page for a principal. AssertionError for one with faults."""
        return self._send(name, "GET", address, None)

    def post(self, name: str, address: str, fields: Mapping[str, str]) -> PageAnswer:
        """Return the answer to a form of a principal, whose token the gate has checked."""
        return self._send(name, "POST", address, {**fields, "form-token": form_token(self.secret)})

    def _send(self, name: str, method: str, address: str, fields: Mapping[str, str] | None) -> PageAnswer:
        parts = urlsplit(address)
        path = parts.path.removeprefix("/console").removeprefix("/")
        found = RouteTable(self.interface.routes).find(method, path)
        assert found is not None, address
        route, names = found
        request = RestRequest(
            parts=names,
            query=dict(parse_qsl(parts.query, keep_blank_values=True)),
            headers={SECRET_HEADER: self.secret},
            body=b"" if fields is None else urlencode(fields).encode(),
            session=session_of(name),
        )
        answer = handled(self.interface, route, request)
        if isinstance(answer, RestError):
            assert self.interface.error_page is not None
            body = self.interface.error_page(answer)[1].decode()
            assert problems_of(body) == []
            return PageAnswer(int(answer.status), [], body)
        body = answer.body.decode()
        if body:
            assert problems_of(body) == []
        return PageAnswer(int(answer.status), list(answer.headers.items()), body)


def _interface(metastore: Metastore) -> RestInterface:
    return console_interface(metastore, dispatcher_for(metastore), PageTemplates(has_login=True))


def by_stored_grants(pages: ConsolePages, *grants: tuple[str, SecuredObject]) -> ConsolePages:
    """Return the pages of the same database for a server that decides by roles and grants; the principals get SELECT on
    the objects.
    """
    store = pages.guarded.store
    authorizer = BuiltinAuthorizer(store, admins=[ADMIN])
    administration = AccessAdministration(store, authorizer, admins=[ADMIN])
    requests = [GrantRequest(privilege=Privilege.SELECT, on=on, to=user_named(name)) for name, on in grants]
    administration.grant(requests, None)
    metastore = Metastore(
        store, f"file:{pages.guarded.root / 'warehouse'}", access=AccessGuard(authorizer, present_caller)
    )
    return replace(pages, interface=_interface(metastore))


@contextmanager
def console_pages(root: Path, *, undrop_seconds: float = 3600) -> Iterator[ConsolePages]:
    """Yield the pages of a guarded metastore."""
    with guarded_metastore(root, undrop_seconds=undrop_seconds) as guarded:
        interface = _interface(guarded.metastore)
        yield ConsolePages(guarded, interface, new_secret())
