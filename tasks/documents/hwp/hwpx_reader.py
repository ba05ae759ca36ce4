"""HWPX: a zip of OWPML parts, whose package file names the sections in reading order. Text, metadata and pictures."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # a C module without stubs

from tasks.documents.blocks import ImageCandidate
from tasks.documents.document_errors import CorruptDocument
from tasks.documents.hwp.hwp_assembly import HangulReader, assemble
from tasks.documents.hwp.hwp_model import HangulDocument
from tasks.documents.hwp.hwp_owpml import NO_HEAD, Head, read_head, read_section
from tasks.documents.hwp.hwp_package import Element, Package, local_name, open_zip
from tasks.documents.images.raster_images import ABROAD, Embedded, candidates, read_embedded
from tasks.documents.read_options import Header, ReadOptions

_SECTION = re.compile(r"(?:.*/)?section(\d{1,5})\.xml", re.IGNORECASE)
_METADATA = {
    "creator": "author",
    "subject": "subject",
    "description": "comments",
    "keyword": "keywords",
    "lastsaveby": "last_author",
    "CreatedDate": "created",
}
"""The package's names, and those that both formats share here."""


def open_hwpx(path: Path, *, password: str | None, options: ReadOptions) -> HangulReader:  # noqa: ARG001
    """Reads an HWPX document. Raises DocumentError."""
    document = read_hwpx(path, password=password)
    header = Header(
        format="hwpx",
        reader=f"trivet hwpx + lxml {etree.__version__}",
        page_source="none",
        page_count=1,
        title=document.title,
        metadata=document.metadata,
        notes=document.notes,
    )
    return HangulReader(header, assemble(document))


def read_hwpx(path: Path, *, password: str | None) -> HangulDocument:
    """The document before it becomes blocks."""
    with open_zip(path) as archive:
        return _Parts(Package(archive, password)).document()


class _Parts:
    """What the package file says: which member is what. Without one, names tell."""

    def __init__(self, package: Package) -> None:
        self._package = package
        self._notes = ["decrypted with the password"] if package.encrypted else []
        self._base, self._root = self._package_file()
        self._members = dict(self._manifest())

    def document(self) -> HangulDocument:
        head = self._head()
        names = self._section_names()
        sections = tuple(read_section(self._package.xml(name), head, self._master_page) for name in names)
        title, metadata = self._metadata()
        return HangulDocument(sections, head.styles, title, metadata, tuple(self._notes))

    def _package_file(self) -> tuple[str, Element | None]:
        """The folder and root of content.hpf."""
        name = next((name for name in self._package.names if name.endswith(".hpf")), None)
        if name is None:
            self._notes.append("the package file is missing: sections are read in the order of their names")
            return "", None
        return posixpath.dirname(name), self._package.xml(name)

    def _manifest(self) -> list[tuple[str, str]]:
        """Item id and member name of what the package lists and the ZIP holds."""
        if self._root is None:
            return []
        items = [item for item in self._root.iter() if local_name(item) == "item"]
        found = ((item.get("id", ""), self._resolve(item.get("href", ""))) for item in items)
        return [(id_, name) for id_, name in found if name]

    def _resolve(self, href: str) -> str:
        """The member of a reference: Hangul writes them from the root, other programs from the package file."""
        for name in (href.lstrip("/"), posixpath.normpath(posixpath.join(self._base, href))):
            if name in self._package.names:
                return name
        return ""

    def _section_names(self) -> list[str]:
        """Sections in the order of the spine, then any that it forgets."""
        spine: list[str] = []
        if self._root is not None:
            references = [item.get("idref", "") for item in self._root.iter() if local_name(item) == "itemref"]
            spine = [self._members[id_] for id_ in references if id_ in self._members]
        spine = [name for name in dict.fromkeys(spine) if _SECTION.fullmatch(name)]
        matches = [match for name in self._package.names if (match := _SECTION.fullmatch(name))]
        by_number = [match[0] for match in sorted(matches, key=lambda match: (int(match[1]), match[0]))]
        forgotten = [name for name in by_number if name not in spine]
        if spine and forgotten:
            self._notes.append(f"sections that the package file does not list are read last: {', '.join(forgotten)}")
        if not spine and not forgotten:
            raise CorruptDocument("The document has no section: not an HWPX document, or not whole; check the file.")
        return spine + forgotten

    def _head(self) -> Head:
        name = self._members.get("header") or self._resolve("Contents/header.xml")
        if not name:
            self._notes.append("header.xml is missing: numbers and bullets are unknown")
            return NO_HEAD
        return read_head(self._package.xml(name))

    def _master_page(self, id_: str) -> Element | None:
        name = self._members.get(id_)
        return self._package.xml(name) if name else None

    def _metadata(self) -> tuple[str | None, dict[str, str]]:
        title, found = None, dict[str, str]()
        for element in self._root.iter() if self._root is not None else ():
            text = (element.text or "").strip()
            if text and local_name(element) == "title":
                title = text
            elif text and local_name(element) == "meta" and element.get("name") in _METADATA:
                found[_METADATA[element.get("name")]] = text
        return title, found


def hwpx_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Pictures in the order of the text, then those that only styles use. Raises DocumentError."""
    with open_zip(path) as archive:
        package = Package(archive, password)
        items = _hwpx_items(package)
        sections = sorted(
            (name for name in package.names if _SECTION.fullmatch(name)), key=lambda name: (len(name), name)
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
