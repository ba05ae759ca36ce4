"""Reads Word, Excel and PowerPoint of 97–2003 (DOC, XLS, PPT) as LibreOffice converts them, where it is installed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.docx.docx_reader import open_docx
from tasks.documents.office_program import PROGRAM, ProgramFailed, converted
from tasks.documents.pptx_reader import open_pptx
from tasks.documents.sheets.xlsx_reader import open_xlsx


def open_doc(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """A Word document of 97–2003. Raises UnsupportedDocument without LibreOffice."""
    return _converted(path, "doc", "docx", lambda made: open_docx(made, password=None, options=options))


def open_xls(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """An Excel workbook of 97–2003. Raises UnsupportedDocument without LibreOffice."""
    return _converted(path, "xls", "xlsx", lambda made: open_xlsx(made, password=None, options=options))


def open_ppt(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """A PowerPoint presentation of 97–2003. Raises UnsupportedDocument without LibreOffice."""
    return _converted(path, "ppt", "pptx", lambda made: open_pptx(made, password=None, options=options))


def _converted(
    path: Path, format: str, to: Literal["docx", "xlsx", "pptx"], opened: Callable[[Path], Reader]
) -> Reader:
    """The reader of the converted document, which it has read whole when the copy goes."""
    if shutil.which(PROGRAM) is None:
        raise UnsupportedDocument(
            f"The file is {format.upper()}; install LibreOffice, which Trivet reads it with, or save it as .{to}."
        )
    try:
        with converted(path, suffix=format, to=to) as made:
            reader = opened(made)
    except ProgramFailed as failure:
        raise UnsupportedDocument(f"{failure}; save the file as .{to}.") from failure
    about = {"format": format, "reader": f"LibreOffice, {reader.header.reader}"}
    reader.header = reader.header.model_copy(update=about)
    return reader
