"""Sessions of the console: how they begin and end, what a cookie is worth, and which forms are carried out."""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from interbed.catalog.server.auth.authentication import Authentication
from interbed.catalog.server.auth.console_sessions import (
    SESSION_SECONDS,
    SESSIONS_MAX,
    ConsoleSessions,
    new_secret,
)
from interbed.catalog.server.auth.issued_tokens import TokenService
from interbed.catalog.server.auth.principals import (
    AuthenticationError,
    AuthenticationUnavailableError,
    Mechanism,
    Principal,
)
from interbed.catalog.server.console.cookies import ConsoleCookies, CookieNames, form_token
from interbed.catalog.server.console.login import LOOKUPS_MAX, ConsoleLogin
from interbed.catalog.server.database.session import SqlRepository
from interbed.catalog.server.service.model import MetastoreTable
from tests.catalog.server.access.guarded import STORAGE
from tests.catalog.server.auth.issuer import rsa_key, trusting
from tests.catalog.server.console.browser import ConsoleBrowser, problems_of
from tests.catalog.server.console.served import GUARDED, ConsoleServer, console_server
from tests.catalog.server.migration.commands import run
from tests.support.certificates import make_certificates
from tests.support.databases import open_migrated
from tests.support.waits import at_most, wait_until

COOKIE, FORM_COOKIE = "interbed-console", "interbed-console-form"
HOME = "/console"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleServer]:
    """Run a server whose console asks for a login."""
    directory = tmp_path_factory.mktemp("console")
    with console_server(directory, *GUARDED, "--audit-log", str(directory / "audit.log")) as server:
        yield server


def is_in(browser: ConsoleBrowser) -> bool:
    """Return whether a browser gets pages."""
    answer = browser.get(HOME)
    assert answer.status in (200, 303), answer.body
    return answer.status == 200


def test_a_token_begins_a_session_and_the_logout_ends_it(served: ConsoleServer) -> None:
    browser, token = served.browser(), served.token("ann", "--group", "analysts")["token"]
    asked = browser.get("/console/catalogs/hive?prefix=a")
    assert (asked.status, asked.header("location")) == (
        303,
        "/console/login?next=%2Fconsole%2Fcatalogs%2Fhive%3Fprefix%3Da",
    )
    form = browser.get(asked.header("location") or "")
    assert problems_of(form.body) == []
    assert form.page.hidden["next"] == "/console/catalogs/hive?prefix=a"
    begun = browser.post("/console/login", {**form.page.hidden, "token": token})
    assert (begun.status, begun.header("location")) == (303, "/console/catalogs/hive?prefix=a")
    (cookie,) = begun.cookies
    assert re.fullmatch(rf"{COOKIE}=[\w-]{{43}}; Path=/console; HttpOnly; SameSite=Strict", cookie)
    assert token not in cookie
    home = browser.get(HOME)
    assert home.status == 200
    assert problems_of(home.body) == []
    assert "Logged in as ann" in home.page.all("header")[0].text
    stolen = ConsoleBrowser(browser.host, browser.port, dict(browser.cookies))
    ended = browser.post("/console/logout", home.page.hidden)
    assert (ended.status, ended.header("location")) == (303, "/console/login")
    assert COOKIE not in browser.cookies
    assert not is_in(browser)
    assert not is_in(stolen)


def test_logins_and_logouts_are_lines_of_the_audit_log(served: ConsoleServer) -> None:
    browser = served.logged_in("auditor")
    browser.post("/console/logout", browser.get(HOME).page.hidden)
    lines = [json.loads(line) for line in (served.server.warehouse.parent / "audit.log").read_text().splitlines()]
    mine = [(each["method"], each["mechanism"]) for each in lines if each["user"] == "auditor"]
    assert mine == [("console.login", "token"), ("console.logout", "token")]


