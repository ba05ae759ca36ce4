"""Old Office files: a program stands in for LibreOffice, which tests cannot rely on, and makes what it would make."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import docx
import pytest

from tasks.documents import office_program
from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.formats import outside_reader, sniff
from tasks.documents.office_program import open_doc, open_ppt, open_xls
from tests.documents.ole_writer import ole_file

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
    return opened(path, password=None, options=ReadOptions(layout="off"))


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

    assert (sniff(path).format, outside_reader(path, suffix=suffix)) == (suffix[1:], None)
    with pytest.raises(UnsupportedDocument, match=f"install LibreOffice, .* or save it as .{to}"):
        read(opened, path)


def test_a_file_that_the_program_cannot_convert(tmp_path: Path, program: Callable[[str], None]) -> None:
    program("#!/bin/sh\necho 'Error: source file could not be loaded' >&2\n")

    with pytest.raises(UnsupportedDocument, match="source file could not be loaded"):
        read(open_doc, old(tmp_path / "a.doc", "WordDocument"))


def test_a_file_over_which_the_program_hangs(
    tmp_path: Path, program: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    program("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(office_program, "WALL_S", 0.2)

    with pytest.raises(UnsupportedDocument, match=r"more than 0\.2 s"):
        read(open_doc, old(tmp_path / "a.doc", "WordDocument"))


def test_a_file_that_failed_is_read_again_once_the_program_is_there(
    tmp_path: Path, program: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What reads a file is part of the key under which its reading is kept."""
    monkeypatch.setenv("PATH", str(tmp_path))
    path = old(tmp_path / "a.doc", "WordDocument")

    before = outside_reader(path, suffix=".doc")
    program("#!/bin/sh\n")

    assert (before, outside_reader(path, suffix=".doc")) == (None, "soffice")
