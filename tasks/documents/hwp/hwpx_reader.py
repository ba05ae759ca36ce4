"""HWPX: a zip of OWPML parts, whose package file names the sections in reading order. Text, metadata and pictures."""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # a C module without stubs

from tasks.documents import document_errors as errors
from tasks.documents.archives import Package, ZipCaps, explain_excessive_size
from tasks.documents.blocks import ImageCandidate
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.embedded_images import EXTERNAL_IMAGE, EmbeddedImage, make_candidates, read_embedded
from tasks.documents.hwp.hwp_assembly import make_hangul_reader
from tasks.documents.hwp.hwp_engine import VERSION
from tasks.documents.hwp.hwp_layout import lay_out
from tasks.documents.hwp.hwp_model import HangulDocument, ListStyles
from tasks.documents.hwp.hwp_owpml import Element, local_name, read_head, read_section
from tasks.documents.hwp.hwp_streams import (
    WRONG_PASSWORD,
    damage_error,
    decrypt_open_document,
    inflate,
    open_document_key,
)

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
# a section of 1,000 pages has about 40 MiB
_CAPS = ZipCaps(member_bytes=64 << 20, total_bytes=1 << 30, ratio=100, ratio_from_bytes=8 << 20)
_MANIFEST = "META-INF/manifest.xml"
_CIPHER = (
    "encryption-data checksum-type",
    "algorithm algorithm-name",
    "key-derivation key-derivation-name",
    "start-key-generation start-key-generation-name",
)
"""Where the manifest names the algorithms: element and attribute."""


def open_hwpx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:
    """Read an HWPX document as a whole. Raises DocumentError."""
    document = read_hwpx(path, password=password)
    return make_hangul_reader(
        document,
        partial(lay_out, path.read_bytes()) if options.layout == "auto" else None,
        format="hwpx",
        reader=f"trivet hwpx + lxml {etree.__version__} + rhwp {VERSION}",
    )


def read_hwpx(source: Path | IO[bytes], *, password: str | None, numbers: Sequence[int] = ()) -> HangulDocument:
    """Return an HWPX document before its conversion to blocks. Raises DocumentError.

    numbers: of notes and captions, where the layout engine has numbered them anew.
    """
    with HwpxPackage(source, password) as package:
        return _Parts(package).document(numbers)


