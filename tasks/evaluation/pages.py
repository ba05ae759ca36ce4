"""Pages of one HTML file in one look: light and dark, for a screen of any width, nothing fetched.

A template extends `base.html`. Every value is escaped, and the policy of a page lets in nothing but the style and the
script whose digests it names.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from pathlib import Path

PARTS = Path(__file__).parent / "page"
LOOK = PARTS / "look.css"


def render(template: Path, *, style: Path | None = None, script: Path | None = None, **values: object) -> str:
    """The page of a template with these values. style: rules of its own, after those that all pages have."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([template.parent, PARTS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    rules = "".join(file.read_text("utf-8") for file in (LOOK, style) if file)
    code = script.read_text("utf-8") if script else ""
    policy = f"default-src 'none'; style-src '{_digest(rules)}'"
    return environment.get_template(template.name).render(
        values,
        style=Markup(rules),
        script=Markup(code),
        policy=f"{policy}; script-src '{_digest(code)}'" if code else policy,
    )


def _digest(content: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
