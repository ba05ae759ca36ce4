"""What a browser shows of HTML, by the page's own styles: the rules of its sheets for plain tags, classes and ids.

Nothing is fetched, so letters on a ground that an outside sheet may colour count as seen.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import Any, NamedTuple

_UNSEEN = {"template", "noscript", "iframe", "object", "canvas", "audio", "video", "datalist"}
"""Text for programs that cannot show something better."""
_STRUCK = {"del", "s", "strike"}
_COLORED = {"button", "mark"}
"""Elements to which browsers give a ground."""
_SMALLEST_PX = 2.0
"""Letters below this height are not read by anybody."""
_SAME_COLOR = 5
"""Difference of a channel, of 255, that no eye sees."""
_PX = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "rem": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78}
_SIZE = re.compile(r"(-?\d*\.?\d+)\s*([a-z%]*)")
_SELECTOR = re.compile(r"([a-z][\w-]*|\*)?((?:[.#][\w-]+)*)", re.IGNORECASE)
_FAR_PX = 999
"""Distance from the page of what is meant for programs that read aloud."""
_SETTLED = set(
    "display visibility opacity font-size color background background-color overflow position left top text-indent "  # noqa: SIM905
    "height max-height width max-width vertical-align".split()
)
"""Declarations that decide what is seen, and how."""


class Look(NamedTuple):
    """What decides whether letters are seen; inherited from element to element."""

    is_visible: bool = True
    size_px: float = 16.0
    color: tuple[int, ...] | None = (0, 0, 0)
    """None where it is not known."""
    ground: tuple[int, ...] | None = (255, 255, 255)
    """Colour behind the letters; None where it is not known."""

    def explain_unseen(self) -> str | None:
        """Return why letters are not seen; None if they are."""
        if not self.is_visible:
            return "visibility: hidden"
        if self.size_px < _SMALLEST_PX:
            return "letters without size"
        if self.color is None or (len(self.color) == 3 and self.ground is None):
            return None
        if self.color[3:] == (0,):
            return "transparent letters"
        near = all(abs(one - other) <= _SAME_COLOR for one, other in zip(self.color, self.ground or (), strict=False))
        return "letters in the colour of their ground" if self.ground and near else None


class StyleSheet:
    """The rules of a page that its own `<style>` elements give."""

    def __init__(self, root: ET.Element) -> None:
        self._rules: dict[str, list[tuple[list[str], dict[str, str]]]] = {}
        """By the name in which the last part of a selector ends: its tag, class or id."""
        links = (node.get("rel", "").lower() for node in root.iter("link"))
        self.knows_grounds = not any("stylesheet" in rel for rel in links)
        """Whether no rule that is not read here may colour the page."""
        for node in root.iter("style"):
            for selectors, body in _rules_of(re.sub(r"/\*.*?\*/|<!--|-->", "", node.text or "", flags=re.DOTALL)):
                style = _read_style(body)
                for parts in (selector.split() for selector in selectors.split(",") if style):
                    if parts and all(map(_SELECTOR.fullmatch, parts)):
                        name = re.split(r"(?=[.#])", parts[-1])[-1]
                        self._rules.setdefault(name.lower(), []).append((parts, style))
                    elif "background" in style or "background-color" in style:
                        self.knows_grounds = False

    def style_of(self, node: ET.Element) -> dict[str, str]:
        """Return the declarations that hold for an element, its own above those of the sheets."""
        style = {"background": "url()"} if node.tag in _COLORED else {}
        if not self._rules and not node.keys():
            return style
        names = [str(node.tag), "*", *("." + name.lower() for name in node.get("class", "").split())]
        for name in (*names, f"#{node.get('id', '').lower()}") if self._rules else ():
            for parts, declared in self._rules.get(name, ()):
                if _matches(node, parts):
                    style |= declared
        attributes = {"color": node.get("color") or node.get("text"), "background": node.get("bgcolor")}
        if node.get("background"):
            attributes["background"] = "url()"
        style |= {name: value.lower() for name, value in attributes.items() if value}
        own = node.get("style")
        return style | _read_style(own) if own else style


def _rules_of(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations; `@` is the selector of what holds on some media only."""
    depth, selectors = 0, ""
    for part in re.split(r"([{}])", css):
        if part in "{}" and part:
            depth = max(depth + (1 if part == "{" else -1), 0)
        elif depth == 0:
            selectors = part.rpartition(";")[2].strip()
        elif depth:
            yield ("@" if depth > 1 else selectors), part


