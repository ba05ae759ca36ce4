"""Reads Word, Excel and PowerPoint of 97–2003 (DOC, XLS, PPT) as LibreOffice converts them, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.docx.docx_reader import open_docx
from tasks.documents.sheets.xlsx_reader import open_xlsx
from tasks.documents.slides.pptx_reader import open_pptx

PROGRAM = "soffice"
TIMEOUT_S = 180.0


def open_doc(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """A Word document of 97–2003. Raises UnsupportedDocument without LibreOffice."""
    return _converted(path, "doc", "docx", lambda made: open_docx(made, password=None, options=options))


def open_xls(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """An Excel workbook of 97–2003. Raises UnsupportedDocument without LibreOffice."""
    return _converted(path, "xls", "xlsx", lambda made: open_xlsx(made, password=None, options=options))


def open_ppt(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """A PowerPoint presentation of 97–2003. Raises UnsupportedDocument without LibreOffice."""
    return _converted(path, "ppt", "pptx", lambda made: open_pptx(made, password=None, options=options))


def _converted(path: Path, format: str, to: str, opened: Callable[[Path], Reader]) -> Reader:
    """The reader of the converted document, which it has read whole when the copy goes."""
    with tempfile.TemporaryDirectory() as scratch:
        reader = opened(_convert(path, format, to, Path(scratch)))
    about = {"format": format, "reader": f"LibreOffice, {reader.header.reader}"}
    reader.header = reader.header.model_copy(update=about)
    return reader


def _convert(path: Path, format: str, to: str, scratch: Path) -> Path:
    """The document in the newer format. LibreOffice runs no macros of documents that nobody has trusted."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise UnsupportedDocument(
            f"The file is {format.upper()}; install LibreOffice, which Trivet reads it with, or save it as .{to}."
        )
    source = scratch / f"document.{format}"  # stored documents have no suffix, by which LibreOffice may go
    shutil.copyfile(path, source)
    profile = (scratch / "profile").as_uri()  # of its own: one that is in use, or trusts macros, is no help
    command = [program, f"-env:UserInstallation={profile}", "--headless", "--norestore", "--convert-to", to]
    try:
        done = subprocess.run(
            [*command, "--outdir", str(scratch / "made"), str(source)],
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise UnsupportedDocument(f"LibreOffice took more than {TIMEOUT_S:g} s; save the file as .{to}.") from late
    made = scratch / "made" / f"document.{to}"
    if done.returncode or not made.is_file():
        said = done.stderr.decode("utf-8", "replace").split()
        why = " ".join(said)[:120] or f"exit code {done.returncode}"
        raise UnsupportedDocument(f"LibreOffice cannot convert the file ({why}); save it as .{to}.")
    return made
