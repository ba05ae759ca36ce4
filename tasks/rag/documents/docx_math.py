"""Word's equations (OMML) as one line of text: `x = (-b ± √(b^2 - 4ac))/(2a)`."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable

from tasks.rag.documents.docx_package import W

M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_PROPERTIES = "Pr"  # fPr, sSupPr, ctrlPr … carry looks


def linear_math(node: ET.Element) -> str:
    """The equation below `node`, left to right, with brackets where the layout alone would group."""
    match node.tag.removeprefix(M):
        case "f":
            return f"{_grouped(node, 'num')}/{_grouped(node, 'den')}"
        case "sSup":
            return f"{_part(node, 'e')}^{_grouped(node, 'sup')}"
        case "sSub":
            return f"{_part(node, 'e')}_{_grouped(node, 'sub')}"
        case "sSubSup":
            return f"{_part(node, 'e')}_{_grouped(node, 'sub')}^{_grouped(node, 'sup')}"
        case "sPre":
            return f"_{_grouped(node, 'sub')}^{_grouped(node, 'sup')}{_part(node, 'e')}"
        case "rad":
            degree = _part(node, "deg")
            return f"{degree}√({_part(node, 'e')})"
        case "nary":
            return _nary(node)
        case "d":
            return _delimited(node)
        case "func":
            return f"{_part(node, 'fName')} {_part(node, 'e')}"
        case "limLow":
            return f"{_part(node, 'e')}_{_grouped(node, 'lim')}"
        case "limUpp":
            return f"{_part(node, 'e')}^{_grouped(node, 'lim')}"
        case "acc":
            return _part(node, "e") + _property(node, "accPr/chr", "\u0302")
        case "m":
            return (
                "["
                + "; ".join(", ".join(map(linear_math, row.findall(f"{M}e"))) for row in node.findall(f"{M}mr"))
                + "]"
            )
        case "eqArr":
            return "; ".join(map(linear_math, node.findall(f"{M}e")))
        case "t":
            return node.text or ""
        case _:
            return node.text or "" if node.tag == f"{W}t" else _joined(node)


def _joined(nodes: Iterable[ET.Element]) -> str:
    return "".join(linear_math(node) for node in nodes if not node.tag.endswith(_PROPERTIES))


def _part(node: ET.Element, name: str) -> str:
    return "".join(map(_joined, node.findall(M + name)))


def _grouped(node: ET.Element, name: str) -> str:
    text = _part(node, name)
    return text if text.isalnum() or len(text) == 1 else f"({text})"


def _nary(node: ET.Element) -> str:
    lower, upper = _part(node, "sub"), _part(node, "sup")
    limits = (f"_{_grouped(node, 'sub')}" if lower else "") + (f"^{_grouped(node, 'sup')}" if upper else "")
    return f"{_property(node, 'naryPr/chr', '∫')}{limits} {_part(node, 'e')}"


def _delimited(node: ET.Element) -> str:
    separator = _property(node, "dPr/sepChr", "|")
    inner = separator.join(map(_joined, node.findall(f"{M}e")))
    return _property(node, "dPr/begChr", "(") + inner + _property(node, "dPr/endChr", ")")


def _property(node: ET.Element, path: str, otherwise: str) -> str:
    """A character that a property names; an empty one means that there is none."""
    found = node.find("/".join(M + step for step in path.split("/")))
    return otherwise if found is None else found.get(f"{M}val", "")
