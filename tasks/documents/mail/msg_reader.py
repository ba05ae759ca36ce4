"""Reads mail as Outlook keeps it (MSG): an OLE container of properties. Source: [MS-OXMSG], [MS-OXPROPS]."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from email import message_from_string, policy
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import olefile

from tasks.documents.document_errors import CorruptDocument
from tasks.documents.document_readers import Reader, ReadOptions, storable
from tasks.documents.mail.eml_reader import FAILURES
from tasks.documents.mail.messages import Message, message_reader
from tasks.documents.text_reader import decode

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
    """A mail, one page without a number. Raises CorruptDocument."""
    try:
        with olefile.OleFileIO(str(path)) as container:
            message = _read(container)
    except (OSError, ValueError, IndexError, OverflowError) as error:
        raise CorruptDocument(
            f"The mail cannot be read ({' '.join(str(error).split())[:120]}); get it again."
        ) from error
    return message_reader(message, format="msg")


def _read(container: olefile.OleFileIO[Any]) -> Message:
    name, address = _text(container, SENDER_NAME), _text(container, SENDER_SMTP) or _text(container, SENDER_ADDRESS)
    said = {
        "From": f"{name} <{address}>" if name and "@" in address and name != address else name or address,
        "To": _text(container, TO),
        "Cc": _text(container, CC),
        "Date": _date(container),
        "Subject": _text(container, SUBJECT),
    }
    html, text = _bytes(container, HTML), _text(container, BODY)
    only_rich = not html and not text and container.exists(f"__substg1.0_{RTF}0102")
    return Message(
        headers={name: " ".join(value.split()) for name, value in said.items() if value.strip()},
        html=html,
        text=text.encode() or None,
        attachments=tuple(_attachments(container)),
        notes=("The mail keeps its text as rich text only, which is not read; save it as HTML.",) if only_rich else (),
    )


def _bytes(container: olefile.OleFileIO[Any], tag: str, *, below: str = "") -> bytes | None:
    """A property as it is stored; texts in UTF-8."""
    for kind in ("001F", "001E", "0102"):
        stream = f"{below}__substg1.0_{tag}{kind}"
        if container.exists(stream):
            data: bytes = container.openstream(stream).read()
            if kind == "001F":
                return data.decode("utf-16-le", "replace").rstrip("\0").encode("utf-8", "replace")
            return data.rstrip(b"\0")
    return None


def _text(container: olefile.OleFileIO[Any], tag: str, *, below: str = "") -> str:
    data = _bytes(container, tag, below=below)
    return storable(decode(data).text) if data else ""


def _date(container: olefile.OleFileIO[Any]) -> str:
    """When it was sent, as its headers say, or else as Outlook does."""
    if headers := _text(container, SENT_HEADERS):
        try:
            if sent := str(message_from_string(headers, policy=policy.default).get("Date", "")):
                return sent
        except FAILURES:
            log.info("msg headers unreadable")
    data: bytes = container.openstream(PROPERTIES).read()
    for at in range(FIXED_FROM, len(data) - 15, 16):
        ticks = int.from_bytes(data[at + 8 : at + 16], "little")
        if int.from_bytes(data[at : at + 4], "little") in (SUBMITTED, DELIVERED) and 0 < ticks < 2**61:
            return format_datetime(datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=ticks // 10))
    return ""


def _attachments(container: olefile.OleFileIO[Any]) -> list[str]:
    """Their names, in the order of their numbers."""
    folders = sorted({entry[0] for entry in container.listdir() if entry[0].startswith("__attach_version1.0_")})
    tags = (LONG_NAME, SHORT_NAME, SHOWN_NAME)
    named = (next(filter(None, (_text(container, tag, below=f"{one}/") for tag in tags)), "") for one in folders)
    return [name or "a file without a name" for name in named]