class HwpxPackage(Package):
    """The members of an HWPX file, decrypted where needed. Raises DocumentError."""

    def __init__(self, source: Path | IO[bytes], password: str | None) -> None:
        if isinstance(source, Path) and not source.stat().st_size:
            raise errors.EmptyDocument("The document has no bytes; ask for the file again.")
        super().__init__(source, caps=_CAPS, check_sizes=False)  # `read` does: a bomb for a picture costs that one only
        self._key = cache(partial(open_document_key, password or ""))
        self.ciphers: dict[str, _Cipher] = {}
        """Member name → how it is encrypted."""
        if _MANIFEST in self.names:
            self.ciphers = _read_ciphers(self.xml(_MANIFEST))
        if self.ciphers and password is None:
            raise errors.NeedsPassword("The document is encrypted with a password; name one by `--password-env`.")

    def xml(self, name: str) -> Element:
        """Return the root of an XML member, parsed without entities, DTD or network."""
        data = self.read(name)
        if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data[:4096]:
            raise errors.RefusedDocument(_entity_refusal(name))
        parser = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
        )
        try:
            root = etree.fromstring(data, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise damage_error(name) from error
        if root.getroottree().docinfo.doctype:  # in an encoding that hides it from the search above
            raise errors.RefusedDocument(_entity_refusal(name))
        return root

    def read(self, name: str) -> bytes:
        """Return the content of a member, decrypted where it is encrypted."""
        sentence = explain_excessive_size(self._zip.getinfo(name), caps=_CAPS) if name in self.names else None
        if sentence:
            raise errors.RefusedDocument(f"{sentence}; if it is a real document, open it in Hangul and save it anew.")
        data, cipher = super().read(name), self.ciphers.get(name)
        if cipher is None:
            return data
        key = self._key(salt=cipher.salt, iterations=cipher.iterations, key_bytes=cipher.key_bytes)
        packed = decrypt_open_document(data, key=key, vector=cipher.vector)
        try:
            plain = inflate(packed, name=name)
        except errors.CorruptDocument as error:
            raise errors.NeedsPassword(WRONG_PASSWORD) from error
        if hashlib.sha256(plain[:1024]).digest() != cipher.checksum:
            raise errors.NeedsPassword(WRONG_PASSWORD)
        return plain


def _entity_refusal(name: str) -> str:
    return f"Member {name} declares a document type or entities, which OWPML does not use; the file is not read."


class _Cipher(NamedTuple):
    """Encryption parameters of a member."""

    vector: bytes
    salt: bytes
    iterations: int
    key_bytes: int
    checksum: bytes
    """SHA-256 of the first 1024 bytes of the plain member."""


def _read_ciphers(manifest: Element) -> dict[str, _Cipher]:
    """Return the encryption parameters of the encrypted members, by name."""
    ciphers: dict[str, _Cipher] = {}
    for entry in manifest.iter("{*}file-entry"):
        about = {
            f"{local_name(part)} {name.rpartition('}')[2]}": str(value)
            for part in entry.iter()
            for name, value in part.attrib.items()
        }
        if "encryption-data checksum-type" not in about:
            continue
        used = [about.get(name, "").rpartition("#")[2].lower() for name in _CIPHER]  # written as a URI or by name alone
        if [*used[:1], *used[2:]] != ["sha256-1k", "pbkdf2", "sha256"] or not used[1].endswith("-cbc"):
            raise errors.UnsupportedDocument(
                f"The document is encrypted by {', '.join(used)}; expected sha256-1k, AES-CBC, pbkdf2, sha256: "
                "save it in Hangul without a password."
            )
        try:
            cipher = _Cipher(
                vector=base64.b64decode(about["algorithm initialisation-vector"], validate=True),
                salt=base64.b64decode(about["key-derivation salt"], validate=True),
                iterations=int(about["key-derivation iteration-count"]),
                key_bytes=int(about["key-derivation key-size"]),
                checksum=base64.b64decode(about["encryption-data checksum"], validate=True),
            )
        except (KeyError, ValueError) as error:
            raise damage_error() from error
        ciphers[posixpath.normpath(about.get("file-entry full-path", "")).lstrip("/")] = cipher
    return ciphers


class _Parts:
    """The members by role, as the package file lists them, or by name where there is none."""

    def __init__(self, package: HwpxPackage) -> None:
        self._package = package
        self._notes = ["decrypted with the password"] if package.ciphers else []
        listing = next((name for name in package.names if name.endswith(".hpf")), None)
        if listing is None:
            self._notes.append("the package file is missing: sections are read in the order of their names")
        self._base = posixpath.dirname(listing or "")
        self._root: Element | None = package.xml(listing) if listing else None
        self._items = [] if self._root is None else [item for item in self._root.iter() if local_name(item) == "item"]
        resolved = {item.get("id", ""): self._resolve(item.get("href", "")) for item in self._items}
        self._members = {id_: name for id_, name in resolved.items() if name}

    def document(self, numbers: Sequence[int]) -> HangulDocument:
        """Return the text with its lists, and the title and metadata of the package file."""
        package, styles = self._package, ListStyles({}, {}, {}, {})
        if header := self._members.get("header") or self._resolve("Contents/header.xml"):
            styles = read_head(package.xml(header))
        else:
            self._notes.append("header.xml is missing: numbers and bullets are unknown")

        def master_page(id_: str) -> Element | None:
            return package.xml(self._members[id_]) if id_ in self._members else None

        roots = [package.xml(name) for name in self._section_names()]
        numbered = [node for root in roots for node in root.iter("{*}autoNum")]
        for node, number in zip(numbered, numbers, strict=True) if len(numbered) == len(numbers) else ():
            node.set("num", str(number))
        sections = [read_section(root, styles, master_page) for root in roots]
        title, metadata = None, dict[str, str]()
        for element in self._root.iter("{*}title", "{*}meta") if self._root is not None else ():
            text = (element.text or "").strip()
            if text and local_name(element) == "title":
                title = text
            elif text and element.get("name") in _METADATA:
                metadata[_METADATA[element.get("name")]] = text
        return HangulDocument(tuple(sections), styles, title, metadata, tuple(self._notes))

    def _resolve(self, href: str) -> str:
        """Return the member of a reference from the root (Hangul) or from the package file (others); "" if missing."""
        for name in (href.lstrip("/"), posixpath.normpath(posixpath.join(self._base, href))):
            if name in self._package.names:
                return name
        return ""

    def _section_names(self) -> list[str]:
        """Return the names of the sections in the order of the spine, then those that it forgets."""
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
        """Yield the pictures in the order of the text, then those that only styles use."""
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
        nodes = (node for section in self._section_names() for node in self._package.xml(section).iter())
        referenced = [id_ for node in nodes if (id_ := node.get("binaryItemIDRef")) in pictures]
        for id_ in dict.fromkeys([*referenced, *pictures]):
            name = pictures[id_]
            yield EXTERNAL_IMAGE if name is None else read_embedded(partial(self._package.read, name))


def hwpx_images(path: Path | IO[bytes], *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures in the order of the text, then those that only styles use. Raises DocumentError."""
    with HwpxPackage(path, password) as package:
        yield from make_candidates(_Parts(package).images())
