"""Reads mail as it is sent (EML, RFC 5322 and MIME), by the standard library, and as Outlook keeps it (MSG).

Every message, a forwarded or attached one too, is a section: its subject as heading, then sender, recipients, date and
body. MSG is an OLE container of properties. Source: [MS-OXMSG], [MS-OXPROPS].
"""

from __future__ import annotations

import binascii
import io
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message as MimePart
from email.policy import Compat32
from email.utils import format_datetime
from pathlib import Path
from typing import Any, NamedTuple

import olefile

from tasks.documents.archives import OLE_MAGIC, escape_unprintable
from tasks.documents.document_errors import CorruptDocument, RefusedDocument, shorten
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_storable, read_whole
from tasks.documents.markup_reader import add_html
from tasks.documents.text_reader import add_paragraphs, decode, decode_as, decode_html, read_bytes

HEADERS = ("From", "To", "Cc", "Date", "Subject")
FAILURES = (ValueError, LookupError, AttributeError, TypeError)
"""Exceptions that the standard library raises for headers that no program writes."""
NESTED = {"message/rfc822", "message/global", "message/news"}
ENCRYPTED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}
OUTLOOK_ONLY = {"application/ms-tnef", "application/vnd.ms-tnef"}
MOST_NESTED = 100
"""Messages within messages that are read; no thread of forwarded mail comes near."""
TOO_DEEP = (
    f"Messages that lie more than {MOST_NESTED} deep within others were not read; save them as files of their own."
)
DEEPEST_HEADING = 6
FLOWED = re.compile(r"(?<!^--) \n(?!>) ?", re.MULTILINE)
"""The end of a line that goes on in the next one (RFC 3676); behind `-- ` a signature begins."""
MOST_NAMED = 20
"""Number of attachments that a note names."""


class Message(NamedTuple):
    """A message as its file keeps it, before it becomes blocks."""

    headers: dict[str, str]
    """The headers From, To, Cc, Date and Subject that it has, in this order."""
    body: BlockList
    attachments: tuple[str, ...] = ()
    """Names of the attached files."""
    inner: tuple[Message, ...] = ()
    """Messages that it forwards or has attached."""
    notes: tuple[str, ...] = ()


class BareBytes(Compat32):
    """A policy for mail whose headers may hold bytes of any encoding, which no standard allows and programs write."""

    def header_fetch_parse(self, name: str, value: str) -> str:  # noqa: ARG002
        """Return the text of a header."""
        return decode(value.encode("utf-8", "surrogateescape")).text


POLICY = BareBytes()


