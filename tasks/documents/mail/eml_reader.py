"""Reads mail as it is sent (EML, RFC 5322 and MIME), by the standard library."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path

from tasks.documents.document_errors import CorruptDocument, RefusedDocument
from tasks.documents.document_readers import Reader, ReadOptions, storable
from tasks.documents.mail.messages import Message, message_reader
from tasks.documents.text_reader import read_bytes

HEADERS = ("From", "To", "Cc", "Date", "Subject")
KOREAN = {"ks_c_5601-1987", "ksc5601", "euc-kr", "korean"}
"""Names under which Korean mail programs send CP949."""
FAILURES = (ValueError, LookupError, AttributeError, TypeError)
"""What the standard library raises for headers that no program writes."""
ENCRYPTED = {"multipart/encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"}


def open_eml(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """A mail, one page without a number."""
    try:
        return message_reader(_read(_parsed(read_bytes(path))), format="eml")
    except RecursionError as error:
        raise RefusedDocument("The mail nests its parts hundreds deep, as no program does.") from error


def _parsed(data: bytes) -> EmailMessage:
    try:
        message = message_from_bytes(data, policy=policy.default)
    except FAILURES as error:
        raise CorruptDocument(f"The mail cannot be read ({error!r:.120}); get it again.") from error
    assert isinstance(message, EmailMessage)  # the default policy makes no other
    return message


def _read(message: EmailMessage) -> Message:
    parts = list(_parts(message))
    bodies: dict[str, bytes] = {}
    attachments: list[str] = []
    for part in parts:
        kind, name = part.get_content_type(), _file_name(part)
        if kind in ("text/html", "text/plain") and part.get_content_disposition() != "attachment" and not name:
            bodies.setdefault(kind, b"")
            bodies[kind] += _utf8(part)
        else:
            attachments.append(name or kind)
    sealed = any(part.get_content_type() in ENCRYPTED for part in message.walk())
    return Message(
        headers={name: said for name in HEADERS if (said := _header(message, name))},
        html=bodies.get("text/html"),
        text=bodies.get("text/plain"),
        attachments=tuple(attachments),
        notes=("The mail is encrypted; save a copy without encryption to read its text.",) if sealed else (),
    )


def _parts(message: EmailMessage) -> Iterator[EmailMessage]:
    """The parts that hold something; a mail within the mail is one part."""
    if message.get_content_maintype() != "multipart":
        yield message
        return
    for part in message.iter_parts():
        if isinstance(part, EmailMessage):
            yield from _parts(part)


def _utf8(part: EmailMessage) -> bytes:
    """The text of a part in UTF-8; as it stands, if its charset is unknown or wrong."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    charset = (part.get_content_charset() or "utf-8").lower()
    try:
        return data.decode("cp949" if charset in KOREAN else charset).encode()
    except (LookupError, UnicodeError):
        return data


def _header(message: EmailMessage, name: str) -> str:
    """A header on one line; "" for one that cannot be read."""
    try:
        return " ".join(storable(str(message.get(name, ""))).split())
    except FAILURES:
        return ""


def _file_name(part: EmailMessage) -> str:
    try:
        return storable(part.get_filename() or "")
    except FAILURES:
        return "a file without a readable name"
