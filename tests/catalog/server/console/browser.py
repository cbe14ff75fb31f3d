"""A browser for the tests of the console: it keeps cookies, sends forms and parses pages, and runs no script."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection, HTTPSConnection
from http.cookies import SimpleCookie
from pathlib import Path
from urllib.parse import urlencode

from tests.support.waits import at_most

VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"))


@dataclass
class PageElement:
    """An element of a page, with the text in it."""

    tag: str
    attributes: Mapping[str, str]
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the element and of those in it, without blanks at its ends."""
        return " ".join("".join(self.texts).split())


class ParsedPage(HTMLParser):
    """A page as a parser sees it: the faults of its structure, and its elements."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[PageElement] = []
        self.faults: list[str] = []
        self._open: list[PageElement] = []
        self.feed(html)
        self.close()
        self.faults += [f"<{each.tag}> is not closed" for each in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin an element of the page."""
        names = [name for name, _ in attrs]
        if len(set(names)) != len(names):
            self.faults.append(f"<{tag}> has an attribute twice: {names}")
        element = PageElement(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        """End the innermost open element."""
        if not self._open or self._open[-1].tag != tag:
            self.faults.append(f"</{tag}> ends {self._open[-1].tag if self._open else 'nothing'}")
            return
        self._open.pop()

    def handle_data(self, data: str) -> None:
        """Add text to all open elements."""
        for each in self._open:
            each.texts.append(data)

    def all(self, tag: str) -> list[PageElement]:
        """Return the elements of a tag."""
        return [each for each in self.elements if each.tag == tag]

    @property
    def links(self) -> dict[str, str]:
        """The addresses of links by their texts."""
        return {each.text: each.attributes["href"] for each in self.all("a")}

    @property
    def rows(self) -> list[str]:
        """The texts of the rows of all tables."""
        return [each.text for each in self.all("tr")]

    @property
    def hidden(self) -> dict[str, str]:
        """The hidden fields of all forms."""
        fields = [each.attributes for each in self.all("input") if each.attributes.get("type") == "hidden"]
        return {each["name"]: each["value"] for each in fields}


def problems_of(html: str) -> list[str]:
    """Return what of a page is not accessible, or not of our own making; empty for a good page."""
    page = ParsedPage(html)
    found = list(page.faults)
    if not html.startswith("<!doctype html>"):
        found.append("the page has no doctype")
    if [each.attributes.get("lang") for each in page.all("html")] != ["en"]:
        found.append("the page has no language")
    if len(page.all("h1")) != 1:
        found.append(f"the page has {len(page.all('h1'))} headings of the first level")
    if not [each for each in page.all("title") if each.text]:
        found.append("the page has no title")
    if len(page.all("main")) != 1:
        found.append("the page has no main part")
    if page.links.get("Skip to the content") != "#content":
        found.append("the page has no link to its content")
    ids = [each.attributes["id"] for each in page.elements if "id" in each.attributes]
    if len(set(ids)) != len(ids):
        found.append(f"an id is there twice: {sorted(ids)}")
    labels = {each.attributes.get("for") for each in page.all("label")}
    inputs = [each.attributes for each in page.all("input") if each.attributes.get("type") != "hidden"]
    found += [f"an input has no label: {each}" for each in inputs if each.get("id") not in labels]
    found += [f"a header of a table has no scope: {each.text}" for each in page.all("th") if not _has_scope(each)]
    found += [f"a table has no caption: {each.text[:50]}" for each in page.all("table") if "<caption>" not in html]
    found += [f"a button has no text: {each.attributes}" for each in page.all("button") if not each.text]
    found += [f"a link has no text: {each.attributes}" for each in page.all("a") if not each.text]
    known = {"html", "head", "meta", "title", "link", "body", "a", "header", "form", "input", "span", "bdi", "button"}
    known |= {"p", "nav", "ol", "ul", "li", "main", "h1", "h2", "label", "code", "div", "table", "caption", "thead"}
    known |= {"tbody", "tr", "th", "td", "dl", "dt", "dd", "pre"}
    for each in page.elements:
        if each.tag not in known:
            found.append(f"the page has an element <{each.tag}>")
        found += [
            f"<{each.tag}> has the attribute {name}"
            for name in each.attributes
            if name.startswith("on") or name in ("style", "srcdoc", "formaction")
        ]
        for name in ("href", "src", "action"):
            if not each.attributes.get(name, "/console").startswith(("/console", "#content")):
                found.append(f"<{each.tag}> leads to {each.attributes[name]}")
    return found


def _has_scope(header: PageElement) -> bool:
    return header.attributes.get("scope") in ("col", "row")


@dataclass
class PageAnswer:
    """A response with its headers."""

    status: int
    headers: list[tuple[str, str]]
    body: str

    def header(self, name: str) -> str | None:
        """Return the only value of a header, None without one."""
        found = [value for each, value in self.headers if each.lower() == name]
        assert len(found) <= 1, found
        return found[0] if found else None

    @property
    def cookies(self) -> list[str]:
        """The values of the headers Set-Cookie."""
        return [value for name, value in self.headers if name.lower() == "set-cookie"]

    @property
    def page(self) -> ParsedPage:
        """The body as a parsed page."""
        return ParsedPage(self.body)


@dataclass
class ConsoleBrowser:
    """A browser with cookies, for one server."""

    host: str
    port: int
    cookies: dict[str, str] = field(default_factory=dict)
    authority: Path | None = None
    """The authority of the server's certificate, of one with TLS."""

    def request(
        self, method: str, path: str, fields: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> PageAnswer:
        """Send one request with the cookies, keep those of the answer, and return it."""
        sent = dict(headers or {})
        if self.cookies and "cookie" not in sent:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        body = None
        if fields is not None:
            body = urlencode(fields).encode()
            sent.setdefault("content-type", "application/x-www-form-urlencoded")
        connection: HTTPConnection
        if self.authority is None:
            connection = HTTPConnection(self.host, self.port, timeout=at_most(30))
        else:
            context = ssl.create_default_context(cafile=self.authority)
            connection = HTTPSConnection(self.host, self.port, timeout=at_most(30), context=context)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            answer = PageAnswer(response.status, response.getheaders(), response.read().decode())
        finally:
            connection.close()
        for each in answer.cookies:
            for name, morsel in SimpleCookie(each).items():
                if morsel["max-age"] == "0":
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = morsel.value
        return answer

    def get(self, path: str, **headers: str) -> PageAnswer:
        """Return the answer to a read of a page."""
        return self.request("GET", path, headers=headers)

    def post(self, path: str, fields: Mapping[str, str], **headers: str) -> PageAnswer:
        """Return the answer to a form."""
        return self.request("POST", path, fields, headers)

    def log_in(self, token: str, following: str = "/console") -> PageAnswer:
        """Send the form of the login with a token."""
        form = self.get(f"/console/login?{urlencode({'next': following})}")
        return self.post("/console/login", {**form.page.hidden, "token": token})
