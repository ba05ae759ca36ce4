"""Opens HWP and HWPX: text, pictures and pages.

HWPX is a zip of OWPML parts, whose package file orders the sections. HWP is read as the layout engine's HWPX of it.
"""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO
from zipfile import ZipFile

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # a C module without stubs

from tasks.documents import document_errors as errors
from tasks.documents.archives import ZIP_MAGIC, Package, ZipCaps, explain_excessive_size
from tasks.documents.blocks import BBox, ImageCandidate
from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.embedded_images import EXTERNAL_IMAGE, EmbeddedImage, make_candidates, read_embedded
from tasks.documents.hwp.hwp_container import WRONG_PASSWORD, HwpContents, damage_error, divide_contents, read_contents
from tasks.documents.hwp.hwp_layout import (
    PART_XML_BYTES,
    VERSION,
    WHOLE_PARTS,
    Part,
    convert_and_lay_out,
    divide,
    draw_boxes,
)
from tasks.documents.hwp.hwp_model import (
    AnchoredText,
    HangulDocument,
    ListStyles,
    Paragraph,
    Section,
    make_hangul_reader,
)
from tasks.documents.hwp.hwp_owpml import Element, local_name, read_head, read_lines, read_section
from tasks.documents.page_join import LayoutFailed

_SECTION = re.compile(r"(?:.*/)?section(\d{1,5})\.xml", re.IGNORECASE)
# a section of 1,000 pages has about 40 MiB
_CAPS = ZipCaps(member_bytes=64 << 20, total_bytes=1 << 30, ratio=100, ratio_from_bytes=8 << 20)
_MANIFEST = "META-INF/manifest.xml"


def open_hwpx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:
    """Read an HWPX document as a whole. Raises DocumentError."""
    data = path.read_bytes()
    plain = decrypt_hwpx(data, password)
    document = read_hwpx(io.BytesIO(plain))
    if plain is not data:
        with HwpxPackage(io.BytesIO(data)) as package:
            title = _Members(package).read_title()  # the engine leaves it out
        document = document._replace(title=title, notes=("decrypted with the password",))
    return make_hangul_reader(
        document,
        convert_and_lay_out(divide_hwpx(plain), converts=False)[1] if options.layout == "auto" else None,
        format="hwpx",
        reader=f"trivet hwpx + lxml {etree.__version__} + rhwp {VERSION}",
    )


def decrypt_hwpx(data: bytes, password: str | None) -> bytes:
    """Return `data` itself, or an encrypted document as the layout engine writes it anew. Raises DocumentError."""
    with HwpxPackage(io.BytesIO(data)) as package:
        manifest = package.xml(_MANIFEST) if _MANIFEST in package.names else None
    if manifest is None or next(manifest.iter("{*}encryption-data"), None) is None:
        return data
    if password is None:
        raise errors.NeedsPassword("The document is encrypted with a password; name one by `--password-env`.")
    try:
        [(plain, _)], _ = convert_and_lay_out([Part(data)], draws=False, password=password)
    except LayoutFailed as error:
        raise errors.NeedsPassword(WRONG_PASSWORD) from error
    return plain


def divide_hwpx(data: bytes) -> Iterator[Part]:
    """Yield the parts in which a document that was read before is laid out: itself alone if it is not long."""
    with HwpxPackage(io.BytesIO(data)) as package:
        names = _Members(package).section_names()
        if sum(len(package.read(name)) for name in names) <= WHOLE_PARTS * PART_XML_BYTES:
            yield Part(data)
            return
        roots = [package.xml(name) for name in names]
        sections = [list(_measure_paragraphs(root)) for root in roots]
        for part in divide(sections, part_bytes=PART_XML_BYTES):
            first = next(iter(part))
            continues = part[first].start > 0
            changed: dict[str, bytes] = {}
            for number, (name, root) in enumerate(zip(names, roots, strict=True)):
                inside = part.get(number, range(0))
                section = etree.Element(root.tag, root.attrib, root.nsmap)
                section.extend(map(deepcopy, root[inside.start : inside.stop]))
                if continues and number == first:
                    section[0].set("pageBreak", "1")
                    section.insert(0, deepcopy(root[0]))
                changed[name] = etree.tostring(section)
            file = io.BytesIO()
            with ZipFile(file, "w") as written:
                for name in package.names:
                    written.writestr(name, changed.get(name) or package.read(name))
            yield Part(file.getvalue(), range(first, max(part) + 1), continues)


def _measure_paragraphs(section: Element) -> Iterator[tuple[int, bool]]:
    """Yield how many bytes of XML each paragraph has, and whether a page begins with it."""
    last = 0
    for paragraph in section:
        begins_page, tops = read_lines(paragraph)
        yield len(etree.tostring(paragraph)), begins_page or (bool(tops) and tops[0] < last)
        last = tops[-1] if tops else last


