"""Whether letters are seen, by what a file says of their ink, their ground and their size: one rule for all formats.

For HTML these come from the page's own styles: the rules of its sheets for plain tags, classes and ids. Nothing is
fetched, so letters on a ground that an outside sheet may colour count as seen.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, count
from typing import Any, NamedTuple

Color = tuple[int, ...]
"""Red, green and blue from 0 to 255, and how far it covers what lies below where that is known."""

BLACK: Color = (0, 0, 0)
WHITE: Color = (255, 255, 255)
NO_INK: Color = (0, 0, 0, 0)
SMALLEST_PT = 1.0
"""Nobody reads letters of one point."""
SAME_COLOR = 5
"""Difference of a channel that no eye sees."""


def explain_unseen(
    *, ink: Color | None = None, ground: Color | None = None, size_pt: float | None = None
) -> str | None:
    """Return why letters are not seen; None if they are, and where what would hide them is not known."""
    if size_pt is not None and size_pt <= SMALLEST_PT:
        return "letters of a point or less"
    if ink and ink[3:] == (0,):
        return "letters without ink"
    if ink and ground and all(abs(one - other) <= SAME_COLOR for one, other in zip(ink, ground, strict=False)):
        return "in the colour of its ground"
    return None


_CLEAR = re.compile(r"[a-z]+\([^,/]*,[^,/]*,[^,/]*[,/]\s*0*(?:\.0\d*)?%?\s*\)")
"""A colour that covers less than a tenth of what lies below."""


@lru_cache
def read_color(text: str | None) -> Color | None:
    """Read a colour of pages (`#036`, `navy`, `rgb(0 51 102)`) or Office (`003366`); NO_INK: clear; None: no colour."""
    from PIL import ImageColor

    text = re.sub(r"(?<=[\d%])\s+(?=\d)", ",", (text or "").casefold())  # `rgb(255 255 255)`
    try:
        digits = len(text) == 6 and int(text, 16) >= 0
    except ValueError:
        digits = False
    try:
        return (
            NO_INK
            if text == "transparent" or _CLEAR.fullmatch(text)
            else ImageColor.getrgb(f"#{text}" if digits else text)
        )
    except ValueError:
        return None


_UNSEEN = {"template", "noscript", "noframes", "iframe", "object", "canvas", "audio", "video", "datalist"}
"""Text for programs that cannot show something better."""
_STRUCK = {"del", "s", "strike"}
_INDENTED = {"ul", "ol", "menu", "dd", "blockquote"}
"""Elements that browsers set in by 40 pixels."""
_COLORED = {"button", "mark"}
"""Elements to which browsers give a ground."""
_PX = {"px": 1.0, "pt": 4 / 3, "pc": 16.0, "rem": 16.0, "in": 96.0, "cm": 37.8, "mm": 3.78}
_SIZE = re.compile(r"(-?\d*\.?\d+)\s*([a-z%]*)")
_SELECTOR = re.compile(r"(?:[a-z][\w-]*|\*)?(?:[.#][\w-]+|\[[\w-]+(?:=[^\]]*)?\])*", re.IGNORECASE)
_NAME = re.compile(r"\[[^\]]*\]|[.#]?[^.#\[]+")
_ON_SCREEN = re.compile(
    r"@media\s+(?:only\s+)?(?:screen\b|all\b)?(?:\s*and)?\s*(?:\(min-width:\s*1?\d{1,3}(?:\.\d+)?[a-z]+\))?(?:\s*,.*)?"
    r"|@(?:layer\b|supports\s*\().*", re.IGNORECASE
)  # fmt: skip
"""At-rules whose own rules hold on a wide screen, in a browser of today."""
_FONT_SIZE = re.compile(r"(?<!\S)(0|[\d.]+[a-z%]+)(?=[\s/])")
"""The size in a `font`, whose weight is a number without a unit."""
_WORD = re.compile(r"[^\s(]+(?:\([^)]*\))?|\([^)]*\)")
"""A value of several, a colour with its numbers in one."""
_LEAST_OPACITY = 0.02
"""Ink that covers less of its ground is not seen."""
_FAR_PX = 999
"""Distance from the page of what is meant for programs that read aloud."""
_CUT = (
    "scale(0)", "scale(0,0)", "scalex(0)", "scaley(0)", "opacity(0)", "opacity(0%)", "inset(50%)", "inset(50%,50%",
    "inset(100%", "circle(0)", "rect(0,0,0,0)", "rect(1px,1px,1px,1px)", "polygon(0,0,0,0,0,0)",
)  # fmt: skip
"""Shapes and filters that leave nothing of an element."""
_MOVES = re.compile(r"translate\w*\(([^)]*)")
_DEFINED, _VARIABLE = re.compile(r"(--[\w-]+)\s*:\s*([^;{}]*[^;{}\s])"), re.compile(r"var\(\s*(--[\w-]+)[^()]*\)")
_SETTLED = set(
    "display visibility opacity font-size color background background-color background-image background-clip "  # noqa: SIM905
    "-webkit-background-clip -webkit-text-fill-color overflow overflow-x overflow-y position left top right bottom "
    "text-indent height max-height width max-width vertical-align padding-left margin-left margin-top clip clip-path "
    "transform translate scale filter content-visibility text-decoration text-decoration-line".split()
)
"""Declarations that decide what is seen, and how."""
_ATTRIBUTES = {"style", "color", "text", "bgcolor", "background", "hidden", "open", "popover"}
_RAISED_SHARE = 0.9
"""Letters that are moved up or down are marks where they are as small, beside those around them."""


class Look(NamedTuple):
    """Properties that decide whether letters are seen; an element inherits those of the one around it."""

    is_visible: bool = True
    size_px: float = 16.0
    ink: Color | None = BLACK
    ground: Color | None = WHITE


@dataclass(slots=True)
class Element:
    """How an element shows what is in it."""

    look: Look
    removed: str | None = None
    """Why nothing below the element is seen, whatever its own look is."""
    place: int = 0
    """Whether its letters stand above the line (1) or below it (-1)."""
    indent_px: float = 0
    """How far its first line is set in from the left edge of what it stands in."""
    unseen: str | None = field(init=False)
    """Why its letters are not seen."""
    nest: tuple[frozenset[str], ...] = ()
    """Its tag, its classes and its id; then those of the elements around it, from the innermost."""
    inner: dict[Any, Element] = field(default_factory=dict["Any", "Element"])
    """What elements in it look like, by what decides it: most of them are alike."""

    def __post_init__(self) -> None:
        seen = explain_unseen(ink=self.look.ink, ground=self.look.ground, size_pt=self.look.size_px / _PX["pt"])
        self.unseen = seen if self.look.is_visible else "visibility: hidden"


class _Rule(NamedTuple):
    """A CSS selector with its declarations; browsers choose by weight (ids, classes, parts), then number."""

    weight: tuple[int, int, int]
    number: int
    parts: tuple[tuple[frozenset[str], ...], ...]
    """Names (`p`, `.note`, `#top`, `[lang=ko]`) that the element needs, then those that elements around it need: groups
    of elements that stand directly in each other, from the innermost.
    """
    style: dict[str, str]
    names: frozenset[str]
    """All names in its parts."""

    def holds(self, nest: Sequence[frozenset[str]]) -> bool:
        """Return whether it is for an element; nest: its names, then those of the elements around it."""
        reached = 0
        for group in self.parts:
            ends = range(reached, min(len(nest) - len(group), len(nest) if reached else 0) + 1)
            fits = (end for end in ends if all(map(frozenset.issubset, group, nest[end:])))
            if (end := next(fits, None)) is None:
                return False
            reached = end + len(group)
        return True


class StyleSheet:
    """The rules that a page's own `<style>` elements give, and what comes of them for its elements."""

    def __init__(self, root: ET.Element) -> None:
        self._rules: dict[str, list[_Rule]] = {}
        """By a name that their elements have."""
        own_styles = (node.get("style", "").lower() for node in root.iter())
        self._variables = {name: "" for style in own_styles for name, _ in _DEFINED.findall(style)}
        order = count()
        # a sheet that is not read here may colour the page
        knows_grounds = not any("stylesheet" in node.get("rel", "").lower() for node in root.iter("link"))
        for node in root.iter("style"):
            if not _ON_SCREEN.fullmatch(f"@media {node.get('media', 'all')}"):
                continue
            css = re.sub(r"/\*.*?\*/|<!--|-->", "", node.text or "", flags=re.DOTALL)
            for scope, body in _rules_of(css.lower()):
                for name, value in _DEFINED.findall(body):  # that of a part, or with a second value, decides nothing
                    whole = value if scope in (":root", "html", "body") else ""
                    self._variables[name] = whole if self._variables.get(name, whole) == whole else ""
            for selectors, body in _rules_of(css):
                style = self._read_style(body)
                for selector in selectors.split(",") if style else ():
                    groups = [group.split(">") for group in re.sub(r"\s*>\s*", ">", selector).split()]
                    parts = [part for group in groups for part in group]
                    if groups and all(part and _SELECTOR.fullmatch(part) for part in parts):
                        weight = selector.count("#"), selector.count(".") + selector.count("["), len(parts)
                        nest = tuple(tuple(map(_read_names, reversed(group))) for group in reversed(groups))
                        names = frozenset[str]().union(*(part for group in nest for part in group))
                        rule = _Rule(weight, next(order), nest, style, names)
                        self._rules.setdefault(max(nest[0][0], default="*"), []).append(rule)
                    elif any("background" in name for name in style):
                        knows_grounds = False
        used = set[str]().union(*(rule.names for rules in self._rules.values() for rule in rules))
        self._ids = {name[1:] for name in used if name[0] == "#"}
        self._attributes = {name[1:-1].partition("=")[0] for name in used if name[0] == "["}
        self._decisive = _ATTRIBUTES | self._attributes | ({"class"} if used else set())
        self.page = Element(Look() if knows_grounds else Look(ground=None))

    def enter(self, node: Any, outer: Element) -> Element:
        """Return how `node` shows its content within `outer`; worked out once for all elements that stand alike."""
        decisive, ids = self._decisive, self._ids
        key: tuple[Any, ...] = (node.tag, *[pair for pair in node.items() if pair[0] in decisive or pair[1] in ids])
        if (element := outer.inner.get(key)) is None:
            forms = ((f"[{name}]", f"[{name}={value}]") for name, value in key[1:] if name in self._attributes)
            own = (f"#{node.get('id')}", *("." + name for name in node.get("class", "").split()), *chain(*forms))
            nest = (frozenset((node.tag, *own)), *outer.nest)
            every = nest[0].union(*nest)
            likely = (rule for name in ("*", *nest[0]) for rule in self._rules.get(name, ()) if rule.names <= every)
            named = (rule for rule in likely if rule.holds(nest))
            style = {"background": "url()"} if node.tag in _COLORED else dict[str, str]()
            for rule in sorted(named, key=lambda rule: rule[:2]):
                style |= rule.style
            attributes = dict(key[1:])
            given = {"color": attributes.get("color", attributes.get("text")), "background": attributes.get("bgcolor")}
            style |= {name: value.lower() for name, value in given.items() if value}
            style |= {"background": "url()"} if attributes.get("background") else {}
            style |= self._read_style(attributes.get("style", ""))
            style |= {name[1:]: value for name, value in style.items() if name[0] == "!"}
            indent_px = 40.0 * (node.tag in _INDENTED)
            indent_px += sum(_pixels(style.get(name), 0) for name in ("padding-left", "margin-left", "text-indent"))
            look, removed = _inherit(outer.look, style), _explain_removed(node.tag, attributes, style)
            place = _find_place(style, is_small=look.size_px < _RAISED_SHARE * outer.look.size_px)
            element = outer.inner[key] = Element(look, removed, place, indent_px, nest)
        return element

    def _read_style(self, text: str) -> dict[str, str]:
        """Return the declarations that decide what is seen, in small letters, by name, `!name` for an important one."""
        resolved = _VARIABLE.sub(lambda match: self._variables.get(match[1], match[0]), text.lower())
        style: dict[str, str] = {}
        for name, _, value in (declaration.partition(":") for declaration in resolved.split(";")):
            name, (value, important, _) = name.strip(), value.strip().partition("!")
            if name == "font" and (size := _FONT_SIZE.search(value)):
                style["font-size"] = size[1]
            elif name in _SETTLED:
                style["!" * bool(important) + name] = value.strip()
        return style


