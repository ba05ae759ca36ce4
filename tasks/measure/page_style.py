"""One style for every report: pages, the axes of their charts, and text that markdown shows as it is.

A page is one self-contained HTML file, light and dark, for a screen of any width. A template extends `base.html` and
may import the macros of `plots.html` and `tables.html`. Every value is escaped, and the content security policy of a
page allows only the style and the script whose digests it names.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from math import ceil, floor, log10
from pathlib import Path
from typing import NamedTuple

PARTS = Path(__file__).parent / "page"
LOOK = PARTS / "look.css"


def render(template: Path, *, style: Path | None = None, script: Path | None = None, **values: object) -> str:
    """Return a template as HTML in English. style, script: files of this page alone, CSS after that of every page.

    The service fills the same templates in the reader's language: there `_` translates, here it does not.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([template.parent, PARTS]),
        autoescape=True,
        undefined=StrictUndefined,  # a name that is missing is an error, not a blank
        trim_blocks=True,
        lstrip_blocks=True,
    )
    rules = "".join(file.read_text("utf-8") for file in (LOOK, style) if file)
    code = script.read_text("utf-8") if script else ""
    policy = f"default-src 'none'; style-src '{_digest(rules)}'"
    return environment.get_template(template.name).render(
        values,
        _=str,
        style=Markup(rules),
        script=Markup(code),
        policy=f"{policy}; script-src '{_digest(code)}'" if code else policy,
    )


def _digest(content: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}"


class Axis(NamedTuple):
    """An axis of a chart that begins and ends at round numbers."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def share(self, value: float) -> float:
        """Return the position of `value` on the axis: 0 at its low end, 1 at its high one."""
        return (value - self.low) / (self.high - self.low)

    def across(self, value: float) -> str:
        """Return the position of `value` from the low end in per cent, as CSS and SVG take it."""
        return f"{100 * self.share(value):.2f}%"

    def span(self, low: float | None, high: float | None) -> tuple[str, str] | None:
        """Return the positions of both ends of an interval by `across`; None without an interval."""
        return None if low is None or high is None else (self.across(low), self.across(high))

    def down(self, value: float) -> str:
        """Return the position of `value` from the high end in per cent: pictures count from the top."""
        return f"{100 * (self.high - value) / (self.high - self.low):.2f}%"


def axis_around(low: float, high: float, *, step_at_least: float) -> Axis:
    """Return the axis whose round ends are next to `low` and `high`; that of shares stays within 0 and 1.

    step_at_least: least distance of the ticks; it is rounded up to one of … 0.1, 0.2, 0.5, 1, 2 …
    """
    power = 10.0 ** floor(log10(step_at_least))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= step_at_least * (1 - 1e-9))
    first, last = floor(round(low / step, 9)), ceil(round(high / step, 9))  # 0.6 / 0.2 is a little less than 3
    if first == last:
        first, last = first - 1, last + 1  # equal values: an axis needs a length
    if low >= 0 and high <= 1:
        first, last = max(first, 0), min(last, round(1 / step))
    ticks = tuple(round(at * step, 10) for at in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def plain_markdown(text: str) -> str:
    """Return `text` on one line, with nothing in it that markdown or HTML would act on."""
    escaped = re.sub(r"([\\`*\[\]|~$])", r"\\\1", " ".join(text.split()))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
