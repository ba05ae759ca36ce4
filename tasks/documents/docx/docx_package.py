"""The parts of a Word document and their relationships, in one set of namespaces for both variants of the standard."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import NamedTuple

from tasks.documents.archives import Package, parse_xml
from tasks.documents.document_errors import CorruptDocument
from tasks.documents.office_package import Link, links

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
    """A Word document's parts."""

    def main(self) -> Part:
        """The part that holds the body. Raises CorruptDocument if there is none."""
        targets = [found.target for found in links(self, "").values() if found.type == "officeDocument"]
        for name in (*targets, "word/document.xml"):
            if name in self.names:
                return self.part(name)
        raise CorruptDocument("The package holds no Word document; it may be another Office file, or truncated.")

    def part(self, name: str) -> Part:
        """The part `name`."""
        return Part(name, self.tree(name), links(self, name))

    def related(self, part: Part, kind: str) -> Part | None:
        """The part of a kind (`styles`, `footnotes` …) that `part` points to, if there is one."""
        for relationship in part.relationships.values():
            if relationship.type == kind and not relationship.external and relationship.target in self.names:
                return self.part(relationship.target)
        return None

    def tree(self, name: str) -> ET.Element:
        """The XML of a part, in the transitional namespaces."""
        return parse_xml(_STRICT.sub(_TRANSITIONAL, self.xml_source(name)), name=name)


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
