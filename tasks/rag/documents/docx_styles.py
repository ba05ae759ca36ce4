"""What a paragraph is by its own properties and by its chain of styles: heading, caption, list item or plain."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import NamedTuple

from tasks.rag.documents.docx_numbering import Numbering, integer
from tasks.rag.documents.docx_package import W, attribute, child_is_on, child_value

_HEADING_STYLE = re.compile(r"(?:heading|제목|개요)\s*([1-9])", re.IGNORECASE)
_TITLE_STYLES = {"title", "제목"}
_CAPTION_STYLES = {"caption", "캡션"}
_BODY_TEXT_LEVEL = 9  # outlineLvl counts from 0; 9 says that the paragraph is no heading


class ListItem(NamedTuple):
    """Which list a paragraph belongs to."""

    list_id: str
    level: int
    """0-based."""


class ParagraphLook(NamedTuple):
    """What a paragraph is, before its text is known."""

    heading: int | None
    """1-based depth."""
    title: bool
    caption: bool
    item: ListItem | None
    starts_page: bool


class _Style(NamedTuple):
    name: str
    parent: str | None
    outline: str | None
    list_id: str | None
    list_level: str | None
    starts_page: bool


class Styles:
    """Paragraph styles by id."""

    def __init__(self, root: ET.Element | None) -> None:
        nodes = [] if root is None else root.findall(f"{W}style")
        paragraphs = [node for node in nodes if attribute(node, "type") in (None, "paragraph")]
        self._styles = {attribute(node, "styleId") or "": _style(node) for node in paragraphs}
        self._default = next((attribute(node, "styleId") for node in paragraphs if _is_default(node)), None)

    def look(self, paragraph: ET.Element, numbering: Numbering) -> ParagraphLook:
        """What `paragraph` is."""
        style_id = child_value(paragraph, "pPr/pStyle") or self._default
        chain = self._chain(style_id)
        names = {style.name.casefold() for style in chain[:1]}
        return ParagraphLook(
            heading=_heading_level(child_value(paragraph, "pPr/outlineLvl"), chain),
            title=bool(names & _TITLE_STYLES),
            caption=bool(names & _CAPTION_STYLES),
            item=self._item(paragraph, chain, numbering),
            starts_page=child_is_on(paragraph, "pPr/pageBreakBefore") or any(style.starts_page for style in chain),
        )

    def _chain(self, style_id: str | None) -> list[_Style]:
        """The style, then what it is based on; a loop ends the chain."""
        chain: list[_Style] = []
        while style_id in self._styles and (style := self._styles[style_id]) not in chain:
            chain.append(style)
            style_id = style.parent
        return chain

    def _item(self, paragraph: ET.Element, chain: list[_Style], numbering: Numbering) -> ListItem | None:
        own_id, own_level = child_value(paragraph, "pPr/numPr/numId"), child_value(paragraph, "pPr/numPr/ilvl")
        from_style = next((style for style in chain if style.list_id is not None), None)
        list_id = own_id or (from_style.list_id if from_style else None)
        if list_id is None or list_id == "0":  # 0 takes a paragraph out of its style's list
            return None
        if own_level is not None:
            return ListItem(list_id, integer(own_level, 0))
        if own_id is None and from_style and from_style.list_level is not None:
            return ListItem(list_id, integer(from_style.list_level, 0))
        return ListItem(list_id, numbering.level_of_style(list_id, child_value(paragraph, "pPr/pStyle") or ""))


def _heading_level(own: str | None, chain: list[_Style]) -> int | None:
    outline = own or next((style.outline for style in chain if style.outline is not None), None)
    if outline is not None:
        level = integer(outline, _BODY_TEXT_LEVEL)
        return None if level >= _BODY_TEXT_LEVEL else level + 1
    named = next((match for style in chain if (match := _HEADING_STYLE.fullmatch(style.name))), None)
    return int(named[1]) if named else None


def _style(node: ET.Element) -> _Style:
    return _Style(
        name=child_value(node, "name") or "",
        parent=child_value(node, "basedOn"),
        outline=child_value(node, "pPr/outlineLvl"),
        list_id=child_value(node, "pPr/numPr/numId"),
        list_level=child_value(node, "pPr/numPr/ilvl"),
        starts_page=child_is_on(node, "pPr/pageBreakBefore"),
    )


def _is_default(node: ET.Element) -> bool:
    return attribute(node, "default") in ("1", "true", "on")
