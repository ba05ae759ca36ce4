"""Zip archives in memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def zipped(members: Mapping[str, str | bytes] | Mapping[str, bytes]) -> bytes:
    """An archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()
