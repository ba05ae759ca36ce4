"""The parts of a Word document and their relationships, in one set of namespaces for both variants of the standard."""

from __future__ import annotations

import posixpath
import re
import xml.etree.ElementTree as ET
from typing import NamedTuple
from urllib.parse import unquote

from tasks.documents.archives import Package, parse_xml
from tasks.documents.document_errors import CorruptDocument

W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_RELATIONSHIP = "{http://schemas.openxmlformats.org/package/2006/relationships}Relationship"

# ISO 29500 Strict has namespaces of its own for the same elements
_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/(officeDocument|wordprocessingml|drawingml)/([A-Za-z]+)")
_TRANSITIONAL = rb"http://schemas.openxmlformats.org/\1/2006/\2"


class Relationship(NamedTuple):
    """A reference from one part to another, or to something outside the document."""

    type: str
    """Last segment of the type: `image`, `footnotes`, `header` …"""
    target: str
    """Name of a part, or an address."""
    external: bool


class Part(NamedTuple):
    """An XML part with its relationships by id."""

    name: str
    root: ET.Element
    relationships: dict[str, Relationship]


class WordPackage(Package):
    """A Word document's parts."""

    def main(self) -> Part:
        """The part that holds the body. Raises CorruptDocument if there is none."""
        targets = [found.target for found in self._relationships("").values() if found.type == "officeDocument"]
        for name in (*targets, "word/document.xml"):
            if name in self.names:
                return self.part(name)
        raise CorruptDocument("The package holds no Word document; it may be another Office file, or truncated.")

    def part(self, name: str) -> Part:
        """The part `name`."""
        return Part(name, self.tree(name), self._relationships(name))

    def related(self, part: Part, kind: str) -> Part | None:
        """The part of a kind (`styles`, `footnotes` …) that `part` points to, if there is one."""
        for relationship in part.relationships.values():
            if relationship.type == kind and not relationship.external and relationship.target in self.names:
                return self.part(relationship.target)
        return None

    def tree(self, name: str) -> ET.Element:
        """The XML of a part, in the transitional namespaces."""
        return parse_xml(_STRICT.sub(_TRANSITIONAL, self.xml_source(name)), name=name)

    def _relationships(self, name: str) -> dict[str, Relationship]:
        folder, file = posixpath.split(name)
        listing = posixpath.join(folder, "_rels", f"{file}.rels")
        if listing not in self.names:
            return {}
        return {node.get("Id", ""): _relationship(node, folder) for node in self.tree(listing).iter(_RELATIONSHIP)}


def _relationship(node: ET.Element, folder: str) -> Relationship:
    target, external = node.get("Target", ""), node.get("TargetMode") == "External"
    if not external:
        target = posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")
    return Relationship(node.get("Type", "").rpartition("/")[2], target, external)


def attribute(node: ET.Element, name: str) -> str | None:
    """An attribute in the namespace of WordprocessingML: `w:val` for `val`."""
    return node.get(W + name)


def child_value(node: ET.Element, path: str) -> str | None:
    """The `w:val` of a child, found by a path such as `pPr/pStyle`."""
    found = node.find("/".join(W + step for step in path.split("/")))
    return None if found is None else attribute(found, "val")


def child_is_on(node: ET.Element, path: str) -> bool:
    """Whether a switch such as `pPr/pageBreakBefore` is there and not set to off."""
    found = node.find("/".join(W + step for step in path.split("/")))
    return found is not None and attribute(found, "val") not in ("0", "false", "off")
