"""Zip archives in memory."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path


def zipped(members: Mapping[str, str | bytes] | Mapping[str, bytes]) -> bytes:
    """An archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def changed(path: Path, part: str, change: Callable[[str], str]) -> Path:
    """The same package with one part changed, or added."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts[part] = change(parts.get(part, b"").decode()).encode()
    path.write_bytes(zipped(parts))
    return path
