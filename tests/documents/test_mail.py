"""Mail as it is sent (EML) and as Outlook keeps it (MSG), made by hand."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest

from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.formats import sniff
from tasks.documents.mail_reader import open_eml, open_msg
from tests.documents.ole_writer import ole_file


def mail(**headers: str) -> EmailMessage:
    message = EmailMessage()
    for name, said in {"From": "Kim <kim@example.kr>", "To": "lee@example.kr", "Subject": "납기 변경"}.items():
        message[name] = headers.get(name.lower(), said)
    return message


def read(path: Path, data: bytes) -> Reader:
    path.write_bytes(data)
    return (open_msg if path.suffix == ".msg" else open_eml)(path, password=None, options=ReadOptions())


def told(reader: Reader) -> list[tuple[str, str]]:
    return [(block.kind, block.text) for page in reader.pages() for block in page.blocks]


HEAD = [("heading", "납기 변경"), ("paragraph", "From: Kim <kim@example.kr>\nTo: lee@example.kr")]


def test_a_plain_mail(tmp_path: Path) -> None:
    message = mail()
    message.set_content("납기는 금요일입니다.\n\n감사합니다.")

    reader = read(tmp_path / "a.eml", message.as_bytes())

    assert sniff(tmp_path / "a.eml").format == "eml"
    assert told(reader) == [*HEAD, ("paragraph", "납기는 금요일입니다."), ("paragraph", "감사합니다.")]
    assert (reader.header.title, reader.header.metadata) == ("납기 변경", {"author": "Kim <kim@example.kr>"})


def test_html_is_read_rather_than_the_plain_text_beside_it(tmp_path: Path) -> None:
    message = mail()
    message.set_content("see the table")
    table = "<table><tr><th>part<th>due<tr><td>lamp<td>May 3</table><img src='http://example.com/spy.png'>"
    message.add_alternative(table, subtype="html")

    reader = read(tmp_path / "a.eml", message.as_bytes())

    assert told(reader)[2] == ("table", "part | due\nlamp | May 3")
    assert "see the table" not in str(told(reader))


def test_attachments_are_named_and_not_opened(tmp_path: Path) -> None:
    message = mail()
    message.set_content("as attached")
    message.add_attachment(b"MZ", maintype="application", subtype="octet-stream", filename="견적서.exe")
    message.add_attachment(b"<b>no body</b>", maintype="text", subtype="html", filename="page.html")

    reader = read(tmp_path / "a.eml", message.as_bytes())

    assert told(reader)[2:] == [("paragraph", "as attached"), ("list", "Attachments: 견적서.exe, page.html")]
    assert reader.header.notes == ("Attachments were not read: 견적서.exe, page.html; save them beside the mail.",)


@pytest.mark.parametrize("charset", ["ks_c_5601-1987", "no-such-charset"])
def test_korean_bytes_are_read_whatever_their_charset_is_called(tmp_path: Path, charset: str) -> None:
    head = f"Subject: x\r\nContent-Type: text/plain; charset={charset}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n"

    reader = read(tmp_path / "a.eml", head.encode() + "납기는 금요일, 펲입니다.".encode("cp949"))

    assert told(reader)[-1] == ("paragraph", "납기는 금요일, 펲입니다.")


def test_an_encrypted_mail_says_so(tmp_path: Path) -> None:
    head = b"Subject: x\r\nContent-Type: application/pkcs7-mime; name=smime.p7m\r\n\r\nAAAA"

    assert "The mail is encrypted" in read(tmp_path / "a.eml", head).header.notes[0]


SENT = int((datetime(2024, 5, 31, 9, 30, tzinfo=UTC) - datetime(1601, 1, 1, tzinfo=UTC)).total_seconds()) * 10**7
PROPERTIES = bytes(32) + struct.pack("<IIQ", 0x0039_0040, 0, SENT)


def property_(tag: str, text: str) -> dict[str, bytes]:
    return {f"__substg1.0_{tag}001F": text.encode("utf-16-le")}


OUTLOOK = {
    "__properties_version1.0": PROPERTIES,
    **property_("0037", "납기 변경"),
    **property_("0C1A", "Kim"),
    **property_("5D01", "kim@example.kr"),
    **property_("0E04", "lee@example.kr"),
}


def test_a_mail_of_outlook(tmp_path: Path) -> None:
    attached = {
        "__attach_version1.0_#00000000/" + name: data for name, data in property_("3707", "견적서.xlsx").items()
    }
    data = ole_file({**OUTLOOK, **property_("1000", "납기는 금요일입니다."), **attached})

    reader = read(tmp_path / "a.msg", data)

    assert sniff(tmp_path / "a.msg").format == "msg"
    assert told(reader) == [
        ("heading", "납기 변경"),
        ("paragraph", "From: Kim <kim@example.kr>\nTo: lee@example.kr\nDate: Fri, 31 May 2024 09:30:00 +0000"),
        ("paragraph", "납기는 금요일입니다."),
        ("list", "Attachments: 견적서.xlsx"),
    ]


def test_a_body_that_is_rich_text_only_is_said(tmp_path: Path) -> None:
    reader = read(tmp_path / "a.msg", ole_file({**OUTLOOK, "__substg1.0_10090102": b"LZFu"}))

    assert "rich text only" in reader.header.notes[0]