def _rules_of(css: str) -> Iterator[tuple[str, str]]:
    """Yield selectors and declarations; `@` is the selector within any at-rule but `@media` for all screens."""
    around, last = list[str](), ""
    for part in re.split(r"([{}])", css):
        if part == "{":
            around.append(last)
        elif part == "}":
            around = around[:-1]
        else:
            if around:
                yield (around[-1] if all(map(_ON_SCREEN.fullmatch, around[:-1])) else "@"), part
            last = part.rpartition(";")[2].strip()


def _read_names(part: str) -> frozenset[str]:
    """Return the names in a part of a selector: `p` and `.note` of `p.note`; none for `*`."""
    names = _NAME.findall(re.sub("[\"']", "", part))
    return frozenset(name if name[0] in ".#[" else name.lower() for name in names) - {"*"}


def _explain_removed(tag: str, attributes: Mapping[str, str], style: Mapping[str, str]) -> str | None:
    """Return why an element is not drawn at all, by its tag, attributes and style; None if it is drawn."""
    if "hidden" in attributes or "popover" in attributes or (tag == "dialog" and "open" not in attributes):
        return "hidden element"
    if tag in _STRUCK or "line-through" in style.get("text-decoration", "") + style.get("text-decoration-line", ""):
        return "deleted"
    if tag in _UNSEEN:
        return f"<{tag}>"
    if style.get("display") == "none" or style.get("content-visibility") == "hidden":
        return "display: none"
    if _pixels(style.get("opacity"), 1) < _LEAST_OPACITY:
        return "opacity: 0"
    is_placed = style.get("position") in ("absolute", "fixed")
    cuts = ("clip-path", "transform", "filter", *(("clip",) if is_placed else ()))  # `clip` cuts only what is placed
    shapes = "\n".join((*(style.get(name, "") for name in cuts), f"scale({style.get('scale', 1)})"))
    shapes = re.sub(r"(?<![\d.])0(?:px)?%?", "0", re.sub(r"[ ,]+", ",", shapes))
    if any(cut in shapes for cut in _CUT):
        return "nothing of it is left"
    overflow = " ".join(style.get(name, "") for name in ("overflow", "overflow-x", "overflow-y"))
    if not {"hidden", "clip"}.isdisjoint(overflow.split()):
        # a share is one of the window
        sides = (_pixels(style.get(side), 100, parent=1600) for side in ("height", "max-height", "width", "max-width"))
        if min(sides) <= 1:
            return "a box without size"
    # what is held on two sides reaches from one to the other
    sides = ("left" if "left" in style else "right", "top" if "top" in style else "bottom") if is_placed else ()
    text_px = _pixels(style.get("margin-left"), 0) + _pixels(style.get("padding-left"), 0)
    moves = [text_px, *(_pixels(style.get(side), 0) for side in (*sides, "text-indent", "margin-top"))]
    translated = ",".join((*_MOVES.findall(shapes), style.get("translate", "").replace(" ", ",")))
    moves += [_pixels(move, 0) for move in translated.split(",")]
    return "off the page" if min(moves) < -_FAR_PX else None