def _read_style(text: str) -> dict[str, str]:
    declared = (declaration.partition(":") for declaration in text.lower().split(";"))
    named = ((name.strip(), value.replace("!important", "").strip()) for name, _, value in declared)
    return {name: value for name, value in named if name in _SETTLED}


def _matches(node: Any, parts: list[str]) -> bool:
    """Return whether an element and those around it have the tags, classes and ids of a selector."""

    def has(element: Any, part: str) -> bool:
        tag, *names = re.split(r"(?=[.#])", part)
        own = {"." + name for name in element.get("class", "").split()} | {"#" + element.get("id", "")}
        return tag.lower() in ("", "*", element.tag) and own.issuperset(names)

    if not has(node, parts[-1]):
        return False
    waiting = parts[:-1]
    while waiting and (node := node.getparent()) is not None:
        if has(node, waiting[-1]):
            waiting = waiting[:-1]
    return not waiting


def explain_removed(node: ET.Element, style: dict[str, str]) -> str | None:
    """Return why nothing below an element is seen, whatever its own look is; None if that is not so."""
    if node.get("hidden") is not None or (node.tag == "dialog" and node.get("open") is None):
        return "hidden element"
    if node.tag in _STRUCK:
        return "deleted"
    if node.tag in _UNSEEN:
        return f"<{node.tag}>"
    if not style:
        return None
    if style.get("display") == "none":
        return "display: none"
    if _pixels(style.get("opacity"), 1) == 0:
        return "opacity: 0"
    if style.get("overflow") in ("hidden", "clip"):
        sides = (_pixels(style.get(side), 100) for side in ("height", "max-height", "width", "max-width"))
        if min(sides) <= 1:
            return "a box without size"
    moved = ("left", "top") if style.get("position") in ("absolute", "fixed") else ()
    if any(_pixels(style.get(side), 0) < -_FAR_PX for side in (*moved, "text-indent")):
        return "off the page"
    return None


def _pixels(value: str | None, otherwise: float, *, parent: float = 16.0) -> float:
    """Return a length in pixels; `otherwise` if it is none."""
    match = _SIZE.fullmatch(value or "")
    if not match:
        return otherwise
    number, unit = float(match[1]), match[2]
    if unit in ("em", "ex", "%"):
        return number * parent / (100 if unit == "%" else 1)
    return number * _PX.get(unit, 1.0)


def inherit(look: Look, style: dict[str, str]) -> Look:
    """Return the look of an element within another."""
    if not style:
        return look
    if (visibility := style.get("visibility")) in ("hidden", "collapse", "visible"):
        look = look._replace(is_visible=visibility == "visible")
    if size := style.get("font-size"):
        named = look.size_px if size in ("inherit", "smaller", "larger") else 16.0
        look = look._replace(size_px=_pixels(size, named, parent=look.size_px))
    if (color := style.get("color", "inherit")) != "inherit":
        look = look._replace(color=_read_color(color))
    for ground in (style[name] for name in ("background", "background-color") if name in style):
        if ground not in ("none", "transparent", "inherit", "initial"):
            words = re.sub(r"\s*,\s*", ",", ground).split()
            read = next((color for word in words if (color := _read_color(word))), None)
            look = look._replace(ground=None if "(" in ground and "rgb" not in ground else read and read[:3])
    return look


def _read_color(text: str) -> tuple[int, ...] | None:
    from PIL import ImageColor

    try:
        return (0, 0, 0, 0) if text == "transparent" else ImageColor.getrgb(text)
    except ValueError:
        return None
