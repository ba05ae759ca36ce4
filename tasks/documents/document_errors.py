"""Why a document cannot be read. Each is permanent: the same bytes fail the same way.

DocumentError
├── NeedsPassword        encrypted, and no password (or a wrong one) was given: `--password-env NAME`
├── CorruptDocument      truncated, bit-flipped, or not what it says it is
├── UnsupportedDocument  a format or an encryption that is not read
├── EmptyDocument        zero bytes
└── RefusedDocument      hostile: path traversal, entity bomb, deflate bomb, larger than the caps

ReaderUnusable           an installed package's reader cannot be loaded; another installation may read the same bytes
"""

from __future__ import annotations

from typing import ClassVar


class DocumentError(Exception):
    """The root of all reasons why a document is not read; its message says what is wrong and what to do."""

    reason: ClassVar[str] = "unreadable"
    """Short code of the reason, for records and tables."""


class NeedsPassword(DocumentError):
    """The document is encrypted, and no password or a wrong one was given."""

    reason = "needs_password"


class CorruptDocument(DocumentError):
    """The file is truncated, damaged, or not of the format that it claims."""

    reason = "corrupt"


class UnsupportedDocument(DocumentError):
    """The file has a format or an encryption that no reader reads."""

    reason = "unsupported"


class EmptyDocument(DocumentError):
    """The file is empty: it has no bytes."""

    reason = "empty"


class RefusedDocument(DocumentError):
    """The file is hostile: path traversal, an entity or deflate bomb, or larger than the caps."""

    reason = "refused"


class ReaderUnusable(Exception):
    """A reader of an installed package cannot be loaded, or claims what another reader already reads."""

    reason: ClassVar[str] = "reader_unusable"


def shorten(error: object) -> str:
    """Return the message of a library on one line of at most 120 characters."""
    return " ".join(str(error).split())[:120]
