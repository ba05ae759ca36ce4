"""Where something stands in a document, in words: a page, a slide, or cells of a sheet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tasks.documents.blocks import PageSource

if TYPE_CHECKING:
    from storage.catalogue import CatalogueEntry
    from tasks.rag.answers import Citation

DECKS = ("pptx", "ppt")
"""Formats whose pages are slides."""
PAGES: dict[str, dict[PageSource, str]] = {
    "en": {"stored": "page {}", "layout": "page {} as laid out", "slides": "slide {}"},
    "ko": {"stored": "{}쪽", "layout": "{}쪽(조판 기준)", "slides": "슬라이드 {}"},
}


def page_source_of(entry: CatalogueEntry) -> PageSource:
    """What the page numbers of a document are."""
    return "slides" if entry.format in DECKS and entry.page_source == "stored" else entry.page_source


def place_of(
    document: str,
    page: int | None,
    source: PageSource = "stored",
    cells: str | None = None,
    *,
    language: str = "en",
) -> str:
    """`a.pdf, page 3`; `a.hwp, page 3 as laid out`; `a.pptx, slide 3`; `a.xlsx, Sheet 'May', B3:D9`; or `a.pdf 3쪽`."""
    if cells:
        return f"{document}, {cells}"
    if not page:
        return document
    words = PAGES[language]
    where = words.get(source, words["stored"]).format(page)
    return f"{document} {where}" if language == "ko" else f"{document}, {where}"


def cited_place(citation: Citation, *, language: str = "en") -> str:
    """The place of a citation, as `place_of` writes it."""
    told = citation.document, citation.page, citation.page_source, citation.place.cells
    return place_of(*told, language=language)
