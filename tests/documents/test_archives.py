"""Zips from strangers: honest ones are read, others refused before they can do harm."""

from __future__ import annotations

import io
import os
import stat
import struct
import zipfile
from pathlib import Path
from pkgutil import resolve_name

import pytest

from tasks.documents.archives import Package, ZipCaps, explain_refusal, member_name, open_zip, read_member
from tasks.documents.blocks import Page
from tasks.documents.document_errors import CorruptDocument, NeedsPassword, RefusedDocument, UnsupportedDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import find_format, sniff
from tests.documents.ole_writer import ole_file
from tests.documents.zips import zipped


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "sample.zip"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", ["../up.xml", "a/../../up.xml", "/etc/passwd", "C:/up.xml", "..\\up.xml"])
def test_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RefusedDocument, match="leads out"):
        Package(_written(tmp_path, zipped({name: b"x"})))


def test_a_link_is_refused() -> None:
    info = zipfile.ZipInfo("link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16

    assert "is a link" in (explain_refusal(info, caps=ZipCaps()) or "")


def test_a_member_that_lies_about_its_size_gives_no_more_than_it_declares() -> None:
    data = bytearray(zipped({"a": bytes(5_000_000)}))
    declared = struct.pack("<L", 10)
    local, central = data.index(b"PK\3\4"), data.index(b"PK\1\2")
    data[local + 22 : local + 26] = declared
    data[central + 24 : central + 28] = declared

    with open_zip(io.BytesIO(bytes(data)), caps=ZipCaps()) as archive, pytest.raises(CorruptDocument):
        read_member(archive, archive.infolist()[0])


def test_an_encrypted_member_wants_a_password() -> None:
    data = bytearray(zipped({"a": b"secret"}))
    data[data.index(b"PK\1\2") + 8] |= 1

    with open_zip(io.BytesIO(bytes(data)), caps=ZipCaps()) as archive, pytest.raises(NeedsPassword):
        read_member(archive, archive.infolist()[0])


def test_a_flipped_bit_is_corrupt() -> None:
    data = bytearray(zipped({"a": b"some text that is long enough to be packed"}))
    data[40] ^= 0xFF

    with open_zip(io.BytesIO(bytes(data)), caps=ZipCaps()) as archive, pytest.raises(CorruptDocument):
        read_member(archive, archive.infolist()[0])


@pytest.mark.parametrize("encoding", ["cp949", "utf-8"])
def test_korean_names_without_the_utf8_flag_are_read(encoding: str) -> None:
    info = zipfile.ZipInfo("제안요청서.pdf".encode(encoding).decode("cp437"))
    info.flag_bits = 0

    assert member_name(info) == "제안요청서.pdf"


def _read(path: Path, password: str | None = None) -> list[Page]:
    opener = resolve_name(find_format(path.suffix[1:]).opener)
    return list(opener(path, password=password, options=ReadOptions(layout="off")).pages())


MAIN_PARTS = {
    ".docx": "word/document.xml",
    ".xlsx": "xl/workbook.xml",
    ".pptx": "ppt/presentation.xml",
    ".hwpx": "Contents/section0.xml",
}


@pytest.mark.parametrize("suffix", [".docx", ".xlsx", ".hwpx"])
@pytest.mark.parametrize("entity", ['"ha"', 'SYSTEM "file:///etc/passwd"'], ids=["an entity", "a file of this machine"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_reader_expands_an_entity(tmp_path: Path, suffix: str, entity: str, encoding: str) -> None:
    path = tmp_path / f"a{suffix}"
    xml = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE a [<!ENTITY x {entity}>]><a>&x;</a>'
    path.write_bytes(zipped({MAIN_PARTS[suffix]: xml.encode(encoding)}))
    with pytest.raises(RefusedDocument):
        _read(path)


@pytest.mark.parametrize(("suffix", "part"), MAIN_PARTS.items())
def test_no_reader_unpacks_a_bomb(tmp_path: Path, suffix: str, part: str) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(zipped({part: b"<a>" + b" " * 60_000_000 + b"</a>"}))
    with pytest.raises(RefusedDocument, match="bomb"):
        _read(path)


@pytest.mark.parametrize(("suffix", "part"), MAIN_PARTS.items())
def test_half_a_package_is_corrupt(tmp_path: Path, suffix: str, part: str) -> None:
    path = tmp_path / f"a{suffix}"
    whole = zipped({part: b"<a/>", "media/picture": os.urandom(5_000)})
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptDocument):
        _read(path)


@pytest.mark.parametrize(("suffix", "program"), [(".docx", "Word"), (".xlsx", "Excel"), (".pptx", "PowerPoint")])
def test_an_encrypted_office_document_asks_for_a_copy_without_password(
    tmp_path: Path, suffix: str, program: str
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(ole_file({"EncryptedPackage": b"x" * 64, "EncryptionInfo": b"y" * 64}))
    assert sniff(path).format == suffix[1:]
    with pytest.raises(NeedsPassword, match=f"{program} document is encrypted.*save a copy without"):
        _read(path)
    with pytest.raises(UnsupportedDocument, match="save a copy without"):
        _read(path, password="1234")
