"""Reads mail as it is sent (EML, RFC 5322 and MIME), by the standard library, and as Outlook keeps it (MSG).

MSG is an OLE container of properties. Source: [MS-OXMSG], [MS-OXPROPS].
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, message_from_string, policy
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Any, NamedTuple

import olefile

from tasks.documents.archives import escape_unprintable
from tasks.documents.document_errors import CorruptDocument, RefusedDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_storable, read_whole
from tasks.documents.markup_reader import add_html, decode_html
from tasks.documents.text_reader import add_paragraphs, decode, read_bytes

HEADERS = ("From", "To", "Cc", "Date", "Subject")
KOREAN = {"ks_c_5601-1987", "ksc5601", "euc-kr", "korean"}
"""Names under which Korean mail programs send CP949."""
FAILURES = (ValueError, LookupError, AttributeError, TypeError)
"""What the standard library raises for headers that no program writes."""
ENCRYPTED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}


def open_eml(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a mail (EML) as one page without a number."""
    try:
        try:
            message = message_from_bytes(read_bytes(path), policy=policy.default)
        except FAILURES as error:
            raise CorruptDocument(f"The mail cannot be read ({error!r:.120}); get it again.") from error
        assert isinstance(message, EmailMessage)  # the default policy makes no other
        return make_message_reader(_read_eml(message), format="eml")
    except RecursionError as error:
        raise RefusedDocument("The mail nests its parts hundreds deep, as no program does.") from error


def _read_eml(message: EmailMessage) -> Message:
    bodies: dict[str, bytes] = {}
    attachments: list[str] = []
    for part in _parts(message):
        kind = part.get_content_type()
        try:
            name = make_storable(part.get_filename() or "")
        except FAILURES:
            name = "a file without a readable name"
        if kind in ("text/html", "text/plain") and part.get_content_disposition() != "attachment" and not name:
            bodies[kind] = bodies.get(kind, b"") + _to_utf8(part)
        else:
            attachments.append(name or kind)
    headers: dict[str, str] = {}
    for name in HEADERS:
        with suppress(*FAILURES):  # a header that cannot be read is left out
            headers[name] = " ".join(make_storable(str(message.get(name, ""))).split())
    encrypted = any(part.get_content_type() in ENCRYPTED for part in message.walk())
    return Message(
        headers={name: value for name, value in headers.items() if value},
        html=bodies.get("text/html"),
        text=bodies.get("text/plain"),
        attachments=tuple(attachments),
        notes=("The mail is encrypted; save a copy without encryption to read its text.",) if encrypted else (),
    )


def _parts(message: EmailMessage) -> Iterator[EmailMessage]:
    """Yield the parts that hold something; a mail within the mail is one part."""
    if message.get_content_maintype() != "multipart":
        yield message
        return
    for part in message.iter_parts():
        if isinstance(part, EmailMessage):
            yield from _parts(part)


def _to_utf8(part: EmailMessage) -> bytes:
    """Return the text of a part in UTF-8; unchanged if its charset is unknown or wrong."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = (part.get_content_charset() or "utf-8").lower()
    try:
        return data.decode("cp949" if charset in KOREAN else charset).encode()
    except (LookupError, UnicodeError):
        return data


MOST_NAMED = 20
"""Number of attachments that a note names."""


class Message(NamedTuple):
    """A message as its file keeps it, before it becomes blocks."""

    headers: dict[str, str]
    """Of From, To, Cc, Date and Subject, those that it has, in this order."""
    html: bytes | None
    text: bytes | None
    attachments: tuple[str, ...]
    """Names of the attached files."""
    notes: tuple[str, ...] = ()


def make_message_reader(message: Message, *, format: str) -> Reader:
    """Return a reader of the subject as heading, the headers, and the body, HTML where there is some.

    Nothing is fetched. Raises RefusedDocument for HTML that is nested as no program writes it.
    """
    blocks, notes = BlockList(), list(message.notes)
    subject = message.headers.get("Subject", "")
    blocks.add("heading", subject, level=1)
    headers = [f"{name}: {value}" for name, value in message.headers.items() if name != "Subject"]
    blocks.add("paragraph", "\n".join(headers))
    before = len(blocks)
    if message.html is not None:
        try:
            add_html(blocks, decode_html(message.html).text)
        except RecursionError as error:
            raise RefusedDocument("The HTML of the mail nests elements hundreds deep, as no program does.") from error
    if len(blocks) == before and message.text is not None:
        add_paragraphs(blocks, decode(message.text).text, page=None)
    if message.attachments:
        names = ", ".join(escape_unprintable(name) for name in message.attachments[:MOST_NAMED])
        more = len(message.attachments) - MOST_NAMED
        rest = f" and {more} more" if more > 0 else ""
        blocks.add("list", f"Attachments: {names}{rest}", level=1)
        notes.append(f"Attachments were not read: {names}{rest}; save them beside the mail.")
    stored = {"author": message.headers.get("From"), "created": message.headers.get("Date")}
    return read_whole(
        blocks.unpaged(),
        format=format,
        reader=f"trivet {format} 1",
        title=subject or None,
        metadata={name: value for name, value in stored.items() if value},
        notes=tuple(notes),
    )


log = logging.getLogger(__name__)

SUBJECT, BODY, HTML, RTF = "0037", "1000", "1013", "1009"
SENDER_NAME, SENDER_ADDRESS, SENDER_SMTP, TO, CC, SENT_HEADERS = "0C1A", "0C1F", "5D01", "0E04", "0E03", "007D"
LONG_NAME, SHORT_NAME, SHOWN_NAME = "3707", "3704", "3001"
SUBMITTED, DELIVERED = 0x0039_0040, 0x0E06_0040
"""Fixed properties that are times."""
PROPERTIES = "__properties_version1.0"
FIXED_FROM = 32
"""Bytes before the fixed properties of a message, each of which takes 16."""


def open_msg(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a mail of Outlook (MSG) as one page without a number. Raises CorruptDocument."""
    try:
        with olefile.OleFileIO(str(path)) as container:
            message = _read_msg(container)
    except (OSError, ValueError, IndexError, OverflowError) as error:
        message = f"The mail cannot be read ({' '.join(str(error).split())[:120]}); get it again."
        raise CorruptDocument(message) from error
    return make_message_reader(message, format="msg")


