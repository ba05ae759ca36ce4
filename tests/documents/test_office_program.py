"""LibreOffice: what it converts, what it must not fetch, and that nothing of it stays behind.

Where it is not installed, a program stands in for it and makes what it would make.
"""

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
import pytest
import xlsxwriter
from pptx.util import Emu

from tasks.documents import office_program
from tasks.documents.blocks import Block
from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.docx.docx_reader import open_docx
from tasks.documents.formats import find_outside_reader, sniff
from tasks.documents.office_program import convert_document, open_doc, open_ppt, open_xls
from tests.documents.ole_writer import ole_file

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
        texts[old] = [block.text for block in blocks(opener(path, password=None, options=ReadOptions()))]

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

    with convert_document(path, suffix="docx", to="docx") as made:
        texts = [block.text for block in blocks(read(open_docx, made))]

    assert (paths, "combination" in str(texts), texts[0]) == ([], False, "Before")


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


STAND_IN = """#!{python}
import pathlib, shutil, sys
*_, to, outdir, folder, source = sys.argv
made = pathlib.Path(folder) / (pathlib.Path(source).stem + "." + to)
made.parent.mkdir()
shutil.copy({made!r}, made)
pathlib.Path({log!r}).write_text(chr(10).join(sys.argv[1:]))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program called soffice where LibreOffice would be."""

    def put(source: str) -> None:
        path = tmp_path / "bin" / "soffice"
        path.parent.mkdir()
        path.write_text(source)
        path.chmod(0o755)
        monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")

    return put


def old(path: Path, stream: str) -> Path:
    path.write_bytes(ole_file({stream: b"\xec\xa5"}))
    return path


def read(opened: Callable[..., Reader], path: Path) -> Reader:
    return opened(path, password=None, options=ReadOptions())


def test_a_word_document_is_read_as_it_is_converted(tmp_path: Path, program: Callable[[str], None]) -> None:
    made, log = tmp_path / "made.docx", tmp_path / "log"
    written = docx.Document()
    written.add_heading("Lamps", level=1)
    written.save(str(made))
    program(STAND_IN.format(python=sys.executable, made=str(made), log=str(log)))

    reader = read(open_doc, old(tmp_path / "a.doc", "WordDocument"))

    assert [block.text for page in reader.pages() for block in page.blocks] == ["Lamps"]
    assert (reader.header.format, reader.header.reader) == ("doc", "LibreOffice, trivet docx 2")
    profile, *flags = log.read_text().splitlines()
    assert profile.startswith("-env:UserInstallation=file:///")
    assert flags[:4] == ["--headless", "--norestore", "--convert-to", "docx"]


@pytest.mark.parametrize(
    ("suffix", "stream", "opened", "to"),
    [
        (".doc", "WordDocument", open_doc, "docx"),
        (".xls", "Book", open_xls, "xlsx"),
        (".ppt", "PowerPoint Document", open_ppt, "pptx"),
    ],
)
def test_without_the_program_the_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str, stream: str, opened: Callable[..., Reader], to: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    path = old(tmp_path / f"a{suffix}", stream)

    assert (sniff(path).format, find_outside_reader(path, suffix=suffix)) == (suffix[1:], None)
    with pytest.raises(UnsupportedDocument, match=f"install LibreOffice, .* or save it as .{to}"):
        read(opened, path)


def test_a_file_that_the_program_cannot_convert(tmp_path: Path, program: Callable[[str], None]) -> None:
    program("#!/bin/sh\necho 'Error: source file could not be loaded' >&2\n")

    with pytest.raises(UnsupportedDocument, match="source file could not be loaded"):
        read(open_doc, old(tmp_path / "a.doc", "WordDocument"))


FORKING = """#!/bin/sh
sleep 300 &
echo $! > {pids}
sleep 300 &
echo $! >> {pids}
wait
"""


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


def test_all_processes_of_the_program_end_when_its_time_is_up(
    tmp_path: Path, program: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program(FORKING.format(pids=tmp_path / "pids"))
    monkeypatch.setattr(office_program, "WALL_S", 1.0)

    with pytest.raises(UnsupportedDocument, match="more than 1 s"):
        read(open_doc, old(tmp_path / "a.doc", "WordDocument"))

    assert ended(tmp_path / "pids")


def test_all_processes_of_the_program_end_when_the_reader_is_killed(
    tmp_path: Path, program: Callable[[str], None]
) -> None:
    pids = tmp_path / "pids"
    program(FORKING.format(pids=pids))
    code = (
        "from pathlib import Path; from tasks.documents.office_program import convert_document\n"
        f"with convert_document(Path({str(word_file(tmp_path / 'a.docx'))!r}), suffix='docx', to='docx'): pass"
    )
    with subprocess.Popen([sys.executable, "-c", code]) as reader:
        while not (pids.is_file() and len(pids.read_text().split()) == 2):
            time.sleep(0.05)
        reader.send_signal(signal.SIGKILL)

    assert ended(pids)
