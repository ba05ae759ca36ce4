"""Who gets in, and what an attacker gets: no page without a cookie, no form of another site, no markup of documents."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from flows.service.web import workplace
from flows.service.web.place_page import picture_address
from flows.service.web.visits import COOKIE, LASTS_S, LONGEST_DELAY_S, Keys, WrongSignIns
from flows.service.web.workplace import _local_address
from tests.flows.asks import digest, publish_texts
from tests.flows.web.served import AUTH, OWNER, Site, answer, cited, sign_in, site

SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE = answer(
    "Is it safe?",
    f"{SCRIPT} [1]. 7 won.\n| a {SCRIPT} | b |\n| --- | --- |\n| {SCRIPT} | 2 |",
    cited(1, SCRIPT, document="tram.pdf"),
    unsupported=("7 won.",),
    notes=(SCRIPT,),
    reason=SCRIPT,
)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("closed")
    with site(publish_texts(folder / "index"), folder / "home", {HOSTILE.question: HOSTILE}) as running:
        yield running


@pytest.mark.parametrize("cookie", ["x", "9999999999.aa.bb", ".."])
def test_a_page_without_a_good_cookie_leads_to_the_sign_in(served: Site, cookie: str) -> None:
    with httpx.Client(base_url=served.url, cookies={COOKIE: cookie}) as stranger:
        reply = stranger.get("/ui/")
    assert (reply.status_code, reply.headers["location"].startswith("/ui/sign-in?to=")) == (303, True)


def every_page(method: str) -> list[str]:
    """The addresses of all pages that are for those who have signed in, with something in each variable part."""
    pages = (one for room in (*workplace.ROOMS, workplace) for one in room.pages)
    chosen = [one.path for one in pages if one.method == method and not one.public]
    return [f"/ui{re.sub(r'{[^}]*}', 'x', path)}" for path in chosen]


@pytest.mark.parametrize("path", every_page("GET"))
def test_no_page_is_forgotten_at_the_sign_in(served: Site, path: str) -> None:
    with httpx.Client(base_url=served.url) as stranger:
        reply = stranger.get(path)
        part = stranger.get(path, headers={"HX-Request": "true"})
    assert (reply.status_code, reply.headers["location"].startswith("/ui/sign-in?to=")) == (303, True)
    assert part.status_code == 401


@pytest.mark.parametrize("path", every_page("POST"))
def test_no_form_is_forgotten_at_the_token(served: Site, path: str) -> None:
    with httpx.Client(base_url=served.url) as stranger:
        assert stranger.post(path, data={"token": served.token()}).status_code == 401
    form: Any = {"files": {"files": ("a.txt", b"x")}} if path.endswith("/upload") else {"data": {"question": "x"}}
    assert served.browser.post(path, **form).status_code in (403, 409)  # 409: this server has no documents to change
    assert served.browser.post(path, headers={"Origin": "https://evil.example"}, **form).status_code == 403


def test_no_route_for_programs_is_forgotten(served: Site) -> None:
    described = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    open_to_all = {"/health", "/pictures/{document}/{page}.png"}
    routes = [(method, path) for path in described.keys() - open_to_all for method in described[path]]
    statuses = {
        route: served.browser.request(route[0], re.sub(r"{[^}]*}", "x", route[1]), json={}).status_code
        for route in routes
    }
    assert len(statuses) >= 8
    assert {route: status for route, status in statuses.items() if status != 401} == {}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("//ui/documents", {}),
        ("/UI/documents", {}),
        ("/ui/sign-in/%2e%2e/documents", {}),
        ("/ui/documents;/sign-in", {}),
        ("/ui/sign-in", {"X-Original-URL": "/ui/documents", "X-Rewrite-URL": "/ui/documents"}),
        ("/ui/documents", {"X-Forwarded-For": "127.0.0.1", "X-Forwarded-User": "owner", "Authorization": "Bearer x"}),
        ("/ui/documents", {"Cookie": "trivet=a; trivet=owner"}),
        ("/documents?authorization=Bearer%20x", {}),
    ],
)
def test_no_spelling_and_no_header_leads_around_the_sign_in(served: Site, path: str, headers: dict[str, str]) -> None:
    with socket.create_connection((urlsplit(served.url).hostname, urlsplit(served.url).port), 10) as raw:
        told = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{told}Connection: close\r\n\r\n".encode())
        reply = b"".join(iter(lambda: raw.recv(65_536), b"")).decode()  # httpx would mend the path
    assert "tram.pdf" not in reply
    assert "harbor.pdf" not in reply


def test_a_cookie_ends_and_belongs_to_one_auth_string() -> None:
    now = [1_000.0]
    keys, others = (Keys(SecretStr(auth), clock=lambda: now[0]) for auth in (AUTH, AUTH + "2"))
    cookie = keys.cookie(AUTH) or ""
    assert (keys.identify(cookie)[:5], others.identify(cookie)) == ("pages", "")
    now[0] += LASTS_S
    assert not keys.identify(cookie)


def test_the_owner_of_the_service_signs_in_until_its_secret_changes() -> None:
    secret = [OWNER]
    keys = Keys(SecretStr(AUTH), owner=lambda: secret[0])
    cookie = keys.cookie(OWNER) or ""
    assert (keys.identify(cookie)[:5], keys.cookie("trivet:guess"), keys.cookie("")) == ("owner", None, None)
    secret[0] = "trivet:another"
    assert not keys.identify(cookie)


def test_wrong_sign_ins_are_logged_and_answered_ever_later_and_a_right_one_is_not(
    served: Site, caplog: pytest.LogCaptureFixture
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def guess(wrong: WrongSignIns) -> None:
        for _ in range(12):
            await wrong.delay("10.0.0.7")

    asyncio.run(guess(WrongSignIns(sleep)))
    assert (waits[:3], waits[3:] == sorted(waits[3:]), waits[-1]) == ([0, 0, 0], True, LONGEST_DELAY_S)
    assert caplog.messages[-1] == "wrong sign-in from=10.0.0.7 count=12"
    with caplog.at_level("INFO", "trivet.acts"), httpx.Client(base_url=served.url, follow_redirects=True) as browser:
        browser.headers["X-Forwarded-For"] = "10.0.0.8 about=nothing"
        sign_in(browser, OWNER)
    assert re.fullmatch(r"sign-in by=owner [0-9a-f]{8} from=proxy:10\.0\.0\.8 about=-", caplog.messages[-1])


def test_every_door_counts_a_wrong_auth_string_with_those_of_the_sign_in(
    served: Site, caplog: pytest.LogCaptureFixture
) -> None:
    doors = [
        ("GET", "/search?question=fare"),
        ("GET", "/v1/models"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/mcp"),
    ]
    with httpx.Client(base_url=served.url) as program:
        program.get("/v1/models", headers={"Authorization": f"Bearer {AUTH}"})  # forgets the guesses of other tests
        waited = 0.0
        for method, path in doors:
            wrong = program.request(method, path, headers={"Authorization": "Bearer wrong"})
            assert wrong.status_code == 401
            waited = wrong.elapsed.total_seconds()
            assert program.request(method, path).status_code == 401, "which is no guess"
    assert waited > 0.15, "the fourth is answered later"
    lines = [f"wrong sign-in from=127.0.0.1 count={count}" for count in (1, 2, 3, 4)]
    assert [line for line in caplog.messages if line.startswith("wrong sign-in")] == lines


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites_and_is_for_the_auth_string(served: Site) -> None:
    with httpx.Client(base_url=served.url) as browser:
        [token] = re.findall(r'name="token" value="(\w+)"', browser.get("/ui/sign-in").text)
        wrong = browser.post("/ui/sign-in", data={"token": token, "auth": "wrong-auth-string"})
        reply = browser.post("/ui/sign-in", data={"token": token, "auth": AUTH, "to": "https://evil.example/"})
    assert (wrong.status_code, "set-cookie" in wrong.headers, reply.headers["location"]) == (403, False, "/ui/")
    cookie = {one.lower() for one in reply.headers["set-cookie"].split("; ")}
    assert {"httponly", "samesite=strict", "path=/ui"} <= cookie


@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example/ui/", "/ui/\\evil", "javascript:alert(1)", "/ui/\nx", "/ask"]
)
def test_after_the_sign_in_only_a_page_of_ours_comes(to: str) -> None:
    assert _local_address(to) == "/ui/"


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({}, ""),
        ({}, "0" * 64),
        ({"Origin": "https://evil.example"}, None),
        ({"Origin": "null"}, None),
        ({"Sec-Fetch-Site": "cross-site"}, None),
        ({"Sec-Fetch-Site": "same-site"}, None),
    ],
    ids=["no token", "wrong token", "other origin", "no origin", "other site", "other port"],
)
@pytest.mark.parametrize("path", ["/ui/ask", "/ui/label", "/ui/sign-out", "/ui/nights/pin"])
def test_a_form_that_is_not_ours_is_refused(
    served: Site, path: str, headers: dict[str, str], token: str | None
) -> None:
    said = served.token() if token is None else token
    reply = served.browser.post(path, data={"token": said, "question": HOSTILE.question}, headers=headers)
    assert reply.status_code == 403


def test_text_of_documents_and_models_is_text(served: Site) -> None:
    page = served.post("/ui/ask", question=HOSTILE.question).text
    assert page.count("&lt;script&gt;alert(1)") >= 6
    assert re.findall(r"<script(?! src=\"/static/)", page) == []
    assert "<img src=x" not in page


@pytest.mark.parametrize("path", ["/ui/", "/ui/sign-in", "/ui/nowhere", "/ui/conversations"])
def test_pages_load_only_from_here_and_run_no_script_of_their_own(served: Site, path: str) -> None:
    reply = served.get(path)
    assert "default-src 'self'" in reply.headers["content-security-policy"]
    assert re.findall(r"(?:src|href)=\"(?!/|#)[^\"]*\"", reply.text) == []
    assert re.findall(r"<script>|<style| style=| on\w+=|javascript:", reply.text) == []


def test_a_picture_is_shown_only_by_a_link_of_the_server(served: Site) -> None:
    made = picture_address(Keys(SecretStr(AUTH)), digest("tram.pdf"), 1, ((1, 2, 3, 4),))
    with httpx.Client(base_url=served.url) as anybody:
        statuses = [
            anybody.get(path).status_code
            for path in (made, made.replace("/1.png", "/2.png"), made.replace("boxes=1.00", "boxes=9.00"), made[:-1])
        ]
    assert statuses == [404, 403, 403, 403]  # the document of this index has no bytes


@pytest.mark.parametrize(
    "path",
    [
        "/pictures/..%2f..%2fetc%2fpasswd/1.png",
        "/pictures/../../etc/passwd",
        "/static/..%2fwords.toml",
        "/static/words.toml",
        "/static/%2e%2e/rendering.py",
        "/ui/..%2f..%2fetc/passwd",
        f"/ui/place?document={'../' * 22}&page=1",
        f"/ui/place?document={'0' * 64}&page=1",
        f"/ui/place?document={digest('tram.pdf')}&page=-1",
        f"/ui/place?document={digest('tram.pdf')}&page=1&box=1,2,x,4",
        "/ui/conversations/..%2f..%2fetc/export.md",
    ],
)
def test_no_path_leads_out(served: Site, path: str) -> None:
    reply = served.get(path)
    assert reply.status_code in (403, 404, 422, 503)
    assert "root:" not in reply.text


def test_a_form_that_is_too_large_or_of_another_sign_in_is_refused(served: Site) -> None:
    assert served.post("/ui/ask", question="x" * 1_000_001).status_code == 413
    with httpx.Client(base_url=served.url, follow_redirects=True) as other:
        sign_in(other)
        assert other.post("/ui/ask", data={"token": served.token(), "question": "x"}).status_code == 403
