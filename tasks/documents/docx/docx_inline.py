"""The content of a paragraph in order: text, page breaks, pictures, text boxes, references to notes.

Equations (OMML) become one line of text: `x = (-b ± √(b^2 - 4ac))/(2a)`.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple, TypeVar

from tasks.documents.docx.docx_styles import VANISHED, LookAtRun
from tasks.documents.marks import WINGDINGS
from tasks.documents.office_package import R, W, child_value, is_on, word_attribute

MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_DRAWING_PARTS = ("main", "picture", "wordprocessingDrawing", "chart", "diagram")
A, PIC, WP, CHART, DIAGRAM = (f"{{http://schemas.openxmlformats.org/drawingml/2006/{part}}}" for part in _DRAWING_PARTS)
VML = "{urn:schemas-microsoft-com:vml}"
M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"


class PageBreak(NamedTuple):
    """The start of a new page within a paragraph."""

    rendered: bool
    """Recorded by the program that laid out the document last; else set by the author."""


class Drawing(NamedTuple):
    """A picture, chart or diagram, with its alternative text."""

    alt: str
    relationship: str | None
    """Relationship id of the image or of the part with its text; None where the picture names none."""
    is_picture: bool = True


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


class ShiftedText(NamedTuple):
    """A text that stands above its line (1) or below it (-1)."""

    text: str
    place: int


class HiddenRun(NamedTuple):
    """Text that is not shown: formatted so, or taken out by a tracked change."""

    text: str
    reason: str


T = TypeVar("T")
DELETED = "deleted in tracked changes"
Token = str | PageBreak | Drawing | TextBox | NoteReference | ShiftedText | HiddenRun

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
    "wingdings": WINGDINGS,
    "symbol": {0x61: "α", 0x62: "β", 0x64: "δ", 0x6C: "λ", 0x6D: "μ", 0x70: "π", 0x73: "σ", 0x44: "Δ", 0x53: "Σ",
               0x57: "Ω", 0xA3: "≤", 0xA5: "∞", 0xAE: "→", 0xB0: "°", 0xB1: "±", 0xB3: "≥", 0xB4: "×", 0xB7: "•",
               0xB8: "÷", 0xB9: "≠", 0xBB: "≈", 0xD6: "√", 0xE5: "∑"},
}  # fmt: skip


def read_tokens(node: ET.Element, look_at: LookAtRun) -> Iterator[Token]:
    """Yield the tokens of everything below `node`; inserted text is text, deleted text is hidden."""
    for child in node:
        tag = child.tag
        if tag == f"{W}t":
            yield child.text or ""
        elif tag == f"{W}r":
            yield from _read_run(child, look_at)
        elif tag in _LEFT_OUT:
            continue
        elif tag in _CHARACTERS:
            yield _CHARACTERS[tag]
        elif tag in _TAKEN_OUT:
            yield HiddenRun(read_hidden(child), _TAKEN_OUT[tag])
        elif tag == f"{W}br":
            yield PageBreak(rendered=False) if word_attribute(child, "type") == "page" else "\n"
        elif tag == f"{W}lastRenderedPageBreak":
            yield PageBreak(rendered=True)
        elif tag == f"{W}sym":
            yield _read_symbol(child)
        elif tag == f"{W}fldChar":
            yield _read_field(child)
        elif tag == f"{M}oMath":
            yield linearize_math(child)
        elif tag == f"{M}oMathPara":
            yield "\n".join(map(linearize_math, child.findall(f"{M}oMath")))
        elif tag in _NOTES:
            own_mark = word_attribute(child, "customMarkFollows") in ("1", "true", "on")
            yield NoteReference(_NOTES[tag], word_attribute(child, "id") or "", own_mark)
        elif tag == f"{MC}AlternateContent":
            yield from read_first_alternative(child, partial(read_tokens, look_at=look_at))
        elif tag in _DRAWINGS:
            yield from _read_drawing(child, alt="")
        elif tag == f"{W}ruby":
            for base in child.iter(f"{W}rubyBase"):
                yield from read_tokens(base, look_at)
            reading = "".join(text.text or "" for rt in child.iter(f"{W}rt") for text in rt.iter(f"{W}t"))
            yield f"({reading})" if reading else ""
        else:
            yield from read_tokens(child, look_at)


def _read_run(run: ET.Element, look_at: LookAtRun) -> Iterator[Token]:
    """Yield the tokens of a run: unseen text as HiddenRun, raised or lowered text as ShiftedText, the rest as is."""
    unseen, place = look_at(run)
    tokens = read_tokens(run, look_at)
    if unseen == VANISHED:
        yield HiddenRun(read_hidden(run), unseen)
    elif unseen:
        others = list(tokens)  # a picture in a run of tiny letters is seen
        yield HiddenRun("".join(token for token in others if isinstance(token, str)), unseen)
        yield from (token for token in others if not isinstance(token, str))
    elif place:
        yield from (ShiftedText(token, place) if isinstance(token, str) else token for token in tokens)
    else:
        yield from tokens


def read_hidden(node: ET.Element) -> str:
    """Return the text below a node that is not shown, paragraphs parted by line breaks."""
    signs, shown = {f"{W}p": "\n", f"{W}tab": "\t", f"{W}br": "\n"}, (f"{W}t", f"{W}delText")
    texts = (child.text or "" if child.tag in shown else signs.get(child.tag, "") for child in node.iter())
    return "".join(texts).strip("\n")


def read_first_alternative(node: ET.Element, read: Callable[[ET.Element], Iterable[T]]) -> list[T]:
    """Return what `read` gives for the first alternative of the content where that is not empty; [] if all are."""
    # `Choice` is the newer form, `Fallback` a copy of it for old programs
    copies = [copy for name in ("Choice", "Fallback") for copy in node.findall(MC + name)]
    return next(filter(None, (list(read(copy)) for copy in copies)), [])


def _read_symbol(node: ET.Element) -> str:
    """Return the sign that a symbol's font means by its hexadecimal code, else the code's own; U+FFFD for no code."""
    try:
        code = int(word_attribute(node, "char") or "", 16)
        signs = _SYMBOLS.get((word_attribute(node, "font") or "").casefold(), {})
        return signs.get(code & 0xFF, chr(code)) if 0 <= code <= 0xFFFF else "\ufffd"
    except ValueError:
        return "\ufffd"


def _read_field(node: ET.Element) -> str:
    """Return what a legacy form field shows beside the text: its box, or the chosen entry of its list; else ""."""
    if (box := node.find(f"{W}ffData/{W}checkBox")) is not None:
        checked = box.find(f"{W}checked")
        return "☒" if is_on(box.find(f"{W}default") if checked is None else checked) else "☐"
    if (choice := node.find(f"{W}ffData/{W}ddList")) is not None:
        chosen = child_value(choice, "result") or child_value(choice, "default") or "0"
        entries = [word_attribute(entry, "val") or "" for entry in choice.iter(f"{W}listEntry")]
        return "".join(entries[int(chosen) if chosen.isdecimal() and len(chosen) < 5 else 0 :][:1])
    return ""


def _read_drawing(node: ET.Element, *, alt: str) -> Iterator[Token]:
    """Yield pictures, charts, boxes, texts of a drawing, or a HiddenRun of a hidden one; alt: that of one around it."""
    inline = node.find(f"{WP}inline/{WP}docPr")
    about = node.find(f"{WP}anchor/{WP}docPr") if inline is None else inline
    switched_off = about is not None and about.get("hidden") in ("1", "true")
    if switched_off or "visibility:hidden" in node.get("style", "").replace(" ", ""):
        yield HiddenRun(read_hidden(node), "hidden shape")
        return
    alt = _describe(about) or alt
    for child in node:
        tag = child.tag
        if tag == f"{PIC}pic":
            own = _describe(child.find(f"{PIC}nvPicPr/{PIC}cNvPr"))
            blip = child.find(f"{PIC}blipFill/{A}blip")
            yield Drawing(own or alt, None if blip is None else blip.get(f"{R}embed") or blip.get(f"{R}link"))
        elif tag == f"{VML}imagedata":
            yield Drawing(node.get("alt", alt), child.get(f"{R}id"))
        elif tag in (f"{CHART}chart", f"{DIAGRAM}relIds"):
            yield Drawing(alt, child.get(f"{R}id" if tag == f"{CHART}chart" else f"{R}dm"), is_picture=False)
        elif tag == f"{W}txbxContent":
            yield TextBox(child)
        elif tag == f"{A}t":
            yield child.text or ""
        elif tag == f"{VML}textpath":  # word art of Word 97–2007
            yield child.get("string", "")
        elif tag == f"{MC}AlternateContent":
            yield from read_first_alternative(child, partial(_read_drawing, alt=alt))
        else:
            yield from _read_drawing(child, alt=alt)


def _describe(properties: ET.Element | None) -> str:
    return "" if properties is None else properties.get("descr") or properties.get("title") or ""


_EQUATIONS = {
    "f": "{num*}/{den*}", "sSup": "{e}^{sup*}", "sSub": "{e}_{sub*}", "sSubSup": "{e}_{sub*}^{sup*}",
    "sPre": "_{sub*}^{sup*}{e}", "rad": "{deg}√({e})", "func": "{fName} {e}", "limLow": "{e}_{lim*}",
    "limUpp": "{e}^{lim*}",
    "mfrac": "{x*}/{y*}", "msup": "{x*}^{y*}", "mover": "{x*}^{y*}", "msub": "{x*}_{y*}", "munder": "{x*}_{y*}",
    "msubsup": "{x*}_{y*}^{z*}", "munderover": "{x*}_{y*}^{z*}", "mroot": "{y}√({x})",
}  # fmt: skip
"""How the parts of an element stand on a line, of Word's by name, of MathML's as x, y and z; `*` sets brackets around
those of more than one sign, number or name that have none.
"""
ONE_GROUP = re.compile(r"\([^()]*\)")
_NO_TERMS = ("Pr", "annotation", "annotation-xml", "mphantom")


class _Parts:
    """The parts of an equation's element, each on one line, by their names."""

    def __init__(self, node: ET.Element) -> None:
        self._node = node

    def __getitem__(self, name: str) -> str:
        plain = name.removesuffix("*")
        parts = self._node.findall(M + plain) or list(self._node)["xyz".find(plain) :][: plain in "xyz"]
        text = "".join(map(linearize_math, parts))
        is_one = len(text) < 2 or text.isalpha() or text.replace(".", "").isdecimal() or ONE_GROUP.fullmatch(text)
        return text if is_one or plain == name else f"({text})"


