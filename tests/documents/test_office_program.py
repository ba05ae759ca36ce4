"""LibreOffice where it is installed: what it converts, what it must not fetch, and that nothing of it stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import docx
import pptx
import pymupdf
import pytest
import xlsxwriter
from pptx.util import Emu

from tasks.documents import office_program
from tasks.documents.blocks import Block
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.docx.docx_reader import open_docx, render_pages
from tasks.documents.formats import sniff
from tasks.documents.office_program import ProgramFailed, converted, open_doc, open_ppt, open_xls

_installed = pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
WORDS = "The lamp of the tower is lit at dusk and put out at dawn. "


def installed(test: Callable[..., None]) -> Callable[..., None]:
    """Runs where LibreOffice is."""
    return pytest.mark.machine(_installed(test))


def blocks(reader: Reader) -> list[Block]:
    return [block for page in reader.pages() for block in page.blocks]


def word_file(path: Path) -> Path:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Rules of the tower"
    document.add_heading("Lamps", level=1)
    document.add_paragraph(WORDS * 3)
    document.add_page_break()
    document.add_paragraph("Oil is bought in May.", style="List Bullet")
    table = document.add_table(2, 2)
    for cell, text in zip((cell for row in table.rows for cell in row.cells), ["Oil", "9", "Wick", "4"], strict=True):
        cell.text = text
    document.save(str(path))
    return path


@installed
def test_a_word_document_has_the_pages_on_which_it_is_laid_out(tmp_path: Path) -> None:
    reader = open_docx(word_file(tmp_path / "a.docx"), password=None, options=ReadOptions())

    assert reader.header.page_source == "layout"
    assert [(block.kind, block.page) for block in blocks(reader)] == [
        ("header", 1),
        ("heading", 1),
        ("paragraph", 1),
        ("header", 2),
        ("list", 2),
        ("table", 2),
    ]
    assert all(block.bbox for block in blocks(reader))


@installed
def test_the_box_of_a_block_is_where_its_words_are_drawn(tmp_path: Path) -> None:
    path = word_file(tmp_path / "a.docx")
    (item,) = (b for b in blocks(open_docx(path, password=None, options=ReadOptions())) if b.kind == "list")
    with converted(path, suffix="docx", to="pdf") as made, pymupdf.open(made) as document:
        drawn = document[1].search_for("bought")[0]

    assert item.bbox
    x0, y0, x1, y1 = item.bbox
    assert drawn in pymupdf.Rect(x0 - 1, y0 - 1, x1 + 1, y1 + 1)
    assert [number for number, _ in render_pages(path, {2: [item.bbox]}, password=None)] == [2]


@installed
def test_without_a_layout_there_are_no_pages(tmp_path: Path) -> None:
    reader = open_docx(word_file(tmp_path / "a.docx"), password=None, options=ReadOptions(layout="off"))
    assert reader.header.page_source == "none"


@installed
@pytest.mark.slow
def test_files_of_97_are_read(tmp_path: Path) -> None:
    book, slides = tmp_path / "a.xlsx", pptx.Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[6])
    with xlsxwriter.Workbook(str(book)) as workbook:
        workbook.add_worksheet("May").write_row("B2", ["Oil", 9])
    slide.shapes.add_textbox(Emu(0), Emu(0), Emu(9_000_000), Emu(900_000)).text_frame.text = "Wicks"
    slides.save(str(tmp_path / "a.pptx"))
    word_file(tmp_path / "a.docx")
    texts = dict[str, list[str]]()
    for new, old, opener in (("docx", "doc", open_doc), ("xlsx", "xls", open_xls), ("pptx", "ppt", open_ppt)):
        subprocess.run(
            ["soffice", f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}", "--headless", "--convert-to", old,
             "--outdir", str(tmp_path), str(tmp_path / f"a.{new}")], check=True, capture_output=True)  # fmt: skip
        path = tmp_path / f"a.{old}"
        assert sniff(path).format == old
        texts[old] = [block.text for block in blocks(opener(path, password=None, options=ReadOptions(layout="off")))]

    assert "Oil | 9\nWick | 4" in texts["doc"]
    assert texts["xls"][-1] == "Oil | 9"
    assert "Wicks" in texts["ppt"]


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    """A server on this machine, and the paths that it was asked for."""
    paths = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            self.send_error(404)

        do_HEAD = do_OPTIONS = do_PROPFIND = do_GET  # noqa: N815 the names that the server looks up

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", paths
    server.shutdown()
    server.server_close()


@installed
@pytest.mark.parametrize("network", [True, False], ids=["settings alone", "without network"])
def test_what_a_document_links_to_is_not_fetched(
    tmp_path: Path, asked: tuple[str, list[str]], network: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if network:
        monkeypatch.setattr(office_program, "_leave_network", lambda: None)
    server, paths = asked
    secret = tmp_path / "secret.txt"
    secret.write_text("the combination of the safe")
    path = linking(tmp_path / "a.docx", picture=f"{server}/x.png", text=secret.as_uri())

    with converted(path, suffix="docx", to="pdf") as made, pymupdf.open(made) as document:
        shown = document[0].get_text()

    assert (paths, "combination" in shown, "Before" in shown) == ([], False, True)


def linking(path: Path, *, picture: str, text: str) -> Path:
    """A document with a linked picture and a linked text."""
    document = docx.Document()
    document.add_paragraph("Before")
    document.add_picture(str(Path(__file__).parents[1] / "samples" / "demo.png"))
    document.add_paragraph("FIELD")
    document.save(str(path))
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode("latin-1") for name in archive.namelist()}
    links, body = "word/_rels/document.xml.rels", "word/document.xml"
    parts[links] = parts[links].replace('Target="media/image1.png"', f'Target="{picture}" TargetMode="External"')
    field = (
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        f'<w:r><w:instrText xml:space="preserve"> INCLUDETEXT "{text}" </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>old</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )
    parts[body] = parts[body].replace("r:embed=", "r:link=").replace("<w:r><w:t>FIELD</w:t></w:r>", field)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content.encode("latin-1"))
    return path


FORKING = """#!/bin/sh
sleep 300 &
echo $! > {pids}
sleep 300 &
echo $! >> {pids}
wait
"""


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program called soffice that starts two others and waits; gives the file with their process ids."""
    pids, program = folder / "pids", folder / "bin" / "soffice"
    program.parent.mkdir()
    program.write_text(FORKING.format(pids=pids))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return pids


def ended(pids: Path) -> bool:
    """Whether both processes end within ten seconds."""
    started = time.monotonic()
    while time.monotonic() - started < 10:
        if not any(runs(int(pid)) for pid in pids.read_text().split()):
            return True
        time.sleep(0.05)
    return False


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_all_processes_of_the_program_end_when_its_time_is_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = stand_in(tmp_path, monkeypatch)
    monkeypatch.setattr(office_program, "WALL_S", 1.0)

    with (
        pytest.raises(ProgramFailed, match="more than 1 s"),
        converted(word_file(tmp_path / "a.docx"), suffix="docx", to="pdf"),
    ):
        pass

    assert ended(pids)


def test_all_processes_of_the_program_end_when_the_reader_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = stand_in(tmp_path, monkeypatch)
    code = (
        "from pathlib import Path; from tasks.documents.office_program import converted\n"
        f"with converted(Path({str(word_file(tmp_path / 'a.docx'))!r}), suffix='docx', to='pdf'): pass"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as reader:
        while not (pids.is_file() and len(pids.read_text().split()) == 2):
            time.sleep(0.05)
        reader.send_signal(signal.SIGKILL)

    assert ended(pids)