def _read_msg(container: olefile.OleFileIO[Any]) -> Message:
    name, address = _text(container, SENDER_NAME), _text(container, SENDER_SMTP) or _text(container, SENDER_ADDRESS)
    headers = {
        "From": f"{name} <{address}>" if name and "@" in address and name != address else name or address,
        "To": _text(container, TO),
        "Cc": _text(container, CC),
        "Date": _read_date(container),
        "Subject": _text(container, SUBJECT),
    }
    # attachments by their names, in the order of their numbers
    folders = sorted({entry[0] for entry in container.listdir() if entry[0].startswith("__attach_version1.0_")})
    tags = (LONG_NAME, SHORT_NAME, SHOWN_NAME)
    names = [next(filter(None, (_text(container, tag, below=f"{folder}/") for tag in tags)), "") for folder in folders]
    html, text = _bytes(container, HTML), _text(container, BODY)
    only_rich = not html and not text and container.exists(f"__substg1.0_{RTF}0102")
    return Message(
        headers={name: " ".join(value.split()) for name, value in headers.items() if value.strip()},
        html=html,
        text=text.encode() or None,
        attachments=tuple(name or "a file without a name" for name in names),
        notes=("The mail keeps its text as rich text only, which is not read; save it as HTML.",) if only_rich else (),
    )


def _bytes(container: olefile.OleFileIO[Any], tag: str, *, below: str = "") -> bytes | None:
    """Return a property as it is stored; texts in UTF-8."""
    for kind in ("001F", "001E", "0102"):  # UTF-16, 8-bit text, binary ([MS-OXCDATA] 2.11.1)
        stream = f"{below}__substg1.0_{tag}{kind}"
        if container.exists(stream):
            data: bytes = container.openstream(stream).read()
            if kind == "001F":
                return data.decode("utf-16-le", "replace").rstrip("\0").encode("utf-8", "replace")
            return data.rstrip(b"\0")
    return None


def _text(container: olefile.OleFileIO[Any], tag: str, *, below: str = "") -> str:
    data = _bytes(container, tag, below=below)
    return make_storable(decode(data).text) if data else ""


def _read_date(container: olefile.OleFileIO[Any]) -> str:
    """Return when the mail was sent, as its headers say, or else as Outlook does."""
    if headers := _text(container, SENT_HEADERS):
        try:
            if sent := str(message_from_string(headers, policy=policy.default).get("Date", "")):
                return sent
        except FAILURES:
            log.info("msg headers unreadable")
    data: bytes = container.openstream(PROPERTIES).read()
    for offset in range(FIXED_FROM, len(data) - 15, 16):  # tag, flags and value: 4, 4 and 8 bytes
        ticks = int.from_bytes(data[offset + 8 : offset + 16], "little")
        # a FILETIME counts 100 ns since 1601; soon after 2**61 of them the years of datetime end
        if int.from_bytes(data[offset : offset + 4], "little") in (SUBMITTED, DELIVERED) and 0 < ticks < 2**61:
            return format_datetime(datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10))
    return ""