@pytest.mark.attack("forged tokens")
def test_no_forged_cookie_is_a_session(served: ConsoleServer, tmp_path: Path) -> None:
    browser = served.logged_in("ann")
    good = browser.cookies[COOKIE]
    with console_server(tmp_path / "other", *GUARDED) as other:
        foreign = other.logged_in("ann").cookies[COOKIE]
    changed = good[:-1] + ("A" if good[-1] != "A" else "B")
    token = served.token("ann")["token"]
    for wrong in ("", good[:-1], good[:20], changed, good + "A", f"{good} ", foreign, token, "null", good.swapcase()):
        sent = ConsoleBrowser(browser.host, browser.port)
        answer = sent.get(HOME, cookie=f"{COOKIE}={wrong}") if wrong != f"{good} " else sent.get(HOME)
        assert answer.status == 303, wrong
        assert answer.body == ""
    twice = ConsoleBrowser(browser.host, browser.port).get(HOME, cookie=f"{COOKIE}={good}; {COOKIE}={good}")
    assert twice.status == 303
    of_forms = ConsoleBrowser(browser.host, browser.port).get(HOME, cookie=f"{FORM_COOKIE}={good}")
    assert of_forms.status == 303
    assert is_in(browser)


@pytest.mark.attack("forged tokens")
def test_the_cookie_is_worth_nothing_for_other_interfaces(served: ConsoleServer) -> None:
    browser = served.logged_in("root")
    for path in ("/iceberg/v1/config", "/paimon/v1/config", "/interbed/v1/hive/dropped", "/metastore"):
        assert browser.get(path).status == 401, path
    token = f"Bearer {browser.cookies[COOKIE]}"
    assert ConsoleBrowser(browser.host, browser.port).get("/iceberg/v1/config", authorization=token).status == 401


def test_a_header_with_a_token_is_no_session(served: ConsoleServer) -> None:
    answer = served.browser().get(HOME, authorization=f"Bearer {served.token('ann')['token']}")
    assert answer.status == 303


@pytest.mark.attack("forged tokens")
def test_a_session_ends_with_its_token(served: ConsoleServer) -> None:
    browser, issued = served.browser(), served.token("ann")
    browser.log_in(issued["token"])
    assert is_in(browser)
    run("token", "revoke", issued["id"], "--db", served.server.db)
    wait_until(lambda: not is_in(browser), "the session ends with its token")
    assert browser.log_in(issued["token"]).status == 403


def test_wrong_tokens_are_refused_with_the_form_again(served: ConsoleServer) -> None:
    browser = served.browser()
    for wrong in ("", "x", "ibt_0123456789abcdef_" + "A" * 43, "eyJ.a.b", "<script>"):
        answer = browser.log_in(wrong, "/console/locks")
        assert answer.status == 403, wrong
        assert problems_of(answer.body) == []
        (problem,) = [each for each in answer.page.elements if each.attributes.get("role") == "alert"]
        assert problem.text
        assert answer.page.hidden["next"] == "/console/locks"
        assert COOKIE not in browser.cookies


@pytest.mark.attack("forged tokens")
def test_a_form_needs_the_token_of_its_own_session(served: ConsoleServer) -> None:
    mine, other = served.logged_in("ann"), served.logged_in("bob")
    of_other = other.get(HOME).page.hidden
    of_login = served.browser().get("/console/login").page.hidden
    for fields in ({}, {"form-token": ""}, of_other, of_login, {"form-token": "é"}):
        answer = mine.post("/console/logout", fields)
        assert answer.status == 403, fields
        assert problems_of(answer.body) == []
    good = mine.get(HOME).page.hidden
    for origin in ("https://evil.example", "null", f"http://127.0.0.1:{mine.port + 1}", "http://127.0.0.1", "http://["):
        assert mine.post("/console/logout", good, origin=origin).status == 403, origin
    assert is_in(mine)
    with_file = mine.request("POST", "/console/logout", good, {"content-type": "text/plain"})
    assert with_file.status == 415
    assert mine.post("/console/logout", {**good, "x": "y" * 70_000}).status == 413
    assert mine.post("/console/logout", good, origin=f"http://127.0.0.1:{mine.port}").status == 303


