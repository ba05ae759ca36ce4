"""Text of form fields and annotations that a PDF page's own text lacks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, cast

import pymupdf

from tasks.rag.documents.blocks import BBox
from tasks.rag.documents.pdf_text import clean

FIELDS_WITH_TEXT = ("Text", "ComboBox", "ListBox")
PRINTED = ("FreeText", "Stamp")
"""Annotations that belong on the page, as against comments on it."""


class Remark(NamedTuple):
    """Text beside the page's own."""

    text: str
    bbox: BBox
    """In unrotated page space."""
    printed: bool
    """Form field, free text or stamp, as against a comment."""


def remarks(page: pymupdf.Page, shown: str) -> list[Remark]:
    """Values of form fields, then contents of annotations; what `shown` already holds is left out."""
    known = "".join(shown.split())
    found: list[Remark] = []
    for remark in [*_fields(page), *_annotations(page)]:
        plain = "".join(remark.text.split())
        if plain and plain not in known:
            known += plain
            found.append(remark)
    return found


def has_fields(page: pymupdf.Page) -> bool:
    """Whether the page holds form fields or annotations, with or without text."""
    return page.first_widget is not None or page.first_annot is not None


def _fields(page: pymupdf.Page) -> Iterable[Remark]:
    if page.first_widget is None:
        return
    for widget in cast("Iterable[Any]", page.widgets()):
        if widget.field_type_string in FIELDS_WITH_TEXT:
            value = widget.field_value
            text = "\n".join(map(str, value)) if isinstance(value, list | tuple) else str(value or "")
            yield Remark(clean(text).strip(), tuple(widget.rect), printed=True)


def _annotations(page: pymupdf.Page) -> Iterable[Remark]:
    if page.first_annot is None:
        return
    for annotation in cast("Iterable[Any]", page.annots()):
        text = clean(annotation.info.get("content") or "").strip()
        yield Remark(text, tuple(annotation.rect), printed=annotation.type[1] in PRINTED)
