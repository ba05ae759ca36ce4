"""Why a document cannot be read. Each is permanent: the same bytes fail the same way.

DocumentError
├── NeedsPassword        encrypted, and no password (or a wrong one) was given
├── CorruptDocument      truncated, bit-flipped, or not what it says it is
├── UnsupportedDocument  a format or an encryption that we do not read
├── EmptyDocument        zero bytes
└── RefusedDocument      hostile: zip-slip, entity bomb, deflate bomb, too large

ReaderUnusable           an installed package's reader cannot be loaded; another installation may read the same bytes
"""

from __future__ import annotations

from typing import ClassVar


class DocumentError(Exception):
    """Root; its text is a full sentence that names what was wrong and what to do."""

    reason: ClassVar[str] = "unreadable"
    """Short code for records and tables."""


class NeedsPassword(DocumentError):
    """Encrypted; give the password through `--password-env NAME`."""

    reason = "needs_password"


class CorruptDocument(DocumentError):
    """Truncated, bit-flipped, or not what it says it is."""

    reason = "corrupt"


class UnsupportedDocument(DocumentError):
    """A format or an encryption that is not read."""

    reason = "unsupported"


class EmptyDocument(DocumentError):
    """The file has no bytes."""

    reason = "empty"


class RefusedDocument(DocumentError):
    """Made to harm the reader: path traversal, bombs, sizes beyond the caps."""

    reason = "refused"


class ReaderUnusable(Exception):
    """A reader of an installed package cannot be loaded, or claims what another reader already reads."""

    reason: ClassVar[str] = "reader_unusable"
