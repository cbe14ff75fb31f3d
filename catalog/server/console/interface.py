"""The pages of the console as an interface, and the application of them behind the gate.

The pages are routes as those of REST: they have the same limits, share of the threads, checks of access, logs and
audit. Errors are pages, too.
"""

from http import HTTPStatus

from interbed.catalog.server.auth.authentication import Authentication, CertificateEnds
from interbed.catalog.server.auth.console_sessions import ConsoleSessions
from interbed.catalog.server.console.catalog_pages import CatalogPages
from interbed.catalog.server.console.cookies import ROOT, CookieNames
from interbed.catalog.server.console.gate import ConsoleGate
from interbed.catalog.server.console.login import ConsoleLogin
from interbed.catalog.server.console.operation_pages import OperationPages
from interbed.catalog.server.console.rendering import HTML, PageTemplates
from interbed.catalog.server.console.version_pages import VersionPages
from interbed.catalog.server.http.application import HttpAnswers
from interbed.catalog.server.rest.endpoint import RestEndpoint
from interbed.catalog.server.rest.interface import RestError, RestInterface
from interbed.catalog.server.rest.mounted import guarded_own
from interbed.catalog.server.rest.own_interface import translated
from interbed.catalog.server.service.service import Metastore
from interbed.catalog.server.thrift.edge.dispatch import Dispatcher


def console_interface(metastore: Metastore, dispatcher: Dispatcher, templates: PageTemplates) -> RestInterface:
    """Return the pages as an interface whose routes ask for what they need."""

    def error_page(error: RestError) -> tuple[str, bytes]:
        return HTML, templates.error(error.status, str(error))

    made = RestInterface(
        name="console",
        path=ROOT,
        routes=[
            *CatalogPages(metastore, templates).routes(),
            *VersionPages(metastore, dispatcher, templates).routes(),
            *OperationPages(metastore, templates).routes(),
        ],
        error_body=lambda error: {"error": str(error)},
        translated=translated,
        missing=lambda _method, _path: RestError(
            HTTPStatus.NOT_FOUND, "NoSuchPage", "There is no page of this address."
        ),
        error_page=error_page,
    )
    return guarded_own(metastore, made)


def console_gate(
    metastore: Metastore,
    answers: HttpAnswers,
    *,
    is_secure: bool,
    authentication: Authentication | None,
    sessions: ConsoleSessions | None,
) -> ConsoleGate:
    """Return the application of the console (console_mount)."""
    templates = PageTemplates(has_login=authentication is not None)
    login, check_certificate = None, CertificateEnds().check
    if authentication is not None:
        login, check_certificate = ConsoleLogin(authentication, sessions), authentication.check_certificate
    return ConsoleGate(
        RestEndpoint(console_interface(metastore, answers.edge.dispatcher, templates), answers),
        templates,
        CookieNames(is_secure),
        answers.edge.dispatcher,
        login,
        check_certificate,
    )
