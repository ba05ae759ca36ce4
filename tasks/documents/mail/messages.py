"""What EML and MSG have in common: a message as blocks."""

from __future__ import annotations

from typing import NamedTuple

from tasks.documents.archives import printable
from tasks.documents.document_errors import RefusedDocument
from tasks.documents.document_readers import BlockList, Reader, read_whole
from tasks.documents.markup_reader import add_html, decode_html
from tasks.documents.text_reader import add_paragraphs, decode

MOST_NAMED = 20
"""Attachments that a note names."""


class Message(NamedTuple):
    """A message as its file keeps it."""

    headers: dict[str, str]
    """Of From, To, Cc, Date and Subject, those that it has, in this order."""
    html: bytes | None
    text: bytes | None
    attachments: tuple[str, ...]
    """Their names."""
    notes: tuple[str, ...] = ()


def message_reader(message: Message, *, format: str) -> Reader:
    """The subject as heading, sender, recipients and date, then the body: HTML where there is some. Nothing is fetched.

    Raises RefusedDocument for HTML that is nested as no program writes it.
    """
    blocks, notes = BlockList(), list(message.notes)
    subject = message.headers.get("Subject", "")
    blocks.add("heading", subject, level=1)
    blocks.add("paragraph", "\n".join(f"{name}: {said}" for name, said in message.headers.items() if name != "Subject"))
    before = len(blocks)
    if message.html is not None:
        try:
            add_html(blocks, decode_html(message.html).text)
        except RecursionError as error:
            raise RefusedDocument("The HTML of the mail nests elements hundreds deep, as no program does.") from error
    if len(blocks) == before and message.text is not None:
        add_paragraphs(blocks, decode(message.text).text, page=None)
    if message.attachments:
        named = ", ".join(printable(name) for name in message.attachments[:MOST_NAMED])
        more = len(message.attachments) - MOST_NAMED
        rest = f" and {more} more" if more > 0 else ""
        blocks.add("list", f"Attachments: {named}{rest}", level=1)
        notes.append(f"Attachments were not read: {named}{rest}; save them beside the mail.")
    metadata = {
        ours: message.headers[name]
        for name, ours in {"From": "author", "Date": "created"}.items()
        if name in message.headers
    }
    pages = blocks.unpaged()
    return read_whole(
        pages, format=format, reader=f"trivet {format} 1", title=subject or None, metadata=metadata, notes=tuple(notes)
    )
