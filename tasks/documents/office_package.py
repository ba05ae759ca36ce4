"""What the packages of Office have in common: relationships between parts, properties, encryption.

And the parts of a Word document, in one set of namespaces for both variants of the standard.
"""

from __future__ import annotations

import posixpath
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn
from urllib.parse import unquote

from tasks.documents.archives import OLE_MAGIC, Package, parse_xml
from tasks.documents.document_errors import CorruptDocument, NeedsPassword, UnsupportedDocument
from tasks.documents.document_readers import ReadOptions, make_storable


class Link(NamedTuple):
    """A reference from one part to another, or to something outside the document."""

    type: str
    """Last segment of the type: `worksheet`, `comments` …"""
    target: str
    external: bool


def refuse_encrypted(path: Path, password: str | None, *, program: str) -> None:
    """Raise NeedsPassword, or with a password UnsupportedDocument, for an encrypted document: OLE around the zip."""
    with path.open("rb") as file:
        if file.read(len(OLE_MAGIC)) != OLE_MAGIC:
            return
    remedy = f"save a copy without a password in {program} and index that"
    if password is None:
        raise NeedsPassword(f"The {program} document is encrypted, and its encryption is not supported; {remedy}.")
    raise UnsupportedDocument(f"The encryption of {program} documents is not supported, even with password; {remedy}.")


def refuse_old(path: Path, *, password: str | None, options: ReadOptions) -> NoReturn:  # noqa: ARG001
    """Raise UnsupportedDocument for a file of Office 97 to 2003."""
    remedy = "save it as .docx, .xlsx or .pptx; `soffice --headless --convert-to docx FILE` does so for Word"
    raise UnsupportedDocument(f"The file is in the binary format of Office 97 to 2003; {remedy}.")


def read_links(package: Package, part: str) -> dict[str, Link]:
    """Return the relationships of a part by id, {} if it has none; those of the package itself for ""."""
    folder, file = posixpath.split(part)
    listing = posixpath.join(folder, "_rels", f"{file}.rels")
    if listing not in package.names:
        return {}
    references: dict[str, Link] = {}
    for node in package.xml(listing):
        target, external = node.get("Target", ""), node.get("TargetMode") == "External"
        if not external:
            # with a leading slash it counts from the root
            target = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
        references[node.get("Id", "")] = Link(node.get("Type", "").rpartition("/")[2], target, external)
    return references


def find_main_part(package: Package, otherwise: str, *, kind: str) -> str:
    """Return the name of the part with the document, by default `otherwise`. Raises CorruptDocument without one."""
    targets = [link.target for link in read_links(package, "").values() if link.type == "officeDocument"]
    main = next((name for name in (*targets, otherwise) if name in package.names), None)
    if main is None:
        raise CorruptDocument(f"The package holds no {kind}; it may be another Office file, or truncated.")
    return main


def read_title(package: Package) -> str | None:
    """Return the title among the properties of a package; None where it has none."""
    properties = package.xml("docProps/core.xml") if "docProps/core.xml" in package.names else ()
    titles = (node.text for node in properties if local_name(node.tag) == "title")
    return make_storable((next(titles, None) or "").strip()) or None


def list_unread(package: Package, kind: str, counts: Mapping[str, int]) -> list[str]:
    """Return a sentence on macros, which are neither read nor run, and those of `counts` that count something."""
    macros = any(name.endswith("vbaProject.bin") for name in package.names)
    sentences = [f"The {kind} holds macros; they were neither read nor run."] if macros else []
    return sentences + [f"{sentence}: {count}." for sentence, count in counts.items() if count]


@lru_cache(maxsize=4096)  # called for every element of a sheet, with a few dozen names
def local_name(tag: str) -> str:
    """Return a name without its namespace: the two variants of the standard differ in namespaces only."""
    return tag.rpartition("}")[2]


def read_chart(root: Any) -> list[list[str]]:
    """Return a chart's data: a row for each category, a column for each series, their names on top; [] without any."""
    series = root.findall(".//{*}ser") if local_name(root.tag) == "chartSpace" else []
    columns = [_read_points(node, "val", "yVal") for node in series]
    categories = next((points for node in series if (points := _read_points(node, "cat", "xVal"))), {})
    rows = [[column.get(n, "") for column in (categories, *columns)] for n in sorted(set(categories).union(*columns))]
    return [["", *(" ".join(_read_points(node, "tx").values()) for node in series)], *rows] if rows else []


def _read_points(series: Any, *parts: str) -> dict[int, str]:
    """Return a series' cached values in its elements `parts`, by position; categories of several levels are joined."""
    points: dict[int, str] = {}
    for point in (point for part in parts for point in series.findall(f"{{*}}{part}//{{*}}pt")):
        index, value = int(point.get("idx", "0")), point.findtext("{*}v") or ""
        if parts[0] == "val":
            with suppress(ValueError):
                value = f"{float(value):.11g}"  # as many digits as a cell shows without a format
        points[index] = f"{value} {points[index]}" if index in points else value
    return points


W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"

# ISO 29500 Strict has namespaces of its own for the same elements
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(officeDocument|wordprocessingml|drawingml)/([A-Za-z]+)")
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/\2"


class Part(NamedTuple):
    """An XML part with its relationships by id."""

    name: str
    root: ET.Element
    relationships: dict[str, Link]


class WordPackage(Package):
    """A Word document as parts in one set of namespaces."""

    def part(self, name: str) -> Part:
        """Return the part `name` with its relationships. Raises CorruptDocument."""
        return Part(name, self.tree(name), read_links(self, name))

    def find_related(self, part: Part, kind: str) -> Part | None:
        """Return the part of a kind (`styles`, `footnotes` …) that `part` points to, or None."""
        for relationship in part.relationships.values():
            if relationship.type == kind and not relationship.external and relationship.target in self.names:
                return self.part(relationship.target)
        return None

    def tree(self, name: str) -> ET.Element:
        """Return the XML of a part, in the transitional namespaces."""
        return parse_xml(_STRICT.sub(_TRANSITIONAL, self.xml_source(name)), name=name)


def word_attribute(node: ET.Element, name: str) -> str | None:
    """Return an attribute in the namespace of WordprocessingML, `w:val` for `val`; None where it is not set."""
    return node.get(W + name)


@lru_cache
def _word_path(path: str) -> str:
    return "/".join(W + step for step in path.split("/"))


def child_value(node: ET.Element, path: str) -> str | None:
    """Return the `w:val` of a child, found by a path such as `pPr/pStyle`; None without the child or its value."""
    child = node.find(_word_path(path))
    return None if child is None else child.get(f"{W}val")


def is_on(switch: ET.Element | None) -> bool:
    """Return whether a switch such as `pageBreakBefore` is present and not set to off."""
    return switch is not None and switch.get(f"{W}val") not in ("0", "false", "off")