def read_hwpx(
    source: Path | IO[bytes], *, numbers: Sequence[int] = (), later: Iterable[tuple[bytes, Part]] = ()
) -> HangulDocument:
    """Return an HWPX document before its conversion to blocks. Raises DocumentError.

    numbers: of notes and captions as Hangul stored them, used if there are as many. later: further parts of a long one.
    """
    with HwpxPackage(source) as package:
        members = _Members(package)
        sections = members.read_sections()
        for data, part in later:
            with HwpxPackage(io.BytesIO(data)) as other:
                parts = _Members(other).read_sections()
            for number in part.sections:
                repeats = part.continues and number == part.sections.start
                sections[number].extend(parts[number][int(repeats) :])
        return members.document(sections, numbers)


class HwpxPackage(Package):
    """The members of an HWPX file. Raises DocumentError."""

    def __init__(self, source: Path | IO[bytes]) -> None:
        super().__init__(source, caps=_CAPS, check_sizes=False)  # `read` does: a bomb for a picture costs that one only

    def xml(self, name: str) -> Element:
        """Return the root of an XML member, parsed without entities, DTD or network. Raises DocumentError."""
        keep_out = dict.fromkeys(("resolve_entities", "load_dtd", "huge_tree"), False)
        parser = etree.XMLParser(**keep_out, no_network=True, remove_comments=True, remove_pis=True)
        try:
            root = etree.fromstring(self.read(name), parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise damage_error(name) from error
        if root.getroottree().docinfo.doctype:
            message = f"Member {name} declares a document type or entities, which OWPML does not use"
            raise errors.RefusedDocument(f"{message}; the file is not read.")
        return root

    def read(self, name: str) -> bytes:
        """Return the content of a member. Raises DocumentError."""
        sentence = explain_excessive_size(self._zip.getinfo(name), caps=_CAPS) if name in self.names else None
        if sentence:
            raise errors.RefusedDocument(f"{sentence}; if it is a real document, open it in Hangul and save it anew.")
        return super().read(name)


class _Members:
    """The members by role, as the package file lists them, or by name where there is none."""

    def __init__(self, package: HwpxPackage) -> None:
        self._package = package
        self._notes = list[str]()
        listing = next((name for name in package.names if name.endswith(".hpf")), None)
        if listing is None:
            self._notes.append("the package file is missing: sections are read in the order of their names")
        self._base = posixpath.dirname(listing or "")
        self._root: Element | None = package.xml(listing) if listing else None
        self._items = [] if self._root is None else [item for item in self._root.iter() if local_name(item) == "item"]
        resolved = {item.get("id", ""): self._resolve(item.get("href", "")) for item in self._items}
        self._members = {id_: name for id_, name in resolved.items() if name}

    def read_sections(self) -> list[Element]:
        """Return the roots of the sections in reading order."""
        return [self._package.xml(name) for name in self.section_names()]

    def document(self, roots: Sequence[Element], numbers: Sequence[int]) -> HangulDocument:
        """Return sections with lists, the title of the package file, and notes; numbers: as in `read_hwpx`."""
        package, styles = self._package, ListStyles({}, {}, {}, {})
        if header := self._members.get("header") or self._resolve("Contents/header.xml"):
            styles = read_head(package.xml(header))
        else:
            self._notes.append("header.xml is missing: numbers and bullets are unknown")

        def master_page(id_: str) -> Element | None:
            return package.xml(self._members[id_]) if id_ in self._members else None

        numbered = [node for root in roots for node in root.iter("{*}autoNum")]
        for node, number in zip(numbered, numbers, strict=True) if len(numbered) == len(numbers) else ():
            node.set("num", str(number))
        sections = [read_section(root, styles, master_page) for root in roots]
        return HangulDocument(tuple(sections), styles, self.read_title(), tuple(self._notes))

    def read_title(self) -> str | None:
        """Return the title of the package file; None without one."""
        titles = self._root.iter("{*}title") if self._root is not None else ()
        return next(filter(None, ((title.text or "").strip() for title in titles)), None)

    def _resolve(self, href: str) -> str:
        """Return the member of a reference from the root (Hangul) or from the package file (others); "" if missing."""
        for name in (href.lstrip("/"), posixpath.normpath(posixpath.join(self._base, href))):
            if name in self._package.names:
                return name
        return ""

    def section_names(self) -> list[str]:
        """Return the names of the sections, first those of the spine. Raises CorruptDocument where there is none."""
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
            raise errors.CorruptDocument(
                "The document holds no text: it is damaged, or of another format than HWPX; ask for an intact copy."
            )
        return spine + forgotten

    def images(self) -> Iterator[EmbeddedImage]:
        """Yield each picture, or why it is lost, once: in the order of the text, then those that only styles use."""
        pictures: dict[str, str | None] = {}
        """Member of each picture by item id, None for one outside the document."""
        for item in self._items:
            if item.get("media-type", "").startswith("image/"):
                id_ = item.get("id", "")
                member = self._members.get(id_, item.get("href", "").lstrip("/"))
                pictures[id_] = None if item.get("isEmbeded") == "0" else member  # the format spells it so
        if self._root is None:  # without a manifest, by name
            names = sorted(name for name in self._package.names if re.fullmatch("BinData/.*[^/]", name))
            pictures = {PurePosixPath(name).stem: name for name in names}
        nodes = (node for section in self.section_names() for node in self._package.xml(section).iter())
        referenced = [id_ for node in nodes if (id_ := node.get("binaryItemIDRef")) in pictures]
        for id_ in dict.fromkeys([*referenced, *pictures]):
            name = pictures[id_]
            yield EXTERNAL_IMAGE if name is None else read_embedded(partial(self._package.read, name))


def hwpx_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures in the order of the text, then those that only styles use. Raises DocumentError."""
    yield from find_pictures(decrypt_hwpx(path.read_bytes(), password))


def find_pictures(data: bytes) -> Iterator[ImageCandidate]:
    """Yield the pictures of a document that is not encrypted."""
    with HwpxPackage(io.BytesIO(data)) as package:
        yield from make_candidates(_Members(package).images())


def open_hwp(path: Path, *, password: str | None, options: ReadOptions) -> Reader:
    """Read an HWP 5 or HWP 3 document whole, or its text alone where it is not converted. Raises DocumentError."""
    contents = read_contents(path, password)
    draws, parts = options.layout == "auto", divide_contents(contents.data)
    try:
        converted, laid = convert_and_lay_out(parts, draws=draws)
        document = read_converted(converted, contents)
    except LayoutFailed as error:
        document, laid = _read_text_alone(contents, str(error)), None
    return make_hangul_reader(
        document,
        laid if draws else None,
        format="hwp",
        reader=f"trivet hwp + rhwp {VERSION}",
        texts=contents.texts or None,
    )


def read_converted(converted: Sequence[tuple[bytes, Part]], contents: HwpContents) -> HangulDocument:
    """Return a converted document, with what the engine leaves out of it, before its conversion to blocks."""
    (hwpx, _), *later = converted
    document = read_hwpx(io.BytesIO(hwpx), numbers=contents.numbers, later=later)
    *sections, last = document.sections
    memos = [AnchoredText("note", (Paragraph((text,), None),)) for text in contents.memos]
    left_out = [Paragraph((text,), None) for text in contents.word_art] + [Paragraph(tuple(memos), None)]
    last = last._replace(paragraphs=(*last.paragraphs, *left_out))
    return document._replace(sections=(*sections, last), title=contents.title, notes=contents.notes)


def _read_text_alone(contents: HwpContents, why: str) -> HangulDocument:
    """Return the paragraphs of a document that is not converted. Raises UnsupportedDocument for HWP 3."""
    if not contents.texts:
        raise UnsupportedDocument(
            f"The document is encrypted, damaged, or of a kind that is not read ({why}); open it in Hangul "
            "and save it as HWPX."
        )
    paragraphs = [Paragraph((text,), None) for text in contents.texts]
    shown = [paragraph for paragraph in paragraphs if paragraph.runs[0] not in contents.comments]
    hidden = [AnchoredText("hidden comment", (Paragraph((text,), None),)) for text in contents.comments]
    section = Section((*shown, Paragraph(tuple(hidden), None)), outline_id=0)
    notes = (*contents.notes, f"without tables and pages: {why}")
    return HangulDocument((section,), ListStyles({}, {}, {}, {}), contents.title, notes)


def hwp_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures in the order of the text, then those that only styles use. Raises DocumentError."""
    try:
        first = next(divide_contents(read_contents(path, password).data))  # which has the pictures of all
        [(hwpx, _)], _ = convert_and_lay_out([first], draws=False)
    except LayoutFailed as error:
        raise UnsupportedDocument(f"The pictures cannot be read ({error}); save the document as HWPX.") from error
    yield from find_pictures(hwpx)


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the 1-based number and the PNG of each existing page of `boxes`, of HWPX, too. Raises DocumentError."""
    data = path.read_bytes()
    is_zip = data.startswith(ZIP_MAGIC)
    data = decrypt_hwpx(data, password) if is_zip else read_contents(path, password).data
    return draw_boxes(divide_hwpx(data) if is_zip else divide_contents(data), boxes)