@pytest.mark.attack("forged tokens")
def test_a_login_needs_the_token_of_its_form_and_leads_to_no_other_host(served: ConsoleServer) -> None:
    token = served.token("ann")["token"]
    browser = served.browser()
    assert browser.post("/console/login", {"token": token}).status == 403
    assert COOKIE not in browser.cookies
    for following in (
        *("https://evil.example/", "//evil.example/console", "/console//\\evil", "/consolex", "javascript:alert(1)"),
        *("/console/\r\nset-cookie: a=b", "/console/../iceberg", "/console/logout", "/console/<script>"),
        *("/console/é", "/console/" + "a" * 5000, "", "console"),
    ):
        answer = served.browser().log_in(token, following)
        assert (answer.status, answer.header("location")) == (303, HOME), following
        assert not answer.header("a")


def test_a_new_login_has_a_new_secret(served: ConsoleServer) -> None:
    browser, token = served.browser(), served.token("ann")["token"]
    browser.log_in(token)
    first = dict(browser.cookies)
    form = ConsoleBrowser(browser.host, browser.port)
    form.cookies = {FORM_COOKIE: first[COOKIE]}
    form.log_in(token)
    assert form.cookies[COOKIE] not in first.values()


def test_a_page_that_another_site_opens_is_opened_again(served: ConsoleServer) -> None:
    path = f"/console/catalogs/{quote('<a>', safe='')}?prefix=x%22"
    answer = served.browser().get(path, **{"sec-fetch-site": "cross-site"})
    assert (answer.status, answer.cookies) == (200, [])
    assert problems_of(answer.body) == []
    (refresh,) = [each for each in answer.page.all("meta") if "http-equiv" in each.attributes]
    assert refresh.attributes["content"] == f"0; url={path}"
    assert served.browser().get(path, **{"sec-fetch-site": "same-origin"}).status == 303