def open_eml(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a mail (EML) as one page without a number. Raises DocumentError."""
    try:
        message = _read_eml(message_from_bytes(read_bytes(path), policy=POLICY), depth=0)
    except RecursionError as error:
        raise RefusedDocument(
            "The mail nests its parts hundreds deep; save what it holds as files of its own."
        ) from error
    except FAILURES as error:
        raise CorruptDocument(f"The mail cannot be read ({error!r:.120}); get it again.") from error
    return make_message_reader(message, format="eml")


def _read_eml(mail: MimePart, *, depth: int) -> Message:
    """Return a message that lies `depth` deep in others, with those in it, and notes on what is not read."""
    attachments, inner, notes = list[str](), list[Message](), dict[str, None]()

    def read_body(part: MimePart) -> BlockList:
        """Return a part's text, of alternatives the last that has any; what else it holds goes to the lists above."""
        blocks, kind, name, parts = BlockList(), part.get_content_type(), _file_name(part), part.get_payload()
        if kind in ENCRYPTED:
            notes["The mail is encrypted; save a copy without encryption to read its text."] = None
        if kind in OUTLOOK_ONLY or name.lower() == "winmail.dat":
            sentence = f"{name or kind} keeps text and attachments in a form of Outlook's own, which is not read"
            notes[f"{sentence}; ask for the mail as HTML or plain text."] = None
        if part.get_content_maintype() == "multipart" and isinstance(parts, list):
            bodies = [read_body(child) for child in parts if isinstance(child, MimePart)]
            if kind == "multipart/alternative":  # the last is the richest (RFC 2046, 5.1.4)
                return next(filter(len, reversed(bodies)), blocks)
            for body in bodies:
                blocks.extend(body)
            return blocks
        is_nested = kind in NESTED or name.lower().endswith((".eml", ".msg"))
        # a multipart without its boundary is read as the text that it is
        is_text = kind in ("text/html", "text/plain") or (isinstance(parts, str) and kind.startswith("multipart/"))
        if is_nested and depth == MOST_NESTED:
            notes[TOO_DEEP] = None
        elif is_nested and (message := _read_nested(part, depth=depth + 1)):
            inner.append(message)
            return blocks
        if is_text and part.get_content_disposition() != "attachment" and (part is mail or not name):
            _add_body(blocks, _decode_part(part), is_html=kind == "text/html")
        else:
            attachments.append(name or kind)
        return blocks

    body = read_body(mail)
    headers = {name: " ".join(_decode_words(str(mail.get(name, ""))).split()) for name in HEADERS}
    headers = {name: value for name, value in headers.items() if value}
    return Message(headers, body, tuple(attachments), tuple(inner), tuple(notes))


def _add_body(blocks: BlockList, text: str, *, is_html: bool) -> None:
    if is_html:
        add_html(blocks, text)
    else:
        add_paragraphs(blocks, text, page=None)


def _read_nested(part: MimePart, *, depth: int) -> Message | None:
    """Return the message that a part of a mail holds; None if there is none in it."""
    children, coding = part.get_payload(), str(part.get("content-transfer-encoding", "")).strip().lower()
    if isinstance(children, list) and children and isinstance(mail := children[0], MimePart):
        if coding not in ("base64", "quoted-printable"):
            return _read_eml(mail, depth=depth)
        # the standard forbids it and programs do it: the message is still coded
        part.set_payload(mail.as_bytes().strip().decode("ascii", "surrogateescape"))
    data = part.get_payload(decode=True)
    return read_attached(data, depth=depth) if isinstance(data, bytes) else None


def read_attached(data: bytes, *, depth: int) -> Message | None:
    """Return an attached message, as it is sent or of Outlook; None if the bytes are neither."""
    if data.startswith(OLE_MAGIC):
        try:
            with olefile.OleFileIO(io.BytesIO(data)) as container:
                return _read_msg(Storage(container), depth=depth)
        except DAMAGED:
            return None
    message = _read_eml(message_from_bytes(data, policy=POLICY), depth=depth)
    return message if message.headers else None


def _file_name(part: MimePart) -> str:
    """Return the name of an attachment, as RFC 2231, RFC 2047 or bare bytes give it; "" where it has none."""
    try:
        value = part.get_param("filename", None, "content-disposition") or part.get_param("name", "")
        if isinstance(value, tuple):
            data = str(value[2]).encode("latin-1", "replace")
            return make_storable(decode_as(data, value[0] or "utf-8") or decode(data).text)
        return " ".join(_decode_words(str(value or "")).split())
    except FAILURES:
        return "a file without a readable name"


def _decode_words(text: str) -> str:
    """Return a header with its encoded words (RFC 2047) of any charset as text; as it is where they are ill-formed."""
    try:
        chunks = decode_header(text)
    except (HeaderParseError, *FAILURES):
        return make_storable(text)
    words = ""
    for chunk, charset in chunks:
        if isinstance(chunk, str):
            words += chunk
        elif charset is None:
            words += chunk.decode("raw-unicode-escape")
        else:
            words += decode_as(chunk, charset) or decode(chunk).text
    return make_storable(words)


def _decode_part(part: MimePart) -> str:
    """Return the text of a part, by its charset if that is known and right, else by what its bytes look like."""
    try:
        payload = part.get_payload(decode=True)
    except (binascii.Error, *FAILURES):
        payload = str(part.get_payload()).encode("utf-8", "surrogateescape")
    data = payload if isinstance(payload, bytes) else b""
    declared, is_html = part.get_content_charset(), part.get_content_type() == "text/html"
    text = decode_as(data, declared) if declared else None
    text = (decode_html if is_html else decode)(data).text if text is None else text
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if is_html or str(part.get_param("format", "")).lower() != "flowed":
        return text
    return FLOWED.sub("" if str(part.get_param("delsp", "")).lower() == "yes" else " ", text)


def make_message_reader(message: Message, *, format: str) -> Reader:
    """Return a reader of the message and of those within it, each below a heading of its own.

    Nothing is fetched. Raises RefusedDocument for HTML that is nested as no program writes it.
    """
    blocks, notes, unread = BlockList(), dict[str, None](), list[str]()
    waiting = [(message, 1)]
    while waiting:
        current, level = waiting.pop()
        waiting += [(inner, min(level + 1, DEEPEST_HEADING)) for inner in reversed(current.inner)]
        headers = current.headers
        # a message within another needs a heading, or its text would seem to be of the one above
        stands_in = "" if current is message else headers.get("From") or headers.get("Date") or "Message"
        blocks.add("heading", headers.get("Subject") or stands_in, level=level)
        blocks.add("paragraph", "\n".join(f"{name}: {headers[name]}" for name in headers if name != "Subject"))
        blocks.extend(current.body, below=level)
        if current.attachments:
            blocks.add("list", f"Attachments: {_list_names(current.attachments)}", level=1)
            unread += current.attachments
        notes.update(dict.fromkeys(current.notes))
    if unread:
        notes[f"Attachments were not read: {_list_names(unread)}; save them beside the mail."] = None
    return read_whole(
        blocks.unpaged(),
        format=format,
        reader=f"trivet {format} 2",
        title=message.headers.get("Subject"),
        notes=tuple(notes),
    )


def _list_names(names: list[str] | tuple[str, ...]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(escape_unprintable(name) for name in names[:MOST_NAMED]) + more


DAMAGED = (OSError, ValueError, IndexError, OverflowError)
"""Exceptions that olefile raises for a damaged container."""
SUBJECT, BODY, HTML, RTF = "0037", "1000", "1013", "1009"
SENDER_NAME, SENDER_ADDRESS, SENDER_SMTP, TO, CC, SENT_HEADERS = "0C1A", "0C1F", "5D01", "0E04", "0E03", "007D"
LONG_NAME, SHORT_NAME, SHOWN_NAME, CONTENT = "3707", "3704", "3001", "3701"
SUBMITTED, DELIVERED = 0x0039_0040, 0x0E06_0040
"""Fixed properties that are times."""
PROPERTIES = "__properties_version1.0"


def open_msg(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a mail of Outlook (MSG) as one page without a number. Raises CorruptDocument or RefusedDocument."""
    try:
        with olefile.OleFileIO(str(path)) as container:
            message = _read_msg(Storage(container), depth=0)
    except DAMAGED as error:
        raise CorruptDocument(f"The mail cannot be read ({shorten(error)}); get it again.") from error
    return make_message_reader(message, format="msg")


class Storage(NamedTuple):
    """A storage of a container that holds a message or an attachment."""

    container: olefile.OleFileIO[Any]
    path: str = ""
    """Path of the storage, with a slash at its end; "" for the file itself."""

    def read(self, stream: str) -> bytes:
        """Return the bytes of a stream; none if it is missing."""
        path = self.path + stream
        return self.container.openstream(path).read() if self.container.exists(path) else b""

    def text(self, *tags: str) -> str:
        """Return the first of several properties that holds a text; "" if none does."""
        return next((make_storable(decode(data).text) for tag in tags if (data := self.property(tag))), "")

    def property(self, tag: str) -> bytes:
        """Return a property as it is stored, texts in UTF-8; no bytes if it is missing."""
        # UTF-16, 8-bit text, binary ([MS-OXCDATA] 2.11.1)
        wide, *others = (self.read(f"__substg1.0_{tag}{kind}") for kind in ("001F", "001E", "0102"))
        utf8 = wide.decode("utf-16-le", "replace").rstrip("\0").encode("utf-8", "replace")
        return utf8 or next(filter(None, others), b"").rstrip(b"\0")


def _read_msg(storage: Storage, *, depth: int) -> Message:
    """Return the message of a storage, as `_read_eml` does; those within it are read MOST_NESTED deep."""
    name, address = storage.text(SENDER_NAME), storage.text(SENDER_SMTP, SENDER_ADDRESS)
    headers = {
        "From": f"{name} <{address}>" if name and "@" in address and name != address else name or address,
        "To": storage.text(TO),
        "Cc": storage.text(CC),
        "Date": _read_date(storage),
        "Subject": storage.text(SUBJECT),
    }
    attachments, inner, notes = list[str](), list[Message](), list[str]()
    # in the order of their numbers
    at = storage.path.count("/")
    paths = {"/".join(entry[: at + 1]) for entry in storage.container.listdir() if len(entry) > at + 1}
    for path in sorted(path for path in paths if path.startswith(f"{storage.path}__attach_version1.0_")):
        attached = storage._replace(path=f"{path}/")
        embedded = attached._replace(path=f"{path}/__substg1.0_{CONTENT}000D/")
        name = attached.text(LONG_NAME, SHORT_NAME, SHOWN_NAME)
        data = attached.property(CONTENT) if name.lower().endswith((".eml", ".msg")) else b""
        message = None
        if data or embedded.read(PROPERTIES):
            if depth == MOST_NESTED:
                notes.append(TOO_DEEP)
            else:
                message = read_attached(data, depth=depth + 1) if data else _read_msg(embedded, depth=depth + 1)
        inner += [message] if message else []
        attachments += [] if message else [name or "a file without a name"]
    blocks, html, plain = BlockList(), storage.property(HTML), storage.text(BODY)
    if html:
        _add_body(blocks, decode_html(html).text, is_html=True)
    if not blocks:
        _add_body(blocks, plain, is_html=False)
    if not html and not plain and storage.read(f"__substg1.0_{RTF}0102"):
        notes.append("The mail keeps its text as rich text only, which is not read; save it as HTML.")
    headers = {name: " ".join(value.split()) for name, value in headers.items() if value.strip()}
    return Message(headers, blocks, tuple(attachments), tuple(inner), tuple(notes))


def _read_date(storage: Storage) -> str:
    """Return when the mail was sent, as its headers say, or else as Outlook does; "" where neither says it."""
    with suppress(*FAILURES):
        headers = message_from_bytes(storage.text(SENT_HEADERS).encode())
        if sent := _decode_words(str(headers.get("Date", ""))):
            return sent
    data = storage.read(PROPERTIES)
    # what precedes the fixed properties is shorter in an attached message ([MS-OXMSG] 2.4)
    for offset in range(24 if storage.path else 32, len(data) - 15, 16):  # tag, flags and value: 4, 4 and 8 bytes
        ticks = int.from_bytes(data[offset + 8 : offset + 16], "little")
        # a FILETIME counts 100 ns since 1601; soon after 2**61 of them the years of datetime end
        if int.from_bytes(data[offset : offset + 4], "little") in (SUBMITTED, DELIVERED) and 0 < ticks < 2**61:
            return format_datetime(datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10))
    return ""
