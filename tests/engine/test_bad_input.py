"""Hostile folders through the command: each bad file is a record with a sentence, the good ones are indexed."""

from __future__ import annotations

import io
import json
import os
import resource
import shutil
import signal
import subprocess
import time
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from storage.index import open_index
from tasks.rag.indexing.index_report import read_status
from tests.command import TRIVET, Done, run_apart, run_here
from tests.documents.zips import zipped

pytestmark = pytest.mark.engine

PDF = "english/Lakeshore_Water_Quarterly_2024_Spring.pdf"
DOCX = "docx/Tide_Gauge_Maintenance_SOW.docx"
DOCX_WITH_PICTURE = "슬기시_공공데이터 품질진단 컨설팅.docx"
LOCKED = "hwp/평가위원 명단(암호).hwp"
DEFLATE_BOMB_BYTES = 60_000_000

ENTITY_BOMB = b"""<?xml version="1.0"?><!DOCTYPE w [<!ENTITY a "aaaaaaaaaa">
%s]><w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r>
<w:t>&z9;</w:t></w:r></w:p></w:body></w:document>""" % b"\n".join(
    b'<!ENTITY z%d "%s">' % (level, (b"&z%d;" % (level - 1) if level else b"&a;") * 10) for level in range(10)
)
EXTERNAL_ENTITY = b"""<?xml version="1.0"?><!DOCTYPE w [<!ENTITY secret SYSTEM "file://%s">]>
<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r>
<w:t>before &secret; after</w:t></w:r></w:p></w:body></w:document>"""
INTERRUPTED = "error: interrupted; what is finished is kept, run the same command again to go on"
SECRET = "cobalt-heliotrope-secret"


def with_member(docx: Path, name: str, data: bytes) -> bytes:
    """The DOCX with one member replaced or added."""
    out = io.BytesIO()
    with zipfile.ZipFile(docx) as before, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as after:
        for info in before.infolist():
            if info.filename != name:
                after.writestr(info, before.read(info))
        after.writestr(name, data)
    return out.getvalue()


def picture_of(docx: Path) -> str:
    with zipfile.ZipFile(docx) as archive:
        return next(name for name in archive.namelist() if name.startswith("word/media/"))


def flipped(data: bytes) -> bytes:
    """Every 97th byte of the middle with one bit turned."""
    third = len(data) // 3
    return bytes(byte ^ 0x10 if third < at < 2 * third and at % 97 == 0 else byte for at, byte in enumerate(data))