def linearize_math(node: ET.Element) -> str:
    """Return the equation of Word or MathML below `node` on one line, with brackets where its layout groups terms."""
    name, parts = node.tag.removeprefix(M), _Parts(node)
    if name in _EQUATIONS:
        return _EQUATIONS[name].format_map(parts)  # pyright: ignore[reportArgumentType]  # it asks for items only

    def sign(path: str, otherwise: str) -> str:
        """Return a character that a property names; an empty one means that there is none."""
        child = node.find("/".join(M + step for step in path.split("/")))
        return otherwise if child is None else child.get(f"{M}val", "")

    match name:
        case "nary":
            lower, upper = (
                f"{mark}{parts[f'{part}*']}" if parts[part] else "" for mark, part in (("_", "sub"), ("^", "sup"))
            )
            return f"{sign('naryPr/chr', '∫')}{lower}{upper} {parts['e']}"
        case "d":
            inner = sign("dPr/sepChr", "|").join(map(_join_terms, node.findall(f"{M}e")))
            return sign("dPr/begChr", "(") + inner + sign("dPr/endChr", ")")
        case "acc":
            return parts["e"] + sign("accPr/chr", "\u0302")
        case "m" | "mtable":
            rows = [row for row in node if row.tag in (f"{M}mr", "mtr")]
            return f"[{'; '.join(', '.join(map(linearize_math, row)) for row in rows)}]"
        case "msqrt":
            return f"√({_join_terms(node)})"
        case "eqArr":
            return "; ".join(map(linearize_math, node.findall(f"{M}e")))
        case _:
            if node.tag in (f"{M}t", f"{W}t"):
                return node.text or ""
            # what stands in an element of MathML is a number, a name or a sign
            return " ".join((node.text or "").split()) + _join_terms(node)


def _join_terms(nodes: Iterable[ET.Element]) -> str:
    # fPr, sSupPr, ctrlPr … carry looks
    return "".join(linearize_math(node) for node in nodes if not node.tag.endswith(_NO_TERMS))