def _find_place(style: Mapping[str, str], *, is_small: bool) -> int:
    """Return 1 for letters above their line, -1 for those below it, else 0; is_small: beside those around them."""
    align = style.get("vertical-align", "")
    if align in ("super", "sub") or not is_small:
        return {"super": 1, "sub": -1}.get(align, 0)
    rise = _pixels(align, float(align in ("top", "text-top")))
    if style.get("position") == "relative":
        rise += _pixels(style.get("bottom"), 0) - _pixels(style.get("top"), 0)
    return (rise > 0) - (rise < 0)


def _pixels(value: str | None, otherwise: float, *, parent: float = 16.0) -> float:
    """Return a length in pixels, `otherwise` if it is none; parent: the pixels of which `em` and `%` are shares."""
    match = _SIZE.fullmatch(value or "")
    if not match:
        return otherwise
    number, unit = float(match[1]), match[2]
    if unit in ("em", "ex", "%"):
        return number * parent / (100 if unit == "%" else 1)
    return number * _PX.get(unit, 1.0)


def _inherit(look: Look, style: Mapping[str, str]) -> Look:
    """Return the look of an element with a style, within one that has `look`; a colour that is not known is None."""
    if (visibility := style.get("visibility")) in ("hidden", "collapse", "visible"):
        look = look._replace(is_visible=visibility == "visible")
    if size := style.get("font-size"):
        named = look.size_px if size in ("inherit", "smaller", "larger") else 16.0
        look = look._replace(size_px=_pixels(size, named, parent=look.size_px))
    if (color := style.get("-webkit-text-fill-color", style.get("color", "inherit"))) != "inherit":
        is_cut_out = "text" in (style.get("background-clip"), style.get("-webkit-background-clip"))
        look = look._replace(ink=None if is_cut_out else read_color(color))  # letters cut out of their ground
    for ground in (style[name] for name in ("background", "background-color", "background-image") if name in style):
        if ground not in ("none", "transparent", "inherit", "initial"):
            colors = [(word, read_color(word)) for word in _WORD.findall(re.sub(r"\s*,\s*", ",", ground))]
            is_drawn = any("(" in word and color is None for word, color in colors)  # a picture, or a shade
            color = next((color for _, color in colors if color), None)
            if is_drawn or color is None or color[3:] != (0,):
                look = look._replace(ground=None if is_drawn else color and color[:3])
    return look