def test_each_response_has_the_headers_that_browsers_hold_to(served: ConsoleServer) -> None:
    browser = served.logged_in("ann")
    paths = [HOME, "/console/login", "/console/catalogs/none", "/console/nothing", "/console/catalogs/%ff"]
    paths.append(browser.get(HOME).page.all("link")[0].attributes["href"])
    answers = [*map(browser.get, paths), served.browser().get(HOME), browser.post("/console/logout", {})]
    assert [each.status for each in answers] == [200, 200, 404, 404, 400, 200, 303, 403]
    for answer in answers:
        policy = dict(
            part.strip().split(" ", 1) for part in (answer.header("content-security-policy") or "").split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["style-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert answer.header("x-content-type-options") == "nosniff"
        assert answer.header("referrer-policy") == "same-origin"
        is_style = (answer.header("content-type") or "").startswith("text/css")
        assert is_style == (answer.header("cache-control") != "no-store")
        if not is_style and answer.status != 303:
            assert problems_of(answer.body) == []


def test_no_page_is_served_to_a_stranger(served: ConsoleServer) -> None:
    names = "/console/catalogs/hive/databases/default/tables/t"
    for path in (HOME, "/console/catalogs/hive", names, "/console/nothing", "/console/static/other"):
        answer = served.browser().get(path)
        assert (answer.status, answer.body) == (303, ""), path
        assert served.browser().request("HEAD", path).status == 303
        for method in ("POST", "PUT", "DELETE"):
            assert served.browser().request(method, path, {"a": "b"}).status == 403


def test_without_authentication_there_is_no_login(tmp_path: Path) -> None:
    with console_server(tmp_path) as server:
        browser = server.browser()
        answer = browser.get(HOME)
        assert answer.status == 200
        assert problems_of(answer.body) == []
        assert "Authentication is off" in answer.page.all("header")[0].text
        assert list(browser.cookies) == [FORM_COOKIE]
        assert browser.get(HOME).cookies == []
        assert browser.get("/console/login").status == 404
        assert browser.get("/console/nothing").status == 404


def test_over_tls_cookies_are_secure_and_those_of_plain_http_are_none(tmp_path: Path) -> None:
    files = make_certificates(tmp_path)
    tls = ("--tls-certificate", str(files / "server.pem"), "--tls-key", str(files / "server.key"))
    with console_server(tmp_path / "server", *GUARDED, *tls) as server:
        browser = ConsoleBrowser("localhost", server.server.http_port, authority=files / "ca.pem")
        begun = browser.log_in(server.token("ann")["token"])
        assert begun.status == 303
        (cookie,) = begun.cookies
        assert re.fullmatch(r"__Host-interbed-console=[\w-]{43}; Secure; Path=/; HttpOnly; SameSite=Strict", cookie)
        assert is_in(browser)
        secret = browser.cookies["__Host-interbed-console"]
        assert browser.get(HOME, cookie=f"{COOKIE}={secret}").status == 303
        good = browser.get(HOME).page.hidden
        assert browser.post("/console/logout", good, origin=f"https://localhost:{browser.port}").status == 303


def test_a_server_without_tokens_says_why_there_is_no_form(tmp_path: Path) -> None:
    with console_server(tmp_path, "--authentication", "jwt", *trusting(tmp_path, rsa_key())) as server:
        browser = server.browser()
        answer = browser.get(browser.get(HOME).header("location") or "")
        assert answer.status == 200
        assert problems_of(answer.body) == []
        assert "this server accepts: jwt" in answer.page.all("main")[0].text
        assert not answer.page.all("form")
        forms = browser.cookies[FORM_COOKIE]
        refused = browser.post("/console/login", {"form-token": form_token(forms), "token": "x"})
        assert (refused.status, refused.cookies) == (200, [])


def test_all_workers_of_a_server_know_a_session(tmp_path: Path) -> None:
    with console_server(tmp_path, *GUARDED, "--workers", "2") as server:
        browser = server.logged_in("ann")
        stolen = ConsoleBrowser(browser.host, browser.port, dict(browser.cookies))
        assert [is_in(stolen) for _ in range(10)] == [True] * 10
        assert browser.post("/console/logout", browser.get(HOME).page.hidden).status == 303
        wait_until(lambda: not any(is_in(stolen) for _ in range(10)), "the session ends in all workers")


def test_a_server_without_the_console_has_no_pages(tmp_path: Path) -> None:
    with console_server(tmp_path, "--console", "off") as server:
        assert server.browser().get(HOME).status == 404


def test_a_dropped_table_is_put_back_by_a_form_of_the_session_alone(served: ConsoleServer) -> None:
    with served.metastore(undrop_seconds=3600) as metastore:
        metastore.tables.create(MetastoreTable(database="default", name="lost", storage=STORAGE))
        metastore.tables.drop("hive", "default", "lost", delete_data=True)
    browser, other = served.logged_in("root"), served.logged_in("root")
    page = browser.get("/console/catalogs/hive/dropped")
    (form,) = [each for each in page.page.all("form") if each.attributes["action"].endswith("/undrop")]
    of_other = other.get("/console/catalogs/hive/dropped").page.hidden
    assert of_other["id"] == page.page.hidden["id"]
    for fields in ({"id": of_other["id"]}, of_other):
        assert browser.post(form.attributes["action"], fields).status == 403
    assert browser.get("/console/catalogs/hive/databases/default/tables/lost").status == 404
    answer = browser.post(form.attributes["action"], {**page.page.hidden, "as": ""})
    assert answer.status == 303, answer.body
    assert answer.header("location") == "/console/catalogs/hive/databases/default/tables/lost"
    assert browser.get(answer.header("location") or "").status == 200
    lines = [json.loads(line) for line in (served.server.warehouse.parent / "audit.log").read_text().splitlines()]
    (line,) = [each for each in lines if each["method"] == "console.undropTable"]
    assert (line["user"], line["outcome"]) == ("root", "ok")


def test_with_tls_browsers_take_the_cookies_of_this_host_alone() -> None:
    names, secret = CookieNames(is_secure=True), new_secret()
    for name, header in (("", names.session(secret)), ("-form", names.form(secret))):
        expected = f"__Host-interbed-console{name}={secret}; Secure; Path=/; HttpOnly; SameSite=Strict"
        assert header == (b"set-cookie", expected.encode())
    sent = [(b"cookie", f"a=b; __Host-interbed-console={secret}; interbed-console-form={secret}".encode())]
    assert names.read(sent) == ConsoleCookies(session=secret, form=None)
    assert CookieNames(is_secure=False).read(sent) == ConsoleCookies(session=None, form=secret)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1_900_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(database_url: str) -> Iterator[SqlRepository]:
    """Open a repository on a migrated database."""
    opened = open_migrated(database_url)
    yield opened
    opened.close()


def _of(token_id: str) -> Principal:
    return Principal(name="ann", mechanism=Mechanism.TOKEN, token_id=token_id)


@pytest.mark.parametrize(("lifetime", "end"), [(None, SESSION_SECONDS), (600, 600)])
def test_a_session_ends_in_time_and_with_its_token(store: SqlRepository, lifetime: int | None, end: int) -> None:
    clock = Clock()
    sessions = ConsoleSessions(store, clock=clock)
    _, issued = TokenService(store, clock=clock).create("ann", groups=["g"], seconds=lifetime)
    secret = sessions.begin(_of(issued.token_id))
    clock.now += end - 1
    found = ConsoleSessions(store, clock=clock).verify(secret)
    assert (found.name, found.groups, found.token_id) == ("ann", frozenset(("g",)), issued.token_id)
    clock.now += 1
    with pytest.raises(AuthenticationError):
        sessions.verify(secret)


def test_sessions_of_a_token_are_bounded_and_ended_ones_are_removed(store: SqlRepository) -> None:
    clock = Clock()
    sessions = ConsoleSessions(store, clock=clock)
    tokens = TokenService(store, clock=clock)
    first, second = tokens.create("ann")[1], tokens.create("bob")[1]
    other = sessions.begin(_of(second.token_id))
    secrets = []
    for _ in range(SESSIONS_MAX + 1):
        secrets.append(sessions.begin(_of(first.token_id)))
        clock.now += 1
    with pytest.raises(AuthenticationError):
        sessions.verify(secrets[0])
    assert {sessions.verify(each).name for each in secrets[1:]} == {"ann"}
    assert sessions.verify(other).name == "bob"
    clock.now += SESSION_SECONDS
    sessions.begin(_of(second.token_id))
    with store.engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM console_sessions").scalar_one() == 1


def test_a_session_is_not_stored_as_its_secret(store: SqlRepository) -> None:
    sessions = ConsoleSessions(store)
    secret = sessions.begin(_of(TokenService(store).create("ann")[1].token_id))
    with store.engine.connect() as connection:
        (row,) = connection.exec_driver_sql("SELECT * FROM console_sessions").all()
    assert secret not in map(str, row)
    assert sessions.end(secret)
    assert not sessions.end(secret)


class HeldLookups(ConsoleSessions):
    """Sessions whose looks at the database wait until they are released."""

    def __init__(self, store: SqlRepository) -> None:
        super().__init__(store)
        self.released = threading.Event()

    def verify(self, secret: str) -> Principal:
        """Wait, and verify a session."""
        assert self.released.wait(at_most(60))
        return super().verify(secret)


def test_forged_cookies_of_one_address_do_not_keep_others_out(store: SqlRepository) -> None:
    tokens = TokenService(store)
    sessions = HeldLookups(store)
    login = ConsoleLogin(Authentication({Mechanism.TOKEN: tokens}), sessions)
    secret = sessions.begin(_of(tokens.create("ann")[1].token_id))

    async def asked() -> Principal | None:
        forged = [asyncio.create_task(login.principal(new_secret(), "192.0.2.1:1")) for _ in range(LOOKUPS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(AuthenticationUnavailableError, match="from this address"):
            await login.principal(new_secret(), "192.0.2.1:2")
        other = asyncio.create_task(login.principal(secret, "192.0.2.2:1"))
        await asyncio.sleep(0)
        sessions.released.set()
        assert await asyncio.gather(*forged) == [None] * LOOKUPS_MAX
        return await other

    found = asyncio.run(asked())
    assert found is not None
    assert found.name == "ann"
