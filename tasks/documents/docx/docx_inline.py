"""The content of a paragraph in order: text, page breaks, pictures, text boxes, references to notes.

Equations (OMML) become one line of text: `x = (-b ± √(b^2 - 4ac))/(2a)`.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from tasks.documents.office_package import R, W, child_is_on, child_value, word_attribute

MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_DRAWING_PARTS = ("main", "picture", "wordprocessingDrawing", "chart", "diagram")
A, PIC, WP, CHART, DIAGRAM = (f"{{http://schemas.openxmlformats.org/drawingml/2006/{part}}}" for part in _DRAWING_PARTS)
VML = "{urn:schemas-microsoft-com:vml}"


class PageBreak(NamedTuple):
    """The start of a new page within a paragraph."""

    rendered: bool
    """Recorded by the program that laid out the document last; else set by the author."""


class Picture(NamedTuple):
    """A picture in the text, with its alternative text."""

    alt: str
    relationship: str | None
    """Relationship id of the image; None where the picture names none."""


class LinkedDrawing(NamedTuple):
    """A chart or diagram, whose text is in another part."""

    alt: str
    relationship: str


class TextBox(NamedTuple):
    """A text box with paragraphs and tables, at the point where it is anchored."""

    content: ET.Element


class NoteReference(NamedTuple):
    """The mark of a footnote, endnote or comment in the text."""

    kind: str
    """`footnotes`, `endnotes`, `comments`: the type of the part that holds it."""
    id: str
    own_mark: bool
    """The author typed a mark of his own behind it."""


class StyledText(NamedTuple):
    """A text that may stand above its line or below it."""

    text: str
    align: str | None
    """`superscript`, `subscript` or `baseline`; None where the style tells it."""
    style: str | None


class HiddenRun(NamedTuple):
    """Text that is not shown: formatted so, or taken out by a tracked change."""

    text: str
    reason: str


T = TypeVar("T")
DELETED = "deleted in tracked changes"
VANISHED = "formatted as hidden"
Hides = Callable[[ET.Element], str | None]
"""Tells why the text of a run is not seen; None for a run that is."""
Token = str | PageBreak | Picture | LinkedDrawing | TextBox | NoteReference | StyledText | HiddenRun

_CHARACTERS = {
    f"{W}tab": "\t",
    f"{W}ptab": "\t",
    f"{W}cr": "\n",
    f"{W}noBreakHyphen": "\u2011",
    f"{W}softHyphen": "",  # only drawn where a line happens to end
}
# of a field its code (`instrText`) is left out: the result that Word shows follows as text
_LEFT_OUT_NAMES = ("pPr", "rPr", "sdtPr", "sdtEndPr", "delText", "delInstrText", "instrText", "rt")
_LEFT_OUT = {W + name for name in (*_LEFT_OUT_NAMES, "ffData", "txbxContent")}
_NOTES = {f"{W}footnoteReference": "footnotes", f"{W}endnoteReference": "endnotes", f"{W}commentReference": "comments"}
_TAKEN_OUT = {f"{W}del": DELETED, f"{W}moveFrom": "moved away in tracked changes"}
_DRAWINGS = {f"{W}drawing", f"{W}pict", f"{W}object"}
# what symbol fonts draw at their private codes (U+F000 + code in the font)
_SYMBOLS = {
    "wingdings": {0x6C: "●", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x76: "❖", 0xA7: "▪", 0xA8: "□", 0xD8: "➢", 0xDF: "←",
                  0xE0: "→", 0xE1: "↑", 0xE2: "↓", 0xE8: "➔", 0xF0: "⇨", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑"},
    "symbol": {0x61: "α", 0x62: "β", 0x64: "δ", 0x6C: "λ", 0x6D: "μ", 0x70: "π", 0x73: "σ", 0x44: "Δ", 0x53: "Σ",
               0x57: "Ω", 0xA3: "≤", 0xA5: "∞", 0xAE: "→", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "×", 0xB7: "•",
               0xB8: "÷", 0xB9: "≠", 0xBB: "≈", 0xD6: "√", 0xE5: "∑"},
}  # fmt: skip


def read_tokens(node: ET.Element, hides: Hides) -> Iterator[Token]:
    """Yield the tokens of everything below `node`; inserted text is text, deleted text is hidden."""
    for child in node:
        tag = child.tag
        if tag == f"{W}t":
            yield child.text or ""
        elif tag in _CHARACTERS:
            yield _CHARACTERS[tag]
        elif reason := _TAKEN_OUT.get(tag):
            yield HiddenRun(read_hidden(child), reason)
        elif tag == f"{W}r" and (reason := hides(child)):
            tokens = list(read_tokens(child, hides))
            seen = [token for token in tokens if not isinstance(token, str)] if reason != VANISHED else []
            text = "".join(token for token in tokens if isinstance(token, str)) if seen else read_hidden(child)
            yield from (HiddenRun(text, reason), *seen)
        elif tag == f"{W}r" and (child_value(child, "rPr/vertAlign") or child_value(child, "rPr/rStyle")):
            look = child_value(child, "rPr/vertAlign"), child_value(child, "rPr/rStyle")
            for token in read_tokens(child, hides):
                yield StyledText(token, *look) if isinstance(token, str) else token
        elif tag == f"{W}br":
            yield PageBreak(rendered=False) if word_attribute(child, "type") == "page" else "\n"
        elif tag == f"{W}lastRenderedPageBreak":
            yield PageBreak(rendered=True)
        elif tag == f"{W}sym":
            yield _symbol(child)
        elif tag == f"{W}fldChar" and (box := child.find(f"{W}ffData/{W}checkBox")) is not None:
            # the box of a legacy form field is not in the text
            set_by_default = box.find(f"{W}checked") is None and child_is_on(box, "default")
            yield "☒" if child_is_on(box, "checked") or set_by_default else "☐"
        elif tag == f"{W}fldChar" and (choice := child.find(f"{W}ffData/{W}ddList")) is not None:
            chosen = child_value(choice, "result") or child_value(choice, "default") or "0"
            entries = [word_attribute(entry, "val") or "" for entry in choice.iter(f"{W}listEntry")]
            yield from entries[int(chosen) if chosen.isdecimal() and len(chosen) < 5 else 0 :][:1]
        elif tag in (f"{M}oMath", f"{M}oMathPara"):
            equations = [child] if tag == f"{M}oMath" else child.findall(f"{M}oMath")
            yield "\n".join(map(linearize_math, equations))
        elif tag in _NOTES:
            own_mark = word_attribute(child, "customMarkFollows") in ("1", "true", "on")
            yield NoteReference(_NOTES[tag], word_attribute(child, "id") or "", own_mark)
        elif tag == f"{MC}AlternateContent":
            yield from read_first_alternative(child, partial(read_tokens, hides=hides))
        elif tag in _DRAWINGS:
            yield from _drawing(child, alt="")
        elif tag == f"{W}ruby":
            for base in child.iter(f"{W}rubyBase"):
                yield from read_tokens(base, hides)
            reading = "".join(text.text or "" for rt in child.iter(f"{W}rt") for text in rt.iter(f"{W}t"))
            if reading:
                yield f"({reading})"
        elif tag not in _LEFT_OUT:
            yield from read_tokens(child, hides)


def read_hidden(node: ET.Element) -> str:
    """Return the text below a node that is not shown, paragraphs parted by line breaks."""
    texts = {f"{W}p": "\n", f"{W}tab": "\t", f"{W}br": "\n"}
    shown = (f"{W}t", f"{W}delText")
    return "".join(child.text or "" if child.tag in shown else texts.get(child.tag, "") for child in node.iter()).strip(
        "\n"
    )


def read_first_alternative(node: ET.Element, read: Callable[[ET.Element], Iterable[T]]) -> list[T]:
    """Return what `read` gives for the first alternative of the content that is not empty."""
    # `Choice` is the newer form, `Fallback` a copy of it for old programs
    copies = [copy for name in ("Choice", "Fallback") for copy in node.findall(MC + name)]
    return next(filter(None, (list(read(copy)) for copy in copies)), [])


def _symbol(node: ET.Element) -> str:
    try:
        code = int(word_attribute(node, "char") or "", 16)
    except ValueError:
        return "\ufffd"
    if not 0 <= code <= 0xFFFF:
        return "\ufffd"
    signs = _SYMBOLS.get((word_attribute(node, "font") or "").casefold(), {})
    return signs.get(code & 0xFF, chr(code))


def _drawing(node: ET.Element, *, alt: str) -> Iterator[Token]:
    """Yield pictures, charts, boxes and texts of a drawing; `alt`: alternative text of the enclosing drawing."""
    inline_properties = node.find(f"{WP}inline/{WP}docPr")
    properties = node.find(f"{WP}anchor/{WP}docPr") if inline_properties is None else inline_properties
    alt = _description(properties) or alt
    for child in node:
        tag = child.tag
        if tag == f"{PIC}pic":
            own = _description(child.find(f"{PIC}nvPicPr/{PIC}cNvPr"))
            blip = child.find(f"{PIC}blipFill/{A}blip")
            yield Picture(own or alt, None if blip is None else blip.get(f"{R}embed") or blip.get(f"{R}link"))
        elif tag == f"{VML}imagedata":
            yield Picture(node.get("alt", alt), child.get(f"{R}id"))
        elif tag == f"{CHART}chart":
            yield LinkedDrawing(alt, child.get(f"{R}id", ""))
        elif tag == f"{DIAGRAM}relIds":
            yield LinkedDrawing(alt, child.get(f"{R}dm", ""))
        elif tag == f"{W}txbxContent":
            yield TextBox(child)
        elif tag == f"{A}t":
            yield child.text or ""
        elif tag == f"{VML}textpath":  # word art of Word 97–2007
            yield child.get("string", "")
        elif tag == f"{MC}AlternateContent":
            yield from read_first_alternative(child, partial(_drawing, alt=alt))
        else:
            yield from _drawing(child, alt=alt)


def _description(properties: ET.Element | None) -> str:
    return "" if properties is None else properties.get("descr") or properties.get("title") or ""


M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_PROPERTIES = "Pr"  # fPr, sSupPr, ctrlPr … carry looks


def linearize_math(node: ET.Element) -> str:
    """Return the equation below `node` on one line, with brackets where its layout groups terms."""
    match node.tag.removeprefix(M):
        case "f":
            return f"{_group_terms(node, 'num')}/{_group_terms(node, 'den')}"
        case "sSup":
            return f"{_part(node, 'e')}^{_group_terms(node, 'sup')}"
        case "sSub":
            return f"{_part(node, 'e')}_{_group_terms(node, 'sub')}"
        case "sSubSup":
            return f"{_part(node, 'e')}_{_group_terms(node, 'sub')}^{_group_terms(node, 'sup')}"
        case "sPre":
            return f"_{_group_terms(node, 'sub')}^{_group_terms(node, 'sup')}{_part(node, 'e')}"
        case "rad":
            return f"{_part(node, 'deg')}√({_part(node, 'e')})"
        case "nary":
            lower = f"_{_group_terms(node, 'sub')}" if _part(node, "sub") else ""
            upper = f"^{_group_terms(node, 'sup')}" if _part(node, "sup") else ""
            return f"{_property(node, 'naryPr/chr', '∫')}{lower}{upper} {_part(node, 'e')}"
        case "d":
            inner = _property(node, "dPr/sepChr", "|").join(map(_join_terms, node.findall(f"{M}e")))
            return _property(node, "dPr/begChr", "(") + inner + _property(node, "dPr/endChr", ")")
        case "func":
            return f"{_part(node, 'fName')} {_part(node, 'e')}"
        case "limLow":
            return f"{_part(node, 'e')}_{_group_terms(node, 'lim')}"
        case "limUpp":
            return f"{_part(node, 'e')}^{_group_terms(node, 'lim')}"
        case "acc":
            return _part(node, "e") + _property(node, "accPr/chr", "\u0302")
        case "m":
            rows = (", ".join(map(linearize_math, row.findall(f"{M}e"))) for row in node.findall(f"{M}mr"))
            return f"[{'; '.join(rows)}]"
        case "eqArr":
            return "; ".join(map(linearize_math, node.findall(f"{M}e")))
        case "t":
            return node.text or ""
        case _:
            return node.text or "" if node.tag == f"{W}t" else _join_terms(node)


def _join_terms(nodes: Iterable[ET.Element]) -> str:
    return "".join(linearize_math(node) for node in nodes if not node.tag.endswith(_PROPERTIES))


def _part(node: ET.Element, name: str) -> str:
    return "".join(map(_join_terms, node.findall(M + name)))


def _group_terms(node: ET.Element, name: str) -> str:
    text = _part(node, name)
    return text if text.isalnum() or len(text) == 1 else f"({text})"  # `x^2` needs no brackets, `x^(a+b)` does


def _property(node: ET.Element, path: str, otherwise: str) -> str:
    """Return a character that a property names; an empty one means that there is none."""
    child = node.find("/".join(M + step for step in path.split("/")))
    return otherwise if child is None else child.get(f"{M}val", "")
