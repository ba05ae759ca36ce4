"""Pictures of Hangul documents, HWPX and HWP 5; they keep no pages, so pictures have an order and no place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from tasks.rag.documents.hwp import Container, open_container
from tasks.rag.documents.hwp_crypto import decrypt_stream
from tasks.rag.documents.hwp_package import Package, local_name, open_zip
from tasks.rag.documents.hwp_records import inflate
from tasks.rag.documents.images_candidate import ImageCandidate
from tasks.rag.documents.images_raster import ABROAD, Embedded, candidates, read_embedded

SECTION = re.compile(r"(?:.*/)?section\d{1,5}\.xml", re.IGNORECASE)
BIN_DATA = 0x12
"""Tag of the DocInfo records that list the embedded objects (HWP 5 format, revision 1.3, table 13)."""
LINK, EMBEDDED = 0, 1
COMPRESSED = 1
"""Zero leaves it to the document's header."""


def hwpx_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Pictures in the order of the text, then those that only styles use. Raises DocumentError."""
    with open_zip(path) as archive:
        package = Package(archive, password)
        items = _hwpx_items(package)
        sections = sorted(
            (name for name in package.names if SECTION.fullmatch(name)), key=lambda name: (len(name), name)
        )
        shown = [
            node.get("binaryItemIDRef")
            for section in sections
            for node in package.xml(section).iter()
            if node.get("binaryItemIDRef") in items
        ]
        ordered = dict.fromkeys([*shown, *items])
        yield from candidates(_hwpx_image(package, items[id_]) for id_ in ordered)


class _Item(NamedTuple):
    """An image of an HWPX document's manifest."""

    href: str
    embedded: bool


def _hwpx_items(package: Package) -> dict[str, _Item]:
    """Images by item id; without a manifest, the members of BinData by their names."""
    manifest = next((name for name in package.names if name.endswith(".hpf")), None)
    if manifest is None:
        members = sorted(name for name in package.names if name.startswith("BinData/"))
        return {PurePosixPath(name).stem: _Item(name, embedded=True) for name in members}
    folder = PurePosixPath(manifest).parent
    return {
        node.get("id", ""): _Item(_member(package, folder, node.get("href", "")), node.get("isEmbeded") != "0")
        for node in package.xml(manifest).iter()
        if local_name(node) == "item" and node.get("media-type", "").startswith("image/")
    }


def _member(package: Package, folder: PurePosixPath, href: str) -> str:
    """Hangul counts references from the root of the package, other programs from its manifest."""
    beside = str(folder / href)
    return beside if beside in package.names else href.lstrip("/")


def _hwpx_image(package: Package, item: _Item) -> Embedded:
    if not item.embedded:
        return ABROAD
    return read_embedded(lambda: package.read(item.href))


def hwp_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Pictures in the order in which they were put into the document. Raises DocumentError."""
    with open_container(path) as ole:
        container = Container(ole, password, file_bytes=path.stat().st_size)
        names = {name.rpartition("/")[2].upper(): name for name in map("/".join, ole.listdir()) if "BinData/" in name}
        yield from candidates(_hwp_image(container, entry, names) for entry in _bin_data(container))


class _BinData(NamedTuple):
    """An entry of the list of embedded objects."""

    stream: str
    compressed: bool


def _bin_data(container: Container) -> Iterator[_BinData]:
    """The objects that DocInfo lists: streams, links (without a stream) and OLE objects, which are left out."""
    default = container.flags.compressed
    for data in _records(_docinfo(container), BIN_DATA):
        kind, packing = data[0] & 0xF, data[0] >> 4 & 3
        if kind == EMBEDDED:
            number, length = int.from_bytes(data[2:4], "little"), int.from_bytes(data[4:6], "little")
            extension = data[6 : 6 + 2 * length].decode("utf-16-le", "replace")
            yield _BinData(f"BIN{number:04X}.{extension}".upper(), packing == COMPRESSED or (packing == 0 and default))
        elif kind == LINK:
            yield _BinData("", compressed=False)


def _records(stream: bytes, tag: int) -> Iterator[bytes]:
    """Data of the records with one tag: a header of 10 bits tag, 10 level, 12 size; 0xFFF means the size follows."""
    offset = 0
    while offset + 4 <= len(stream):
        word = int.from_bytes(stream[offset : offset + 4], "little")
        offset, size = offset + 4, word >> 20
        if size == 0xFFF:
            offset, size = offset + 4, int.from_bytes(stream[offset : offset + 4], "little")
        if word & 0x3FF == tag and size >= 6:
            yield stream[offset : offset + size]
        offset += size


def _hwp_image(container: Container, entry: _BinData, names: dict[str, str]) -> Embedded:
    if not entry.stream:
        return ABROAD
    if entry.stream not in names:
        return Embedded(b"", f"the document lists {entry.stream} and does not hold it")
    return read_embedded(lambda: _stream(container, names[entry.stream], compressed=entry.compressed))


def _docinfo(container: Container) -> bytes:
    container.docinfo()  # proves the password
    return _stream(container, "DocInfo", compressed=container.flags.compressed)


def _stream(container: Container, name: str, *, compressed: bool) -> bytes:
    """A stream, decrypted with the document's password if it has one."""
    data = container.raw(name)
    if container.flags.password:
        data = decrypt_stream(data, container.password or "", encrypt_version=container.flags.encrypt_version)
    return inflate(data, name=name) if compressed else data
