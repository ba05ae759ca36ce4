"""The ZIP of an HWPX document, opened under caps; members that a password hides are decrypted on the way."""

from __future__ import annotations

import base64
import binascii
import hashlib
import posixpath
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple

from lxml import etree  # pyright: ignore[reportAttributeAccessIssue]  # a C module without stubs

from tasks.documents.document_errors import (
    CorruptDocument,
    EmptyDocument,
    NeedsPassword,
    RefusedDocument,
    UnsupportedDocument,
)
from tasks.documents.hwp.hwp_crypto import decrypt_open_document, open_document_key
from tasks.documents.hwp.hwp_records import inflate

Element = Any
"""An lxml element; lxml carries no types."""

MAX_MEMBERS = 10_000
MAX_MEMBER_BYTES = 64 << 20
"""Inflated size of one XML part; a section of 1,000 pages has about 40 MiB."""
MAX_TOTAL_BYTES = 1 << 30
"""Declared size of all members together, pictures included, although they are not inflated here."""
MAX_RATIO = 100
"""Inflated over packed size of XML parts above `_SMALL_BYTES`."""
_SMALL_BYTES = 8 << 20
_MANIFEST = "META-INF/manifest.xml"
_HINT = "ask for an intact copy"


class _Cipher(NamedTuple):
    """How one member is encrypted."""

    vector: bytes
    salt: bytes
    iterations: int
    key_bytes: int
    checksum: bytes
    """SHA-256 of the first 1024 bytes of the plain member."""


class Package:
    """The members of an HWPX file, by name. Raises DocumentError on opening and on reading."""

    def __init__(self, archive: zipfile.ZipFile, password: str | None) -> None:
        self._zip = archive
        self._password = password
        self._keys: dict[tuple[bytes, int, int], bytes] = {}
        self._ciphers: dict[str, _Cipher] = {}
        _check_directory(self._zip.infolist())
        self.names = [info.filename for info in self._zip.infolist() if not info.is_dir()]
        if _MANIFEST in self.names:
            self._ciphers = _ciphers(self.xml(_MANIFEST))
        if self._ciphers and password is None:
            raise NeedsPassword("The document is encrypted with a password; name one by `--password-env`.")

    @property
    def encrypted(self) -> bool:
        return bool(self._ciphers)

    def xml(self, name: str) -> Element:
        """The root of an XML member, parsed without entities, DTD or network."""
        data = self.read(name)
        if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data[:4096]:
            raise RefusedDocument(_entities(name))
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
            raise CorruptDocument(f"Member {name} is not well-formed XML ({error}); {_HINT}.") from error
        if root.getroottree().docinfo.doctype:  # in an encoding that hides it from the search above
            raise RefusedDocument(_entities(name))
        return root

    def read(self, name: str) -> bytes:
        data = self._inflated(name)
        cipher = self._ciphers.get(name)
        return self._decrypted(name, data, cipher) if cipher else data

    def _inflated(self, name: str) -> bytes:
        try:
            info = self._zip.getinfo(name)
            limit = min(MAX_MEMBER_BYTES, max(_SMALL_BYTES, MAX_RATIO * info.compress_size))
            with self._zip.open(info) as member:
                data = member.read(limit + 1)
        except KeyError as error:
            raise CorruptDocument(f"The document has no member {name}: it is not whole; {_HINT}.") from error
        except NotImplementedError as error:
            raise UnsupportedDocument(
                f"Member {name} is packed in a way that is not read ({error}); open the document in Hangul and save it."
            ) from error
        except RuntimeError as error:  # what zipfile raises for a ZIP password
            raise UnsupportedDocument(
                f"Member {name} has a ZIP password, which HWPX does not use; unpack and pack it without one."
            ) from error
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError) as error:
            raise CorruptDocument(f"Member {name} is damaged ({error}); {_HINT}.") from error
        if len(data) > limit:
            raise RefusedDocument(
                f"Member {name} inflates from {info.compress_size} to more than {limit} bytes: it looks like a "
                "deflate bomb; if it is a real document, open it in Hangul and save it anew."
            )
        return data

    def _decrypted(self, name: str, data: bytes, cipher: _Cipher) -> bytes:
        recipe = (cipher.salt, cipher.iterations, cipher.key_bytes)
        if recipe not in self._keys:
            self._keys[recipe] = open_document_key(
                self._password or "", salt=cipher.salt, iterations=cipher.iterations, key_bytes=cipher.key_bytes
            )
        packed = decrypt_open_document(data, key=self._keys[recipe], vector=cipher.vector)
        try:
            plain = inflate(packed, name=name)
        except CorruptDocument as error:
            raise NeedsPassword(_WRONG_PASSWORD) from error
        if hashlib.sha256(plain[:1024]).digest() != cipher.checksum:
            raise NeedsPassword(_WRONG_PASSWORD)
        return plain