@pytest.fixture(scope="module")
def hostile(samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of two good documents and everything that the trade has seen go wrong."""
    folder = tmp_path_factory.mktemp("hostile")
    outside = tmp_path_factory.mktemp("outside") / "secret.txt"
    outside.write_text(SECRET)
    pdf, docx = (samples / PDF).read_bytes(), samples / DOCX
    pictured = samples / DOCX_WITH_PICTURE
    files = {
        "good.pdf": pdf,
        "good.txt": b"The niobium tender closes in May.",
        "truncated.pdf": pdf[: len(pdf) // 2],
        "truncated.docx": docx.read_bytes()[:20_000],
        "truncated.hwp": (samples / LOCKED).read_bytes()[:4_000],
        "flipped.pdf": flipped(pdf),
        "flipped.docx": flipped(docx.read_bytes()),
        "empty.pdf": b"",
        "docx in disguise.pdf": with_member(docx, "docProps/note.txt", b"disguise"),
        "noise.hwpx": bytes(range(256)) * 64,
        "locked.hwp": (samples / LOCKED).read_bytes() + bytes(512),  # content that no other test has opened
        "entity bomb.docx": with_member(docx, "word/document.xml", ENTITY_BOMB),
        "external entity.docx": with_member(docx, "word/document.xml", EXTERNAL_ENTITY % bytes(outside)),
        "deflate bomb.docx": with_member(docx, "word/media/bomb.xml", bytes(DEFLATE_BOMB_BYTES)),
        "empty picture.docx": with_member(pictured, picture_of(pictured), b""),
        "nul.txt": b"The rhenium tender\x00 costs \x00 7 won.",
        "surrogates.txt": b"The osmium tender " + b"\xed\xa0\x80\xed\xb0\x80 costs 8 won.",
        "slip.zip": zipped({"../../slipped.txt": b"slipped", "inside.txt": b"The iridium tender is inside."}),
        "bomb.zip": zipped({"bomb.txt": bytes(DEFLATE_BOMB_BYTES)}),
        unicodedata.normalize("NFD", "한글 이름.txt"): "니오븀 공고".encode(),
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "dangling.pdf").symlink_to(folder / "nowhere.pdf")
    (folder / "outside.txt").symlink_to(outside)
    os.mkfifo(folder / "pipe.txt")
    (folder / os.fsdecode(b"\xb0\xa1.txt")).write_bytes(b"The hassium tender has an old name.")  # CP949
    return folder


@pytest.fixture(scope="module")
def indexed(hostile: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    out = tmp_path_factory.mktemp("index")
    return out, run_here("rag", "index", hostile, "--index", out, "--json", "--set", "max_failed_share=0.9")


@pytest.fixture(scope="module")
def documents(indexed: tuple[Path, Done]) -> dict[str, dict[str, Any]]:
    out, _ = indexed
    return {item["document"]: item for item in json.loads((out / "index_status.json").read_text())["documents"]}


def texts(out: Path) -> str:
    with open_index(out) as index:
        return "\n".join(json.loads(index.chunk(row))["text"] for row in range(len(index)))


def test_the_run_ends_with_failures_and_the_good_documents_are_indexed(indexed: tuple[Path, Done]) -> None:
    out, done = indexed
    assert (done.code, done.stderr) == (3, "")
    read = texts(out)
    assert all(word in read for word in ("niobium", "Lakeshore", "iridium", "hassium", "osmium", "니오븀"))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("truncated.docx", "corrupt"),
        ("truncated.hwp", "corrupt"),
        ("empty.pdf", "empty"),
        ("noise.hwpx", "corrupt"),
        ("nul.txt", "unsupported"),
        ("deflate bomb.docx", "refused"),
        ("bomb.zip/bomb.txt", "refused"),
        ("locked.hwp", "needs_password"),
        ("entity bomb.docx", "refused"),
        ("external entity.docx", "refused"),
        ("slip.zip/../../slipped.txt", "refused"),
        ("dangling.pdf", "link"),
        ("outside.txt", "link"),
        ("pipe.txt", "not_a_file"),
    ],
)
def test_a_bad_file_is_a_failure_with_a_sentence(documents: dict[str, dict[str, Any]], name: str, reason: str) -> None:
    item = documents[name]
    assert (item["status"], item["reason"]) == ("failed", reason)
    assert len(item["message"]) > 20
    assert item["message"].endswith(".")


def test_every_file_has_a_record_and_none_is_silently_empty(
    hostile: Path, documents: dict[str, dict[str, Any]]
) -> None:
    files = {unicodedata.normalize("NFC", file.name) for file in hostile.iterdir() if file.suffix != ".zip"}
    assert {name for name in files if name.isprintable()} <= set(documents)
    mute = [
        name
        for name, item in documents.items()
        if not (item["chunks"] or item["message"] or item["troubled_pages"] or item["notes"])
    ]
    assert mute == []


def test_what_can_be_saved_of_a_damaged_document_is_and_it_is_said(documents: dict[str, dict[str, Any]]) -> None:
    for name in ("truncated.pdf", "flipped.pdf", "flipped.docx"):
        item = documents[name]
        assert item["message"] or item["notes"] or item["troubled_pages"], name


def test_a_wrong_suffix_is_read_for_what_it_is_and_it_is_said(documents: dict[str, dict[str, Any]]) -> None:
    item = documents["docx in disguise.pdf"]
    assert (item["status"], item["format"]) == ("ok", "docx")
    assert any(".pdf" in note or "pdf" in note.lower() for note in item["notes"])


def test_an_empty_picture_does_not_cost_the_text(documents: dict[str, dict[str, Any]]) -> None:
    assert (documents["empty picture.docx"]["status"], documents["empty picture.docx"]["chunks"] > 0) == ("ok", True)


def test_no_file_outside_the_folder_is_read_or_written(indexed: tuple[Path, Done], hostile: Path) -> None:
    out, _ = indexed
    assert SECRET not in texts(out)
    assert not list(hostile.parent.rglob("slipped.txt"))


def test_names_are_composed_whatever_the_disk_says(documents: dict[str, dict[str, Any]]) -> None:
    assert "한글 이름.txt" in documents
    assert "가.txt" in documents


def test_text_without_unicode_is_searched_and_printed(indexed: tuple[Path, Done]) -> None:
    out, _ = indexed
    done = run_here("rag", "search", "osmium", "--index", out, "--strategy", "bm25", "--json")
    [hit] = done.json["hits"]
    assert "\ufffd\ufffd costs 8 won" in hit["text"]


@pytest.fixture
def small(samples: Path, tmp_path: Path) -> Path:
    """A good folder, whose index a bad second run must not hurt."""
    folder = tmp_path / "documents"
    folder.mkdir()
    shutil.copy(samples / "notices" / "supplier_day.html", folder)
    return folder


def index(folder: Path, out: Path, *options: object) -> Done:
    return run_here("rag", "index", folder, "--index", out, "--json", *options)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (shutil.rmtree(folder), folder.write_text("")), "is not a folder"),
        (lambda folder: (shutil.rmtree(folder), (folder / "2024").mkdir(parents=True)), "holds no document to index"),
    ],
    ids=["a file", "without documents"],
)
def test_a_folder_that_cannot_be_indexed_leaves_the_old_generation(
    spoil: Callable[[Path], object], said: str, small: Path, tmp_path: Path
) -> None:
    out = tmp_path / "index"
    before = index(small, out).json["generation"]
    spoil(small)
    done = index(small, out)
    assert (done.code, done.stdout, said in done.stderr) == (2, "", True)
    with open_index(out) as opened:
        assert opened.generation == before


@pytest.mark.parametrize("out", ["thesis", "thesis/chapter.tex"])
def test_an_index_folder_that_is_not_ours_is_left_alone(out: str, small: Path, tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "chapter.tex").write_text("mine")
    done = index(small, tmp_path / out)
    assert (done.code, done.stdout) == (2, "")
    assert str(tmp_path / out) in done.stderr
    assert [file.name for file in thesis.iterdir()] == ["chapter.tex"]


def test_metadata_that_is_no_table_is_refused_before_a_document_is_read(small: Path, tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("a,b\n1,2\n")
    for name, said in (("none.csv", "cannot be read"), ("m.csv", "no column")):
        done = index(small, tmp_path / "index", "--metadata", tmp_path / name)
        assert (done.code, said in done.stderr, (tmp_path / "index").exists()) == (2, True, False)


def test_duplicate_rows_of_the_metadata_are_named(small: Path, tmp_path: Path) -> None:
    table = tmp_path / "m.csv"
    table.write_text("공고 번호,공고 차수,사업명,파일명\n1,0,Day,supplier_day.html\n1,0,Night,supplier_day.html\n")
    done = index(small, tmp_path / "index", "--metadata", table)
    warnings = " ".join(done.json["warnings"])
    assert done.code == 0
    assert "The notice 1 (차수 0) stands in 2 rows" in warnings
    assert "the first row counts" in warnings


def test_options_that_do_not_fit_are_refused_by_name(small: Path, tmp_path: Path) -> None:
    done = index(small, tmp_path / "index", "--max-cost", 1)
    assert (done.code, "spending.prices" in done.stderr) == (2, True)
    done = index(small, tmp_path / "index", "--set", "figures.volume=11")
    assert (done.code, "volume" in done.stderr) == (2, True)


@pytest.mark.drill
def test_ctrl_c_ends_a_build_soon_and_is_said(small: Path, tmp_path: Path) -> None:
    """The terminal sends it to the whole process group: command, readers and server."""
    out = tmp_path / "index"
    command = [*TRIVET, "rag", "index", small, "--index", out]
    environment = os.environ | {"TRIVET_HOME": str(tmp_path / "home"), "PREFECT_HOME": str(tmp_path / "prefect")}
    environment.pop("PREFECT_API_URL")  # a server of its own
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True) as build:
        while not (out / "index_status.json").exists():
            assert build.poll() is None
            time.sleep(0.05)
        os.killpg(build.pid, signal.SIGINT)
        _, said = build.communicate(timeout=60)
    assert (build.returncode, said.splitlines()[1:2]) == (130, [INTERRUPTED])  # below the line on what is started
    status = read_status(out)
    assert (status and status.state) == "interrupted"


@pytest.mark.slow
def test_a_full_disk_is_said_and_the_next_run_completes(small: Path, tmp_path: Path) -> None:
    out, home = tmp_path / "index", tmp_path / "home"
    before = index(small, out).json["generation"]
    (small / "large.txt").write_text("A line of text that fills the disk.\n" * 4_000)

    def full() -> None:
        # files can grow to 64 KiB and no further: what a disk does when it is full
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))

    environment = {"TRIVET_HOME": str(home), "PREFECT_HOME": str(tmp_path / "prefect")}
    done = run_apart("rag", "index", small, "--index", out, "--json", before=full, **environment)
    assert (done.code, done.stdout) == (1, "")
    assert "free" in done.stderr or "full" in done.stderr
    assert "Traceback" not in done.stderr
    with open_index(out) as opened:
        assert opened.generation == before
    assert index(small, out).code == 0
