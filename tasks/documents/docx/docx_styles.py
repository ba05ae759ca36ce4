"""Styles and list numbering of Word: what a paragraph is, its number, and whether and where its letters are seen."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from tasks.documents import marks
from tasks.documents.marks import OFFICE_PLACES
from tasks.documents.office_package import W, child_value, is_on, word_attribute
from tasks.documents.visibility import Color, explain_unseen, read_color

# Word in Korean names its heading styles 제목 1 and 개요 1
_HEADING_STYLE = re.compile(r"(?:heading|제목|개요)\s*([1-9])", re.IGNORECASE)
_TITLE_STYLES = {"title", "제목"}
_CAPTION_STYLES = {"caption", "캡션"}
_BODY_TEXT_LEVEL = 9  # outlineLvl counts from 0; 9 says that the paragraph is no heading
_TWIPS_OF_SPACE = 60  # a quarter of an em at 12 points
VANISHED = "formatted as hidden"
_LEAST_RISE = 6  # half points by which a mark stands above or below its line


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
    indent: float
    """How far its first line is set in, in widths of a space."""
    look_at_run: LookAtRun


class RunLook(NamedTuple):
    """How the letters of a run look."""

    unseen: str | None = None
    """Why they are not seen."""
    place: int = 0
    """Above the line (1) or below it (-1)."""


LookAtRun = Callable[[ET.Element], RunLook]
_PLAIN = RunLook()


class _Style(NamedTuple):
    """Properties of paragraphs and runs in a style, those that it inherits included."""

    name: str
    heading: int | None
    paragraph: dict[str, ET.Element]
    run: dict[str, ET.Element]


class Styles:
    """The styles of a document by id, with their inheritance."""

    def __init__(self, root: ET.Element | None) -> None:
        nodes = [] if root is None else root.findall(f"{W}style")
        self._nodes = {word_attribute(node, "styleId"): node for node in nodes}
        self._styles: dict[str | None, _Style] = {}
        defaults = (
            name
            for name, node in self._nodes.items()
            if word_attribute(node, "default") in ("1", "true", "on")
            and word_attribute(node, "type") in (None, "paragraph")
        )
        self._default = next(defaults, None)

    def resolve(self, paragraph: ET.Element, numbering: Numbering, *, paper: Color | None) -> ParagraphLook:
        """Return `paragraph`'s properties, inherited ones too; paper: the colour behind it, None where unknown."""
        own, style_id = _properties(paragraph, "pPr"), child_value(paragraph, "pPr/pStyle")
        style = self._style_of(style_id or self._default)
        look = style.paragraph | own
        outline = _value(look, "outlineLvl")
        heading = style.heading
        if outline is not None:
            level = parse_integer(outline, _BODY_TEXT_LEVEL)
            heading = None if level >= _BODY_TEXT_LEVEL else level + 1
        item, list_id = None, _value(look, "numId")
        if list_id not in (None, "0"):  # 0 takes a paragraph out of its style's list
            level = _value(own if f"{W}numId" in own else look, "ilvl")
            by_style = numbering.level_of_style(list_id, style_id or "") if level is None else 0
            item = ListItem(list_id, parse_integer(level, by_style))
        hangs = False
        if (indent := own.get(f"{W}ind")) is not None:
            hanging = max(parse_integer(word_attribute(indent, name), 0) for name in ("hanging", "hangingChars"))
            hangs = hanging > 0 or parse_integer(word_attribute(indent, "firstLine"), 0) < 0
        twips, names = 0, ("left", "start", "firstLine", "hanging")
        if (indent := look.get(f"{W}ind")) is not None:
            left, start, first, hanging = (parse_integer(word_attribute(indent, name), 0) for name in names)
            twips = (left or start) + (first - hanging)
        name = style.name.casefold()
        grounds = partial(self._look_at_run, inherited=style.run, around=look, paper=paper)
        starts_page = is_on(look.get(f"{W}pageBreakBefore"))
        kinds = name in _TITLE_STYLES, name in _CAPTION_STYLES
        return ParagraphLook(heading, *kinds, item, starts_page, hangs, twips / _TWIPS_OF_SPACE, grounds)

    def _look_at_run(
        self, run: ET.Element, *, inherited: dict[str, ET.Element], around: dict[str, ET.Element], paper: Color | None
    ) -> RunLook:
        """Return how a run looks in a paragraph (`around`): why nobody sees its letters, if so, and its place."""
        own = _properties(run, "rPr")
        if f"{W}rStyle" in own:
            inherited = inherited | self._style_of(_value(own, "rStyle")).run
        look = inherited | own
        spacing = around.get(f"{W}spacing")
        # a line of an exact height shows no more than that of its letters
        rule, line = (None if spacing is None else word_attribute(spacing, name) for name in ("lineRule", "line"))
        if not look and rule != "exact":
            return _PLAIN
        unseen = VANISHED if is_on(look.get(f"{W}vanish")) else None
        if not unseen:
            shadings = (look.get(f"{W}shd"), look.get(f"{W}highlight"), around.get(f"{W}shd"))
            ink = read_color(_value(look, "color"))
            ground, width = ink and find_ground(shadings, paper), parse_integer(_value(look, "w"), 100) / 100
            letters_pt = parse_integer(_value(look, "sz"), 24) / 2 * min(width, 1)
            size_pt = min(letters_pt, parse_integer(line, 480) / 20 if rule == "exact" else letters_pt)
            unseen = explain_unseen(ink=ink, ground=ground, size_pt=size_pt)
        rise = int(parse_integer(_value(look, "position"), 0) / _LEAST_RISE)
        return RunLook(unseen, OFFICE_PLACES.get(_value(look, "vertAlign") or "", rise))

    def _style_of(self, style_id: str | None) -> _Style:
        """Return a style with all that it inherits, computed once; an empty one for an unknown ID."""
        if style_id not in self._styles:
            self._styles[style_id] = _Style("", None, {}, {})  # a style that is based on itself gets nothing from there
            if (node := self._nodes.get(style_id)) is not None:
                above, name = self._style_of(child_value(node, "basedOn")), child_value(node, "name") or ""
                match = _HEADING_STYLE.fullmatch(name)
                paragraph, run = above.paragraph | _properties(node, "pPr"), above.run | _properties(node, "rPr")
                self._styles[style_id] = _Style(name, int(match[1]) if match else above.heading, paragraph, run)
        return self._styles[style_id]


