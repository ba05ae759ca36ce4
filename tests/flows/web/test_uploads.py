"""What an upload may hold, who may send it, and what becomes of it; the run that indexes is another process."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import stat
import sys
import time
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr
from starlette.requests import ClientDisconnect, Request

from flows.service.answering import Asking
from flows.service.live_index import Indexing, LiveIndex
from flows.service.served_collections import Collection
from flows.service.web import collection_pages
from flows.service.web.workplace import create_app
from storage.index import open_index
from storage.sessions import Sessions
from tests.flows.asks import publish_texts
from tests.flows.web.served import AUTH, Told, away

RUN = "import json,sys,pathlib; told=json.load(sys.stdin); open(sys.argv[1],'a').write(json.dumps(told)+chr(10))"
"""A run that notes what it was told to index."""
PATIENCE_S = 60.0
HEAD = b'--B\r\nContent-Disposition: form-data; name="files"; filename="a.txt"\r\n\r\n'
FIELD = b'--B\r\nContent-Disposition: form-data; name="a"\r\n\r\n'
"""Beginnings of a file and of a field in a form."""


class Place(NamedTuple):
    """A server of a folder, a browser that has signed in, and the runs that it began."""

    documents: Path
    browser: TestClient
    runs: Path

    def token(self) -> str:
        [token, *_] = re.findall(r'name="token" value="(\w+)"', self.browser.get("/ui/documents").text)
        return token

    def upload(self, *files: tuple[str, bytes], **fields: str) -> Any:
        sent = [("files", (name, content)) for name, content in files]
        data = {"token": self.token(), **fields}
        return self.browser.post("/ui/documents/upload", data=data, files=sent)

    def stored(self) -> dict[str, bytes]:
        """Everything in the folder, hidden files too."""
        files = (path for path in self.documents.rglob("*") if path.is_file())
        return {path.relative_to(self.documents).as_posix(): path.read_bytes() for path in files}

    def begun(self, count: int) -> list[dict[str, Any]]:
        """The parameters of the first runs, once there are so many."""
        end = time.monotonic() + PATIENCE_S
        while len(told := self.runs.read_text().splitlines() if self.runs.exists() else []) < count:
            assert time.monotonic() < end
            time.sleep(0.02)
        return [json.loads(line) for line in told]


@contextmanager
def signed_in(app: Any) -> Generator[TestClient]:
    with TestClient(app, base_url="http://127.0.0.1") as browser:
        [token] = re.findall(r'name="token" value="(\w+)"', browser.get("/ui/sign-in").text)
        browser.post("/ui/sign-in", data={"token": token, "auth": AUTH}).raise_for_status()
        yield browser


@pytest.fixture
def app(tmp_path: Path) -> Callable[..., Any]:
    index, documents = publish_texts(tmp_path / "index"), tmp_path / "documents"
    documents.mkdir()

    @contextmanager
    def open_current() -> Generator[Told]:
        with open_index(index) as opened:
            yield Told(opened, {})

    def create(script: str = RUN) -> Any:
        indexing = Indexing(documents, index, command=(sys.executable, "-c", script, str(tmp_path / "runs")))
        return create_app(
            [Collection("texts", LiveIndex(index, open_current), indexing)],
            Asking(Sessions(away)),
            auth=SecretStr(AUTH),
            home=tmp_path / "home",
        )

    return create


@pytest.fixture
def place(app: Callable[..., Any], tmp_path: Path) -> Iterator[Place]:
    with signed_in(app()) as browser:
        yield Place(tmp_path / "documents", browser, tmp_path / "runs")


def zipped(*members: tuple[str, bytes], level: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", level) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return made.getvalue()


def test_files_folders_and_zips_are_kept_and_indexed(place: Place) -> None:
    files = {"a.txt": b"first", "계획/2024/b.txt": "둘째".encode(), "c.zip": zipped(("inner.txt", b"third"))}
    page = place.upload(*files.items())
    assert (page.status_code, "Taken" in page.text, "Not taken" in page.text) == (200, True, False)
    assert place.stored() == files
    assert stat.S_IMODE((place.documents / "a.txt").stat().st_mode) & 0o444
    [told] = place.begun(1)
    assert (told["documents"], told["again"]) == (str(place.documents), [])
    place.browser.post("/ui/documents/again", data={"token": place.token(), "file": "a.txt"}).raise_for_status()
    assert place.begun(2)[1]["again"] == ["a.txt"]


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a/../../out.txt", b"x", "leads out of the folder"),
        ("a//b.txt", b"x", "empty part"),
        ("C:/x.txt", b"x", "absolute"),
        ("a\\..\\b.txt", b"x", "backslash"),
        ("notice\u202etxt.exe.txt", b"x", "invisible"),
        ("names.zip", zipped(("notice\u202etxt.exe.txt", b"x")), "invisible"),
        (".bashrc.txt", b"x", "hidden files"),
        ("~$open.docx", b"x", "lock files"),
        ("n" * 300 + ".txt", b"x", "too long"),
        ("<img src=x>.exe", b"MZ", "format is not read"),
        ("empty.txt", b"", "the file is empty"),
        ("bomb.zip", zipped(("bomb.txt", bytes(300_000_000))), "bytes, more than"),
        ("slip.zip", zipped(("../../out.txt", b"x")), "leads out of the archive"),
        ("broken.zip", b"PK\x03\x04 not really", "cannot be read"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_a_file_that_is_not_taken_is_named_with_the_reason(place: Place, name: str, content: bytes, why: str) -> None:
    page = place.upload((name, content), ("good.txt", b"good")).text
    [left] = re.findall(r"<li><strong>(.*?)</strong>: (.*?)</li>", page)
    assert (why in left[1], "<img src=x" in page) == (True, False)
    assert place.stored() == {"good.txt": b"good"}


def test_the_same_name_is_taken_once_unless_it_is_to_be_replaced(place: Place) -> None:
    place.upload(("a.txt", b"first"))
    assert "another document has this name" in place.upload(("a.txt", b"second")).text
    assert "Not taken" not in place.upload(("a.txt", b"first")).text
    assert "came twice in this upload" in place.upload(("b.txt", b"1"), ("b.txt", b"2")).text
    place.upload(("a.txt", b"second"), replace="1")
    assert place.stored() == {"a.txt": b"second", "b.txt": b"1"}


def test_no_link_and_no_folder_leads_an_upload_elsewhere(place: Place, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.documents / "link").symlink_to(outside)
    (place.documents / "link.txt").symlink_to(outside / "target.txt")
    (place.documents / "folder.txt").mkdir()
    page = place.upload(("link/a.txt", b"x"), ("link.txt", b"x"), ("folder.txt", b"x"), replace="1").text
    assert page.count("<li><strong>") == 3
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("limits", "status", "said"),
    [
        ({"MOST_BYTES": 3_000_000, "SPARE_BYTES": 0}, 413, "at most 3,000,000 bytes"),
        ({"SPARE_BYTES": 10**18}, 507, "is full; nothing of this upload was kept"),
    ],
    ids=["too large", "full disk"],
)
def test_an_upload_for_which_there_is_no_room_keeps_nothing_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], status: int, said: str
) -> None:
    for name, limit in limits.items():
        monkeypatch.setattr(collection_pages, name, limit)
    page = place.upload(("small.txt", b"x"), ("large.txt", b"x" * 4_000_000))
    assert (page.status_code, said in page.text, place.stored()) == (status, True, {})


@pytest.mark.parametrize(("free", "status"), [(2_500_000, 507), (4_500_000, 200)])
def test_an_upload_lies_twice_on_the_disk_while_it_is_taken(
    place: Place, monkeypatch: pytest.MonkeyPatch, free: int, status: int
) -> None:
    monkeypatch.setattr(collection_pages, "SPARE_BYTES", 0)
    monkeypatch.setattr(collection_pages.tempfile, "gettempdir", lambda: str(place.documents))
    monkeypatch.setattr(collection_pages.shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert place.upload(("large.txt", b"x" * 2_000_000)).status_code == status


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Starlette leaves its file to the GC
def test_an_upload_that_ends_early_keeps_nothing(tmp_path: Path) -> None:
    messages = iter(
        ({"type": "http.request", "body": HEAD + b"half a fi", "more_body": True}, {"type": "http.disconnect"})
    )

    async def hear() -> Any:
        return next(messages)

    headers = [(b"content-type", b"multipart/form-data; boundary=B"), (b"content-length", b"900")]
    request = Request({"type": "http", "method": "POST", "path": "/", "headers": headers}, hear)
    with pytest.raises(ClientDisconnect):
        asyncio.run(
            collection_pages.receive_files(request, tmp_path, apart_from=tmp_path / "index", admit=lambda _: None)
        )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"--B\r\nX: " + b"x" * 100_000, 422),
        (b"--B\r\n" + b"X: y\r\n" * 1_000, 422),
        (FIELD + b"x" * 100_000, 413),
        ((FIELD + b"\r\n") * 20, 413),
        ((HEAD + b"\r\n") * 6_000, 413),
    ],
    ids=["header", "headers", "field", "fields", "files"],
)
def test_a_form_without_measure_is_refused_before_it_fills_the_memory(place: Place, body: bytes, status: int) -> None:
    token = FIELD.replace(b'"a"', b'"token"') + place.token().encode() + b"\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    page = place.browser.post("/ui/documents/upload", content=token + body, headers=headers)
    assert (page.status_code, place.stored()) == (status, {})


def test_what_a_killed_server_left_is_removed_after_a_day(place: Place) -> None:
    old, young = place.documents / ".uploading-old", place.documents / ".uploading-young"
    for folder in (old, young):
        folder.mkdir()
    os.utime(old, (0, 0))
    place.upload(("a.txt", b"x"))
    assert (old.exists(), young.exists()) == (False, True)


def test_an_upload_that_no_page_of_ours_sent_or_that_has_no_file_is_refused(place: Place) -> None:
    token, files = place.token(), [("files", ("a.txt", b"x"))]
    evil = {"Origin": "https://evil.example"}
    replies = [
        place.browser.post("/ui/documents/upload", files=files),
        place.browser.post("/ui/documents/upload", files=files, data={"token": "0" * 64}),
        place.browser.post("/ui/documents/upload", files=files, data={"token": token}, headers=evil),
        place.browser.post("/ui/documents/upload", data={"token": token}),
        place.upload(("", b"")),
    ]
    assert [reply.status_code for reply in replies] == [403, 403, 403, 422, 422]
    assert ("no form with files" in replies[3].text, "choose files, a folder or a ZIP" in replies[4].text) == (
        True,
        True,
    )
    assert place.stored() == {}


def test_a_document_is_removed_after_a_question_and_a_zip_with_all_that_it_holds(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "trivet.acts")
    place.upload(("b.txt", b"b"), ("c.zip", zipped(("x.txt", b"x"), ("y.txt", b"y"))))
    asked = place.browser.get("/ui/documents/remove?file=c.zip/x.txt").text
    assert ("<li>c.zip</li>" in asked, "all documents of the ZIP" in asked) == (True, True)
    assert set(place.stored()) == {"b.txt", "c.zip"}
    place.browser.post("/ui/documents/remove", data={"token": place.token(), "file": "c.zip/x.txt"}).raise_for_status()
    assert set(place.stored()) == {"b.txt"}
    place.browser.post("/ui/documents/again", data={"token": place.token(), "file": "b.txt"}).raise_for_status()
    said = [re.sub("by=pages [0-9a-f]{8} ", "", message) for message in caplog.messages]
    where = "from=testclient about="
    acts = [message for message in said if not message.startswith("indexed ")]  # which comes when it is done
    assert acts == [f"upload {where}b.txt, c.zip", f"removal {where}c.zip/x.txt", f"rerun {where}b.txt"]


def test_the_last_document_is_not_removed_and_the_sentence_says_what_to_do(place: Place) -> None:
    place.upload(("b.txt", b"b"))
    (place.documents / "notes.xyz").write_text("of a format that is not read")
    asked = place.browser.get("/ui/documents/remove?file=b.txt")
    done = place.browser.post("/ui/documents/remove", data={"token": place.token(), "file": "b.txt"})
    assert (asked.status_code, done.status_code, "upload another one first" in done.text) == (409, 409, True)
    assert set(place.stored()) == {"b.txt", "notes.xyz"}


@pytest.mark.parametrize("name", ["../index/CURRENT", "/etc/passwd", "", "../documents/b.txt"])
def test_only_documents_are_removed(place: Place, name: str) -> None:
    place.upload(("b.txt", b"b"))
    reply = place.browser.post("/ui/documents/remove", data={"token": place.token(), "file": name})
    assert (reply.status_code, set(place.stored())) == (404, {"b.txt"})
    assert (place.documents.parent / "index" / "CURRENT").exists()


def test_runs_follow_one_another_and_a_failure_is_told(app: Callable[..., Any], tmp_path: Path) -> None:
    go, running = tmp_path / "go", tmp_path / "running"
    script = (
        "import pathlib, sys, time\n"
        f"go, running = pathlib.Path({str(go)!r}), pathlib.Path({str(running)!r})\n"
        "running.mkdir()\n"  # fails while another run is there
        "while not go.exists(): time.sleep(0.02)\n"
        "running.rmdir(); open(sys.argv[1], 'a').write('{}\\n')\n"
        "sys.exit('error: the folder holds <b>no</b> document')\n"
    )
    with signed_in(app(script)) as browser:
        place = Place(tmp_path / "documents", browser, tmp_path / "runs")
        for name in ("a.txt", "b.txt", "c.txt"):
            place.upload((name, b"x"))
        part = browser.get("/ui/documents/run", headers={"HX-Request": "true"})
        assert ('hx-trigger="every 1s"' in part.text, "HX-Refresh" in part.headers) == (True, False)
        go.touch()
        place.begun(2)
        end = time.monotonic() + PATIENCE_S
        while "HX-Refresh" not in (part := browser.get("/ui/documents/run", headers={"HX-Request": "true"})).headers:
            assert time.monotonic() < end
            time.sleep(0.02)
    assert "the folder holds &lt;b&gt;no&lt;/b&gt; document" in part.text
    assert len(place.begun(2)) == 2
