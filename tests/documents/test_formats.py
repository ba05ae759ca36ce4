"""A file is what its bytes say; the suffix only chooses between kinds of text."""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

import pytest

from tasks.documents.document_errors import CorruptDocument, EmptyDocument, UnsupportedDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import find_format, sniff
from tests.documents.ole_writer import ole_file
from tests.documents.zips import zipped


def _zip(*names: str) -> bytes:
    return zipped(dict.fromkeys(names, b"x"))


def _file(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.pdf", b"%PDF-1.7\n", "pdf"),
        ("junk first.pdf", b"\r\nX" * 100 + b"%PDF-1.4", "pdf"),
        ("a.docx", _zip("word/document.xml"), "docx"),
        ("a.hwpx", _zip("mimetype", "Contents/content.hpf"), "hwpx"),
        ("a.txt", "제안요청서".encode("cp949"), "txt"),
        ("a.txt", "RFP".encode("utf-16"), "txt"),
        ("a.csv", b"a,b", "csv"),
        ("a.md", b"# Title", "md"),
        ("a.htm", b"\n<!DOCTYPE html><p>x", "html"),
        ("unknown.xyz", b"plain words", "txt"),
    ],
)
def test_format_by_content(tmp_path: Path, name: str, data: bytes, expected: str) -> None:
    sniffed = sniff(_file(tmp_path, name, data))

    assert (sniffed.format, sniffed.notes) == (expected, ())


def test_a_wrong_suffix_is_noted(tmp_path: Path) -> None:
    sniffed = sniff(_file(tmp_path, "a.pdf", _zip("word/document.xml")))

    assert sniffed.format == "docx"
    assert sniffed.notes == ("The file is named `.pdf` but is DOCX by its content; read as such.",)


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("a.pdf", b"", EmptyDocument),
        ("a.pdf", bytes(range(256)) * 8, CorruptDocument),
        ("a.docx", b"PK\3\4 cut off", CorruptDocument),
        ("a.bin", bytes(range(256)) * 8, UnsupportedDocument),
        ("a.xlsb", _zip("xl/workbook.bin"), UnsupportedDocument),
        ("a.zip", _zip("a.pdf"), UnsupportedDocument),
        ("a.rtf", b"{\\rtf1 text}", UnsupportedDocument),
        ("a.xml", b"<?xml version='1.0'?><data/>", UnsupportedDocument),
    ],
    ids=["empty", "noise", "cut zip", "binary", "Excel", "zip of files", "RTF", "XML"],
)
def test_what_is_not_read_says_why(tmp_path: Path, name: str, data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        sniff(_file(tmp_path, name, data))

    assert str(caught.value).endswith(".")


@pytest.mark.shared
def test_every_real_document_is_what_its_suffix_says(shared: Path) -> None:
    files = [path for path in (shared / "documents").rglob("*") if path.suffix in (".pdf", ".hwp", ".hwpx", ".docx")]

    assert len(files) > 100
    differing = {path.name: sniff(path).format for path in files if sniff(path).format != path.suffix[1:]}
    assert differing == {"80250_regulatory_analysis.hwpx": "hwp"}  # an HWP 5 file that was named wrongly


@pytest.mark.parametrize("stream", ["WordDocument", "Book", "PowerPoint Document"])
def test_a_file_of_office_97_is_refused_with_a_remedy(tmp_path: Path, stream: str) -> None:
    path = _file(tmp_path, "a.doc", ole_file({stream: b"x"}))
    opener = resolve_name(find_format(sniff(path).format).opener)

    with pytest.raises(UnsupportedDocument, match=r"Office 97 to 2003; save it as .*soffice"):
        opener(path, password=None, options=ReadOptions())