def _properties(node: ET.Element, kind: str) -> dict[str, ET.Element]:
    """Return the properties of a paragraph or run by their tags, those of its list too; {} where it has none."""
    properties = node.find(W + kind)
    if properties is None:
        return {}
    listed = properties.find(f"{W}numPr")
    return {child.tag: child for child in (*properties, *(() if listed is None else listed))}


def _value(properties: dict[str, ET.Element], name: str) -> str | None:
    node = properties.get(W + name)
    return None if node is None else word_attribute(node, "val")


def find_ground(shadings: Iterable[ET.Element | None], paper: Color | None) -> Color | None:
    """Return the colour behind letters: of the first shading or highlight with one, else paper; None if unknown."""
    for node in shadings:
        if node is not None:
            value, is_highlight = word_attribute(node, "val") or "clear", node.tag == f"{W}highlight"
            if not is_highlight and value not in ("clear", "nil"):
                return None  # a pattern of two colours
            color = value if is_highlight else word_attribute(node, "fill") or "auto"
            if color.casefold() not in ("auto", "none"):
                return read_color(color)
    return paper


class _List(NamedTuple):
    """A list to which paragraphs refer by its id."""

    abstract: str
    """Abstract list; all lists of one share its counters."""
    levels: dict[int, ET.Element]
    """The numbering rule of each level."""
    starts: dict[int, int]
    """Level → the start number that this list overrides."""

    def first_number(self, level: int) -> int:
        """Return the number with which a level begins."""
        return parse_integer(child_value(self.levels[level], "start"), 1)


