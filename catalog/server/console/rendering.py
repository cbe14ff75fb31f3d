"""How values become HTML: templates with escaping, and the parts that pages share.

Each value of a template is escaped for HTML, and its control characters, zero-width characters and marks of direction
are shown as numbers, so that a name cannot look like another one. A value that a template does not know is an error.
Parts of an address are encoded whole.
"""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from interbed.catalog.server.console.cookies import ROOT, SECRET_HEADER, form_token
from interbed.catalog.server.rest.interface import RestRequest, RestResponse
from interbed.storage.base.shown_text import escaped

_PACKAGE = "interbed.catalog.server.console"
LOGIN, LOGOUT = f"{ROOT}/login", f"{ROOT}/logout"
HTML = "text/html; charset=utf-8"
TOKEN_FIELD = "form-token"
"""The field of a form with its token."""

Crumbs = list[tuple[str, str | None]]
"""Texts and addresses of the path to a page; the page itself has no address."""


def address(*parts: str, **query: str | None) -> str:
    """Return the address of a page: its parts below the console, and the parameters of its query that are given."""
    path = "/".join((ROOT, *(quote(part, safe="") for part in parts)))
    given = {name: value for name, value in query.items() if value}
    return f"{path}?{urlencode(given)}" if given else path


def shown_lines(text: object) -> Markup:
    """Return a text of several lines, each as a value of a template is shown."""
    return Markup("\n").join(escaped(line) for line in str(text).splitlines())


def moment(seconds: float) -> str:
    """Return a time of UTC, to the second; a number that no calendar has is shown as it is."""
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return str(seconds)


def _finalized(value: object) -> object:
    if value is None:
        return ""
    return value if isinstance(value, Markup) else escaped(str(value))


def _source(name: str) -> str:
    return resources.files(_PACKAGE).joinpath("templates", name).read_text(encoding="utf-8")


@cache
def style_sheet() -> bytes:
    """Return the style sheet of all pages."""
    return resources.files(_PACKAGE).joinpath("static", "console.css").read_bytes()


@cache
def style_address() -> str:
    """Return the address of the style sheet, another one for another content."""
    return f"{ROOT}/static/console.css?{hashlib.sha256(style_sheet()).hexdigest()[:16]}"


class PageTemplates:
    """The templates of the console. `has_login` says whether clients log in. Safe for many threads."""

    def __init__(self, *, has_login: bool) -> None:
        self._has_login = has_login
        self._environment = Environment(
            loader=FunctionLoader(_source),
            autoescape=True,
            undefined=StrictUndefined,
            finalize=_finalized,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(lines=shown_lines, moment=moment)
        functions: Mapping[str, Callable[..., object]] = {"address": address}
        self._environment.globals.update(
            functions,
            has_login=has_login,
            login=LOGIN,
            logout=LOGOUT,
            style=style_address(),
            token_field=TOKEN_FIELD,
        )

    def html(
        self,
        template: str,
        title: str,
        *,
        user: str | None = None,
        secret: str | None = None,
        crumbs: Crumbs | None = None,
        **values: Any,
    ) -> bytes:
        """Return a page for a user, None for a client without one; `secret` is that of the token of its forms."""
        found = self._environment.get_template(template).render(
            title=title,
            user=user,
            form_token=None if secret is None else form_token(secret),
            crumbs=crumbs or [],
            **values,
        )
        return found.encode("utf-8", "replace")

    def page(self, request: RestRequest, template: str, title: str, crumbs: Crumbs, **values: Any) -> RestResponse:
        """Return the response to a request of a client that may see the page."""
        body = self.html(
            template,
            title,
            user=request.session.user,
            secret=request.headers.get(SECRET_HEADER),
            crumbs=crumbs,
            **values,
        )
        return RestResponse(body=body, headers={"content-type": HTML})

    def error(self, status: HTTPStatus, message: str) -> bytes:
        """Return the page of a refused request."""
        return self.html("error.html", f"{int(status)} {status.phrase}", message=message)


def seen_after(location: str) -> RestResponse:
    """Return the response to a change: the browser gets a page of the console."""
    return RestResponse(status=HTTPStatus.SEE_OTHER, headers={"location": location})
