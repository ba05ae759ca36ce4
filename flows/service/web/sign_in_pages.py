"""The pages to sign in and out, and the choice of a language."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi.responses import RedirectResponse, Response

from flows.service.web.signing_in import COOKIE, LASTS_S
from flows.service.web.visits import ROOT, Page, Visit

LANGUAGE_COOKIE = "trivet-language"
YEAR_S = 365 * 24 * 3600


def _local(address: str) -> str:
    """The address if it is a page of ours, else the first page."""
    parts = urlsplit(address)
    ours = address.startswith(f"{ROOT}/") and not parts.netloc and "\\" not in address and address.isprintable()
    return address if ours else f"{ROOT}/"


def _sign_in(visit: Visit) -> Response:
    return visit.page("sign_in.html", to=_local(visit.query.get("to", "")), wrong=False)


def _signed_in(visit: Visit) -> Response:
    to = _local(visit.form.get("to", ""))
    role = visit.workplace.keys.role_with(visit.form.get("auth", "").strip())
    if role is None:
        return visit.page("sign_in.html", status=403, to=to, wrong=True)
    response = RedirectResponse(to, 303)
    cookie = visit.workplace.keys.cookie(role)
    secure = visit.request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, LASTS_S, path=ROOT, httponly=True, samesite="strict", secure=secure)
    return response


def _sign_out(_: Visit) -> Response:
    response = RedirectResponse(f"{ROOT}/sign-in", 303)
    response.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return response


def _language(visit: Visit) -> Response:
    chosen = "ko" if visit.query.get("to") == "ko" else "en"
    response = RedirectResponse(_local(visit.query.get("back", "")), 303)
    response.set_cookie(LANGUAGE_COOKIE, chosen, YEAR_S, path=ROOT, httponly=True, samesite="strict")
    return response


PAGES = (
    Page("GET", "/sign-in", _sign_in, public=True),
    Page("POST", "/sign-in", _signed_in, public=True),
    Page("POST", "/sign-out", _sign_out),
    Page("GET", "/language", _language, public=True),
)