class Numbering:
    """Makes the labels of numbered paragraphs, which have to be requested in reading order."""

    def __init__(self, root: ET.Element | None) -> None:
        self._lists = {} if root is None else _read_lists(root)
        self._counters: dict[str, dict[int, int]] = {}
        self._started: set[tuple[str, int]] = set()

    def level_of_style(self, list_id: str | None, style: str) -> int:
        """Return the 0-based level of a list that a paragraph style belongs to; 0 if it belongs to none."""
        levels = self._lists[list_id].levels if list_id in self._lists else {}
        return next((number for number, level in levels.items() if child_value(level, "pStyle") == style), 0)

    def next_label(self, list_id: str, level: int) -> str | None:
        """Return the number or bullet of the next paragraph on a 0-based level; None without such a list or level."""
        entry = self._lists.get(list_id)
        if entry is None or level not in entry.levels:
            return None
        counters = self._counters.setdefault(entry.abstract, {})
        self._advance(entry, list_id, level, counters)
        rule = entry.levels[level]
        text, is_legal = child_value(rule, "lvlText") or "", rule.find(f"{W}isLgl") is not None
        if child_value(rule, "numFmt") == "bullet":
            # symbol fonts keep their bullets in the private area, where they mean nothing to others
            private = any("\ue000" <= sign < "\uf900" for sign in text)
            # Word draws its hollow bullet as the letter o of Courier New
            return "•" if text == "o" or private else text.strip()

        def number(match: re.Match[str]) -> str:
            """Return the number of the level that `%1` … `%9` names, in that level's format; "" for a missing level."""
            level = int(match[1]) - 1
            if level not in entry.levels:
                return ""
            format = child_value(entry.levels[level], "numFmt") or "decimal"
            number = counters.get(level, entry.first_number(level))
            return format_number(number, "decimal" if is_legal else format)  # a legal number is one in decimals

        return re.sub(r"%(\d)", number, text).strip()

    def _advance(self, entry: _List, list_id: str, level: int, counters: dict[int, int]) -> None:
        """Count the next paragraph on a level, and let the levels below it begin anew."""
        if level in entry.starts and (list_id, level) not in self._started:
            counters[level] = entry.starts[level]
        else:
            counters[level] = counters.get(level, entry.first_number(level) - 1) + 1
        self._started.add((list_id, level))
        for above in range(level):  # Word counts a level that was jumped over as begun
            if above in entry.levels:
                counters.setdefault(above, entry.first_number(above))
        for below in [counted_level for counted_level in counters if counted_level > level]:
            # the 1-based level whose number restarts this one, 0 for none; by default any level above
            restart = child_value(entry.levels[below], "lvlRestart") if below in entry.levels else None
            if level < parse_integer(restart, below):
                del counters[below]


_FORMATS = {
    "lowerLetter": "LATIN_SMALL", "upperLetter": "LATIN_CAPITAL", "lowerRoman": "ROMAN_SMALL",
    "upperRoman": "ROMAN_CAPITAL", "ganada": "HANGUL_SYLLABLE", "chosung": "HANGUL_JAMO",
    "koreanCounting": "HANGUL_PHONETIC", "koreanLegal": "IDEOGRAPH", "chineseCounting": "IDEOGRAPH",
    "japaneseCounting": "IDEOGRAPH", "decimalEnclosedCircle": "CIRCLED_DIGIT",
    "decimalEnclosedCircleChinese": "CIRCLED_DIGIT",
}  # fmt: skip
"""Word's names of number formats, and the common ones."""


def format_number(number: int, format: str) -> str:
    """Write a number in one of Word's formats, in decimals for an unknown one; "" for `none`."""
    if format in ("none", "decimalZero"):
        return "" if format == "none" else f"{number:02d}"
    if format == "ordinal":
        return f"{number}{'th' if number % 100 in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(number % 10, 'th')}"
    return marks.format_number(number, _FORMATS.get(format, ""))


def _read_lists(root: ET.Element) -> dict[str, _List]:
    """Return lists by `numId`, each with its levels and overridden start numbers; undefined ones are left out."""
    abstracts = {word_attribute(node, "abstractNumId") or "": node for node in root.iter(f"{W}abstractNum")}
    by_style = {link: name for name, node in abstracts.items() if (link := child_value(node, "styleLink")) is not None}
    lists: dict[str, _List] = {}
    for number in root.iter(f"{W}num"):
        abstract = child_value(number, "abstractNumId") or ""
        # a list may hold no levels of its own but point to a list style
        linked = child_value(abstracts[abstract], "numStyleLink") if abstract in abstracts else None
        abstract = by_style.get(linked, abstract) if linked else abstract
        if abstract in abstracts:
            levels, starts = _levels_of(abstracts[abstract]), dict[int, int]()
            for override in number.iter(f"{W}lvlOverride"):
                levels |= _levels_of(override)  # an override may replace a level, or its start number only
                if (start := child_value(override, "startOverride")) is not None:
                    starts[parse_integer(word_attribute(override, "ilvl"), 0)] = parse_integer(start, 1)
            lists[word_attribute(number, "numId") or ""] = _List(abstract, levels, starts)
    return lists


def _levels_of(node: ET.Element) -> dict[int, ET.Element]:
    return {parse_integer(word_attribute(level, "ilvl"), 0): level for level in node.findall(f"{W}lvl")}


def parse_integer(text: str | None, otherwise: int) -> int:
    """Read a whole number that is small enough to count with; anything else gives `otherwise`."""
    try:
        return int(text or "") if len(text or "") < 10 else otherwise
    except ValueError:
        return otherwise
