"""Styles and list numbering of Word: whether a paragraph is a heading, a caption or a list item, and its number."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from functools import partial
from typing import NamedTuple

from tasks.documents.document_readers import format_roman, spell_number
from tasks.documents.docx.docx_inline import VANISHED, Hides
from tasks.documents.office_package import W, child_is_on, child_value, word_attribute

# Word in Korean names its heading styles 제목 1 and 개요 1
_HEADING_STYLE = re.compile(r"(?:heading|제목|개요)\s*([1-9])", re.IGNORECASE)
_TITLE_STYLES = {"title", "제목"}
_CAPTION_STYLES = {"caption", "캡션"}
_GROUND = f"{W}pPr/{W}shd"
_LOOKS = {W + name for name in ("rStyle", "vanish", "sz", "color", "shd", "highlight", "vertAlign")}
"""Properties of a run that decide whether and where its letters are seen."""
_LEAST_HALF_POINTS = 2
"""Nobody reads letters of one point."""
_BODY_TEXT_LEVEL = 9  # outlineLvl counts from 0; 9 says that the paragraph is no heading


class ListItem(NamedTuple):
    """The list to which a paragraph belongs, and its level there."""

    list_id: str
    level: int
    """0-based level in the list."""


class ParagraphLook(NamedTuple):
    """The properties of a paragraph after its styles are resolved."""

    heading: int | None
    """1-based depth of the heading; None for what is no heading."""
    title: bool
    caption: bool
    item: ListItem | None
    starts_page: bool
    hangs: bool
    """The lines after the first are indented further than it is."""


class _Style(NamedTuple):
    name: str
    parent: str | None
    outline: str | None
    list_id: str | None
    list_level: str | None
    starts_page: bool


class Styles:
    """The paragraph styles of a document by id, with their inheritance."""

    def __init__(self, root: ET.Element | None) -> None:
        nodes = [] if root is None else root.findall(f"{W}style")
        paragraphs = [node for node in nodes if word_attribute(node, "type") in (None, "paragraph")]
        self._styles = {
            word_attribute(node, "styleId") or "": _Style(
                name=child_value(node, "name") or "",
                parent=child_value(node, "basedOn"),
                outline=child_value(node, "pPr/outlineLvl"),
                list_id=child_value(node, "pPr/numPr/numId"),
                list_level=child_value(node, "pPr/numPr/ilvl"),
                starts_page=child_is_on(node, "pPr/pageBreakBefore"),
            )
            for node in paragraphs
        }
        self._nodes = {word_attribute(node, "styleId"): node for node in nodes}
        self._looks: dict[str | None, dict[str, ET.Element]] = {}
        defaults = [node for node in paragraphs if word_attribute(node, "default") in ("1", "true", "on")]
        self._default = word_attribute(defaults[0], "styleId") if defaults else None

    def resolve(self, paragraph: ET.Element, numbering: Numbering) -> ParagraphLook:
        """Return the properties of `paragraph`, those of its style and the ancestors of that style included."""
        # the style and its ancestors; a cycle ends the chain
        chain: list[_Style] = []
        style_id = child_value(paragraph, "pPr/pStyle") or self._default
        while style_id in self._styles and (style := self._styles[style_id]) not in chain:
            chain.append(style)
            style_id = style.parent

        outline = child_value(paragraph, "pPr/outlineLvl")
        outline = outline or next((style.outline for style in chain if style.outline is not None), None)
        heading_style = next((match for style in chain if (match := _HEADING_STYLE.fullmatch(style.name))), None)
        heading = int(heading_style[1]) if heading_style else None
        if outline is not None:
            level = parse_integer(outline, _BODY_TEXT_LEVEL)
            heading = None if level >= _BODY_TEXT_LEVEL else level + 1

        hangs = False
        if (indent := paragraph.find(f"{W}pPr/{W}ind")) is not None:
            hanging = max(parse_integer(word_attribute(indent, name), 0) for name in ("hanging", "hangingChars"))
            hangs = hanging > 0 or parse_integer(word_attribute(indent, "firstLine"), 0) < 0
        name = chain[0].name.casefold() if chain else ""
        return ParagraphLook(
            heading=heading,
            title=name in _TITLE_STYLES,
            caption=name in _CAPTION_STYLES,
            item=self._item(paragraph, chain, numbering),
            starts_page=child_is_on(paragraph, "pPr/pageBreakBefore") or any(style.starts_page for style in chain),
            hangs=hangs,
        )

    def judge_runs(self, paragraph: ET.Element, *, on_white: bool) -> Hides:
        """Return what tells why the text of a run of the paragraph is not seen.

        on_white: nothing around the paragraph draws another ground.
        """
        styled = self._look_of(child_value(paragraph, "pPr/pStyle") or self._default)
        return partial(self._explain_unseen, paragraph=paragraph, styled=styled, on_white=on_white)

    def _explain_unseen(
        self, run: ET.Element, *, paragraph: ET.Element, styled: dict[str, ET.Element], on_white: bool
    ) -> str | None:
        properties = run.find(f"{W}rPr")
        own = {} if properties is None else {child.tag: child for child in properties if child.tag in _LOOKS}
        if (named := own.get(f"{W}rStyle")) is not None:
            styled = styled | self._look_of(word_attribute(named, "val"))
        looks = styled | own
        if not looks:
            return None
        vanish, size, color = (looks.get(W + name) for name in ("vanish", "sz", "color"))
        if vanish is not None and word_attribute(vanish, "val") not in ("0", "false", "off"):
            return VANISHED
        if size is not None and parse_integer(word_attribute(size, "val"), 24) <= _LEAST_HALF_POINTS:
            return "letters of a point or less"
        if not on_white or color is None or (word_attribute(color, "val") or "").upper() != "FFFFFF":
            return None
        grounds = (looks.get(f"{W}shd"), looks.get(f"{W}highlight"), looks.get(_GROUND), paragraph.find(_GROUND))
        return "white on white" if all(map(is_white, grounds)) else None

    def alignment_of(self, style_id: str | None) -> str:
        """Return where a character style or an ancestor of it sets text: `superscript`, `subscript` or ""."""
        align = self._look_of(style_id).get(f"{W}vertAlign")
        return "" if align is None else word_attribute(align, "val") or ""

    def _look_of(self, style_id: str | None) -> dict[str, ET.Element]:
        """Return the properties of runs that a style gives, with those of its ancestors, and the ground it lays."""
        if style_id not in self._looks:
            self._looks[style_id] = {}  # a style that is based on itself gets nothing from there
            if style_id in self._nodes:
                node = self._nodes[style_id]
                look = self._look_of(child_value(node, "basedOn")) | {
                    part.tag: part for part in node.iterfind(f"{W}rPr/*") if part.tag in _LOOKS
                }
                ground = node.find(_GROUND)
                self._looks[style_id] = look if ground is None else look | {_GROUND: ground}
        return self._looks[style_id]

    def _item(self, paragraph: ET.Element, chain: list[_Style], numbering: Numbering) -> ListItem | None:
        """Return the list of a paragraph, by its own properties or else by its styles; None if it is in none."""
        own_id, own_level = child_value(paragraph, "pPr/numPr/numId"), child_value(paragraph, "pPr/numPr/ilvl")
        from_style = next((style for style in chain if style.list_id is not None), None)
        list_id = own_id or (from_style.list_id if from_style else None)
        if list_id is None or list_id == "0":  # 0 takes a paragraph out of its style's list
            return None
        if own_level is not None:
            return ListItem(list_id, parse_integer(own_level, 0))
        if own_id is None and from_style and from_style.list_level is not None:
            return ListItem(list_id, parse_integer(from_style.list_level, 0))
        return ListItem(list_id, numbering.level_of_style(list_id, child_value(paragraph, "pPr/pStyle") or ""))


def is_white(ground: ET.Element | None) -> bool:
    """Return whether a shading or highlight leaves white paper white."""
    if ground is None:
        return True
    pattern, fill = word_attribute(ground, "val") or "clear", word_attribute(ground, "fill")  # a highlight has no fill
    return pattern in ("clear", "nil", "none", "white") and (fill or "auto").casefold() in ("auto", "ffffff")


_PRIVATE_USE = range(0xE000, 0xF900)
_GANADA = "가나다라마바사아자차카타파하"
_CHOSUNG = "ㄱㄴㄷㄹㅁㅂㅅㅇㅈㅊㅋㅌㅍㅎ"
_KOREAN_DIGITS = "영일이삼사오육칠팔구"
_HANJA_DIGITS = "〇一二三四五六七八九"


class _Level(NamedTuple):
    """Numbering rule of one level of a list."""

    format: str
    text: str
    """`%1.%2` takes the numbers of levels 1 and 2."""
    start: int
    restart: int | None
    """1-based level whose number restarts this one; 0 never restarts; None: any level above."""
    legal: bool
    """Numbers of all levels are written as decimals."""
    style: str | None
    """Paragraph style that stands on this level."""


class _List(NamedTuple):
    """A list to which paragraphs refer by its id."""

    abstract: str
    """Abstract list; all lists of one share its counters."""
    levels: dict[int, _Level]
    starts: dict[int, int]
    """Level → the start number that this list overrides."""


class Numbering:
    """Makes the labels of numbered paragraphs, which have to be requested in reading order."""

    def __init__(self, root: ET.Element | None) -> None:
        self._read_lists = {} if root is None else _read_lists(root)
        self._counters: dict[str, dict[int, int]] = {}
        self._started: set[tuple[str, int]] = set()

    def level_of_style(self, list_id: str, style: str) -> int:
        """Return the 0-based list level that a paragraph style belongs to."""
        levels = self._read_lists[list_id].levels if list_id in self._read_lists else {}
        return next((number for number, level in levels.items() if level.style == style), 0)

    def next_label(self, list_id: str, level: int) -> str | None:
        """Return the number or bullet of the next paragraph on a 0-based level; None if there is no such list."""
        entry = self._read_lists.get(list_id)
        if entry is None or level not in entry.levels:
            return None
        counters = self._counters.setdefault(entry.abstract, {})
        self._advance(entry, list_id, level, counters)
        rule = entry.levels[level]
        if rule.format == "bullet":
            # symbol fonts keep their bullets in the private area, where they mean nothing to others
            private = any(ord(sign) in _PRIVATE_USE for sign in rule.text)
            # Word draws its hollow bullet as the letter o of Courier New
            return "•" if rule.text == "o" or private else rule.text.strip()

        def number(match: re.Match[str]) -> str:
            referenced_level = entry.levels.get(int(match[1]) - 1)
            if referenced_level is None:
                return ""
            format = "decimal" if rule.legal else referenced_level.format
            return format_number(counters.get(int(match[1]) - 1, referenced_level.start), format)

        return re.sub(r"%(\d)", number, rule.text).strip()

    def _advance(self, entry: _List, list_id: str, level: int, counters: dict[int, int]) -> None:
        """Count the next paragraph on a level, and let the levels below it begin anew."""
        if level in entry.starts and (list_id, level) not in self._started:
            counters[level] = entry.starts[level]
        else:
            counters[level] = counters.get(level, entry.levels[level].start - 1) + 1
        self._started.add((list_id, level))
        for above in range(level):  # Word counts a level that was jumped over as begun
            if above in entry.levels:
                counters.setdefault(above, entry.levels[above].start)
        for below in [counted_level for counted_level in counters if counted_level > level]:
            restart = entry.levels[below].restart if below in entry.levels else None
            if restart is None or level < restart:
                del counters[below]


def format_number(number: int, format: str) -> str:
    """Write a number in one of Word's formats; an unknown format gives decimals."""
    match format:
        case "none":
            return ""
        case "decimalZero":
            return f"{number:02d}"
        case "lowerLetter" | "upperLetter":
            # AA, BB, CC … follow Z, up to 30 letters, as many as Word writes
            if not 0 < number <= 780:
                return str(number)
            letter = chr(ord("a") + (number - 1) % 26) * ((number - 1) // 26 + 1)
            return letter.upper() if format == "upperLetter" else letter
        case "lowerRoman" | "upperRoman":
            roman = format_roman(number) or str(number)
            return roman.upper() if format == "upperRoman" else roman
        case "ganada":
            return _GANADA[(number - 1) % 14]
        case "chosung":
            return _CHOSUNG[(number - 1) % 14]
        case "koreanDigital" | "koreanDigital2":
            return _spell_digits(number, _HANJA_DIGITS if format.endswith("2") else _KOREAN_DIGITS)
        case "koreanCounting":
            return spell_number(number, _KOREAN_DIGITS[1:], "십백천") or _spell_digits(number, _KOREAN_DIGITS)
        case "koreanLegal" | "chineseCounting" | "ideographDigital" | "japaneseCounting":
            return spell_number(number, _HANJA_DIGITS[1:], "十百千") or _spell_digits(number, _HANJA_DIGITS)
        case "decimalEnclosedCircle" | "decimalEnclosedCircleChinese" | "decimalEnclosedParen":
            first = ord("⑴" if format.endswith("Paren") else "①")
            return chr(first + number - 1) if 1 <= number <= 20 else f"({number})"  # Unicode has these signs up to 20
        case "decimalFullWidth" | "decimalFullWidth2":
            return _spell_digits(number, "０１２３４５６７８９")
        case "numberInDash":
            return f"- {number} -"
        case "ordinal":
            ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
            return f"{number}{ending}"
        case _:
            return str(number)


def _spell_digits(number: int, digits: str) -> str:
    return "".join(digits[int(digit)] for digit in str(abs(number)))


def _read_lists(root: ET.Element) -> dict[str, _List]:
    abstracts = {word_attribute(node, "abstractNumId") or "": node for node in root.iter(f"{W}abstractNum")}
    by_style = {link: name for name, node in abstracts.items() if (link := child_value(node, "styleLink")) is not None}
    lists: dict[str, _List] = {}
    for number in root.iter(f"{W}num"):
        abstract = child_value(number, "abstractNumId") or ""
        # a list may hold no levels of its own but point to a list style
        linked = child_value(abstracts[abstract], "numStyleLink") if abstract in abstracts else None
        abstract = by_style.get(linked, abstract) if linked else abstract
        if abstract in abstracts:
            levels, starts = _read_levels(abstracts[abstract]), dict[int, int]()
            for override in number.iter(f"{W}lvlOverride"):
                levels |= _read_levels(override)  # an override may replace a level, or its start number only
                if (start := child_value(override, "startOverride")) is not None:
                    starts[parse_integer(word_attribute(override, "ilvl"), 0)] = parse_integer(start, 1)
            lists[word_attribute(number, "numId") or ""] = _List(abstract, levels, starts)
    return lists


def _read_levels(node: ET.Element) -> dict[int, _Level]:
    levels: dict[int, _Level] = {}
    for level in node.findall(f"{W}lvl"):
        restart = child_value(level, "lvlRestart")
        levels[parse_integer(word_attribute(level, "ilvl"), 0)] = _Level(
            format=child_value(level, "numFmt") or "decimal",
            text=child_value(level, "lvlText") or "",
            start=parse_integer(child_value(level, "start"), 1),
            restart=None if restart is None else parse_integer(restart, 0),
            legal=level.find(f"{W}isLgl") is not None,
            style=child_value(level, "pStyle"),
        )
    return levels


def parse_integer(text: str | None, otherwise: int) -> int:
    """Read a whole number that is small enough to count with; anything else gives `otherwise`."""
    try:
        return int(text or "") if len(text or "") < 10 else otherwise
    except ValueError:
        return otherwise
