"""Mail as it is sent (EML) and as Outlook keeps it (MSG), made by hand."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest

from tasks.documents.document_errors import RefusedDocument
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
    assert reader.header.title == "납기 변경"


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


PLAIN = "Content-Type: text/plain; charset"
META = "<meta http-equiv='Content-Type' content='text/html; charset=euc-kr'>"


@pytest.mark.parametrize(
    ("head", "text", "encoding"),
    [
        (f"Subject: x\n{PLAIN}=ks_c_5601-1987\n\n", "납기는 금요일, 펲입니다.", "cp949"),
        (f"Subject: x\n{PLAIN}=no-such-charset\n\n", "납기는 금요일, 펲입니다.", "cp949"),
        (f"Subject: x\n{PLAIN}=ISO-2022-KR\n\n", "납기는 금요일", "iso2022_kr"),
        ("Subject: x\n\n", "납기는 금요일", "iso2022_kr"),
        (f"Subject: x\nContent-Type: text/html\n\n{META}", "납기는 금요일", "cp949"),
        (f"Subject: x\nContent-Type: text/html; charset=utf-8\n\n{META}", "납기는 금요일", "utf-8"),
        ("Subject: x\nContent-Type: multipart/mixed\n\n", "no boundary", "ascii"),
    ],
    ids=["euc-kr", "unknown", "7 bit", "7 bit without a name", "meta", "header before meta", "no boundary"],
)
def test_a_body_is_read_in_its_encoding(tmp_path: Path, head: str, text: str, encoding: str) -> None:
    path = tmp_path / "a.eml"

    reader = read(path, (head + text).encode(encoding))

    assert (sniff(path).format, told(reader)[-1]) == ("eml", ("paragraph", text))


@pytest.mark.parametrize(("more", "between"), [("", " "), ("; delsp=yes", "")])
def test_a_line_that_flows_goes_on_in_the_next_one(tmp_path: Path, more: str, between: str) -> None:
    head = f"Subject: x\n{PLAIN}=utf-8; format=flowed{more}\n\n"
    reader = read(tmp_path / "a.eml", f"{head}It costs 485, \n000 USD.\n> said\n-- \nKim".encode())
    assert told(reader)[-1] == ("paragraph", f"It costs 485,{between}000 USD.\n> said\n-- \nKim")


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Content-Disposition: attachment; filename*=EUC-KR''%B0%DF%C0%FB.pdf", "견적.pdf"),
        (b"Content-Disposition: attachment; filename*0*=UTF-8''%EA%B2%AC;\n filename*1*=%EC%A0%81.pdf", "견적.pdf"),
        (b'Content-Type: application/pdf; name="=?EUC-KR?B?sN/A+w==?=.pdf"', "견적.pdf"),
        (b'Content-Disposition: attachment; filename="\xb0\xdf\xc0\xfb.pdf"', "견적.pdf"),
        (b"Content-Type: application/ms-tnef; name=winmail.dat", "winmail.dat"),
    ],
    ids=["RFC 2231", "in pieces", "RFC 2047", "bare bytes", "Outlook"],
)
def test_an_attachment_has_the_name_that_its_sender_gave(tmp_path: Path, header: bytes, name: str) -> None:
    head = b"Subject: x\nContent-Type: multipart/mixed; boundary=B\n\n--B\n"

    reader = read(tmp_path / "a.eml", head + header + b"\n\nx\n--B--\n")

    assert told(reader)[-1] == ("list", f"Attachments: {name}")
    assert ("a form of Outlook's own" in reader.header.notes[0]) == (name == "winmail.dat")


def forwarded(depth: int) -> bytes:
    message = "Subject: 원본\nFrom: =?EUC-KR?B?udq8rcHY?= <seojun@example.org>\n\n수량 1,260개".encode()
    for level in range(depth, 0, -1):
        boundary = b"B%d" % level
        head = b"Subject: Fwd %d\nContent-Type: multipart/mixed; boundary=%s\n\n" % (level, boundary)
        text = b"--%s\n\nsee below\n--%s\nContent-Type: message/rfc822\n\n" % (boundary, boundary)
        message = head + text + message + b"\n--%s--\n" % boundary
    return message


def test_a_forwarded_message_is_a_section_with_its_sender(tmp_path: Path) -> None:
    (page,) = read(tmp_path / "a.eml", forwarded(2)).pages()

    assert [block.text for block in page.blocks if block.place.heading_path == ("Fwd 1", "Fwd 2", "원본")] == [
        "From: 박서준 <seojun@example.org>",
        "수량 1,260개",
    ]


def test_a_message_that_is_attached_in_base64_is_read(tmp_path: Path) -> None:
    message = mail()
    message.set_content("outside")
    message.add_attachment(b"Subject: inside\n\nat last", maintype="application", subtype="x", filename="원본.eml")

    assert told(read(tmp_path / "a.eml", message.as_bytes()))[-2:] == [("heading", "inside"), ("paragraph", "at last")]


@pytest.mark.parametrize(("depth", "is_read"), [(100, True), (101, False)])
def test_messages_are_read_a_hundred_deep_and_then_named(tmp_path: Path, depth: int, is_read: bool) -> None:
    reader = read(tmp_path / "a.eml", forwarded(depth))

    assert (("paragraph", "수량 1,260개") in told(reader), "100 deep" in str(reader.header.notes)) == (
        is_read,
        not is_read,
    )


def test_parts_nested_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedDocument, match="nests"):
        read(tmp_path / "a.eml", forwarded(2_000))


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
    first, second = "__attach_version1.0_#00000000/", "__attach_version1.0_#00000001/__substg1.0_3701000D/"
    attached = {first + name: data for name, data in property_("3707", "견적서.xlsx").items()}
    inside = {
        **property_("0037", "원본"),
        **property_("1000", "수량 1,260개"),
        "__properties_version1.0": PROPERTIES[8:],
    }
    attached |= {second + name: data for name, data in inside.items()}
    data = ole_file({**OUTLOOK, **property_("1000", "납기는 금요일입니다."), **attached})

    reader = read(tmp_path / "a.msg", data)

    assert sniff(tmp_path / "a.msg").format == "msg"
    assert told(reader) == [
        ("heading", "납기 변경"),
        ("paragraph", "From: Kim <kim@example.kr>\nTo: lee@example.kr\nDate: Fri, 31 May 2024 09:30:00 +0000"),
        ("paragraph", "납기는 금요일입니다."),
        ("list", "Attachments: 견적서.xlsx"),
        ("heading", "원본"),
        ("paragraph", "Date: Fri, 31 May 2024 09:30:00 +0000"),
        ("paragraph", "수량 1,260개"),
    ]


def test_a_body_that_is_rich_text_only_is_said(tmp_path: Path) -> None:
    reader = read(tmp_path / "a.msg", ole_file({**OUTLOOK, "__substg1.0_10090102": b"LZFu"}))

    assert "rich text only" in reader.header.notes[0]
