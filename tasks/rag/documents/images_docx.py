"""Pictures of a Word document, in the order of its text; it keeps no pages, so they have no place."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from tasks.rag.documents.docx_package import Part, R, WordPackage
from tasks.rag.documents.images_candidate import ImageCandidate
from tasks.rag.documents.images_raster import ABROAD, Embedded, candidates, read_embedded

DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
VML = "{urn:schemas-microsoft-com:vml}"
COMPATIBILITY = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
OTHER_PARTS = ("header", "footer", "footnotes", "endnotes")
"""Their pictures come after those of the body."""


def docx_images(path: Path) -> Iterator[ImageCandidate]:
    """Pictures of body, headers, footers and notes, in the order of the text. Raises DocumentError."""
    with WordPackage(path) as package:
        main = package.main()
        parts = [main, *_other_parts(package, main)]
        yield from candidates(_docx_image(package, part, id_) for part in parts for id_ in _picture_ids(part.root))


def _other_parts(package: WordPackage, main: Part) -> Iterator[Part]:
    for relationship in main.relationships.values():
        if relationship.type in OTHER_PARTS and relationship.target in package.names:
            yield package.part(relationship.target)


def _picture_ids(root: ET.Element) -> Iterator[str]:
    """Relationship ids of pictures; a fallback counts only where what it stands in for has none."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.tag == f"{COMPATIBILITY}AlternateContent":
            choices = [child for child in node if child.tag == f"{COMPATIBILITY}Choice" and any(_picture_ids(child))]
            fallbacks = [child for child in node if child.tag == f"{COMPATIBILITY}Fallback"]
            waiting += choices[:1] or fallbacks[:1]
        elif id_ := _picture_id(node):
            yield id_
        else:
            waiting += reversed(node)


def _picture_id(node: ET.Element) -> str | None:
    if node.tag == f"{DRAWING}blip":
        return node.get(f"{R}embed") or node.get(f"{R}link")
    if node.tag == f"{VML}imagedata":
        return node.get(f"{R}id") or node.get(f"{R}href")
    return None


def _docx_image(package: WordPackage, part: Part, id_: str) -> Embedded:
    relationship = part.relationships.get(id_)
    if relationship is None:
        return Embedded(b"", f"the picture {id_} of {part.name} points to nothing")
    if relationship.external:
        return ABROAD
    return read_embedded(lambda: package.read(relationship.target))