_WRONG_PASSWORD = "The password does not open the document, or the document is damaged; check `--password-env`."


def local_name(element: Element) -> str:
    """The tag without its namespace: OWPML's namespaces differ by year, its names do not."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""


def open_zip(path: Path) -> zipfile.ZipFile:
    if not path.stat().st_size:
        raise EmptyDocument("The document has no bytes; ask for the file again.")
    try:
        return zipfile.ZipFile(path)
    except NotImplementedError as error:
        raise UnsupportedDocument(f"The document is a ZIP of a kind that is not read ({error}).") from error
    except (zipfile.BadZipFile, OSError, ValueError, OverflowError) as error:
        raise CorruptDocument(
            f"The document is not an HWPX document, or not whole: its ZIP directory cannot be read ({error}); {_HINT}."
        ) from error


def _check_directory(members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MAX_MEMBERS:
        raise RefusedDocument(f"The document has {len(members)} members, expected at most {MAX_MEMBERS}: not read.")
    total = sum(member.file_size for member in members)
    if total > MAX_TOTAL_BYTES:
        raise RefusedDocument(
            f"The members declare {total} bytes together, expected at most {MAX_TOTAL_BYTES}: it looks like a bomb."
        )
    for member in members:
        name = member.orig_filename.replace("\\", "/")
        if name.startswith("/") or ":" in name.partition("/")[0] or ".." in name.split("/") or "\0" in name:
            raise RefusedDocument(f"Member {name!r} points outside of the document (zip-slip); the file is not read.")


def _entities(name: str) -> str:
    return f"Member {name} declares a document type or entities, which OWPML does not use; the file is not read."


def _ciphers(manifest: Element) -> dict[str, _Cipher]:
    """How each encrypted member is encrypted, by its name."""
    found: dict[str, _Cipher] = {}
    for entry in manifest.iter():
        if local_name(entry) == "file-entry":
            parts = {local_name(part): part for part in entry.iter()}
            if "encryption-data" in parts:
                found[posixpath.normpath(_attribute(entry, "full-path")).lstrip("/")] = _cipher(parts)
    return found


def _cipher(parts: dict[str, Element]) -> _Cipher:
    try:
        data, algorithm, derivation = parts["encryption-data"], parts["algorithm"], parts["key-derivation"]
        start_key = parts["start-key-generation"]
    except KeyError as error:
        raise CorruptDocument(f"The manifest's encryption data lacks {error}; {_HINT}.") from error
    used = tuple(
        _attribute(part, name).rpartition("#")[2].lower()
        for part, name in (
            (data, "checksum-type"),
            (algorithm, "algorithm-name"),
            (derivation, "key-derivation-name"),
            (start_key, "start-key-generation-name"),
        )
    )
    if (used[0], used[2], used[3]) != ("sha256-1k", "pbkdf2", "sha256") or not used[1].endswith("-cbc"):
        raise UnsupportedDocument(
            f"The document is encrypted by {', '.join(used)}; expected sha256-1k, AES-CBC, pbkdf2, sha256: "
            "save it in Hangul without a password."
        )
    try:
        return _Cipher(
            vector=base64.b64decode(_attribute(algorithm, "initialisation-vector"), validate=True),
            salt=base64.b64decode(_attribute(derivation, "salt"), validate=True),
            iterations=int(_attribute(derivation, "iteration-count")),
            key_bytes=int(_attribute(derivation, "key-size")),
            checksum=base64.b64decode(_attribute(data, "checksum"), validate=True),
        )
    except (binascii.Error, ValueError) as error:
        raise CorruptDocument(f"The manifest's encryption data is damaged ({error}); {_HINT}.") from error


def _attribute(element: Element, name: str) -> str:
    """The attribute of that local name; "" where there is none."""
    return next((str(value) for key, value in element.attrib.items() if key.rpartition("}")[2] == name), "")
