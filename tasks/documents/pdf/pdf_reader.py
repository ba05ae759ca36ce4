"""The PDF reader: pymupdf's fast text for every page, tables where lines or columns ask for them, OCR for scans."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pymupdf

from tasks.documents.blocks import BBox, HiddenText, Page, PageStatus, enclosing_box
from tasks.documents.document_readers import Header, ReadOptions
from tasks.documents.marks import raise_signs
from tasks.documents.pdf import pdf_blocks, pdf_document
from tasks.documents.pdf.pdf_columns import find_tables
from tasks.documents.pdf.pdf_grids import find_edges
from tasks.documents.pdf.pdf_hidden import group_hidden
from tasks.documents.pdf.pdf_tables import Table, remove_table_words
from tasks.documents.pdf.pdf_text import (
    NEAR_EMS,
    Fragment,
    PageText,
    Remark,
    Word,
    count_unreadable,
    extract_text,
    find_place,
    has_fields,
    is_mostly_unreadable,
    map_box,
    read_remarks,
    store_drawn,
)
from tasks.documents.receipt import compare_letters, count_letters

NEIGHBOURS = (-2, -1, 1, 2)  # distance of pages whose edges are compared; two each way, as left and right pages differ
STYLE_SAMPLES = 6  # pages, spread over the document, from which the style of running text is learned
MAX_PEEK_BYTES = 65_536  # compressed content of a page that is read within the budget of another
SPARSE_CHARS = 500  # a page with fewer characters may have drawn others as curves
FEW_CHARS = 20  # a page with fewer characters that one image covers is a scan with a stamp or a number
NOTED_SHARE = 0.02  # of characters without Unicode: a lower share are ticks and bullets, a higher one is noted
MAX_REASON_CHARS = 200
DEFAULT_BODY = pdf_blocks.BodyStyle(10.0, bold=False)
RUN_GAP_EMS = 0.8  # a wider gap ends a run of words


class _LoadedPage(NamedTuple):
    number: int
    """1-based number of the page."""
    page: pymupdf.Page
    text: PageText
    margins: pdf_blocks.Margins
    complaints: tuple[str, ...]
    """MuPDF warnings while the page was read."""


_BROKEN = re.compile(r"zlib|cannot (load|find|parse|open) (object|xref|stream)|premature|truncated|invalid code", re.I)
"""MuPDF warnings that mean lost content; its other warnings (fonts, colours) are harmless."""


def open_pdf(path: Path, *, password: str | None, options: ReadOptions) -> PdfReader:
    """Open a PDF to be read page by page. Raises DocumentError or OSError."""
    return PdfReader(pdf_document.open_document(path, password), path, password=password, options=options)


class PdfReader:
    """An open PDF that is read page by page; it implements Reader."""

    def __init__(self, document: pymupdf.Document, path: Path, *, password: str | None, options: ReadOptions) -> None:
        self._document = document
        self._path = path
        self._password = password
        self._options = options
        self._loaded: dict[int, _LoadedPage] = {}
        library = "pdfplumber" if options.pdf_reader == "pdfplumber" else "pymupdf"
        self.header = Header(
            format="pdf",
            reader=f"{library} {version(library)}",
            page_source="stored",
            page_count=document.page_count,
            title=pdf_document.read_title(document),
            notes=("the file is damaged and was repaired; some of it may be missing",) * document.is_repaired,
        )

    def pages(self, first: int = 1) -> Iterator[Page]:
        """Yield the pages from number `first` (1-based) on; an unreadable one has status `error` and a reason."""
        for number in range(first, self.header.page_count + 1):
            for passed in [n for n in self._loaded if n < number + NEIGHBOURS[0]]:
                del self._loaded[passed]
            try:
                loaded = self._load_page(number)
                page = self._read(loaded)
                if page.status is PageStatus.OK:  # of a scan, letters are known by recognition alone
                    page = compare_letters(page, count_letters(fragment.text for fragment in loaded.text.fragments))
                if any(_BROKEN.search(warning) for warning in loaded.complaints):
                    # a page that could not be unpacked is not blank
                    status = PageStatus.ERROR if page.status is PageStatus.EMPTY else page.status
                    reasons = ("damaged: some of the page cannot be unpacked", page.reason if page.blocks else None)
                    page = page.model_copy(update={"status": status, "reason": "; ".join(filter(None, reasons))})
                yield page
            except pymupdf.mupdf.FzErrorBase:  # pyright: ignore[reportPrivateImportUsage]
                yield Page(number=number, status=PageStatus.ERROR, reason="damaged: the page cannot be read")
            except Exception as failure:  # noqa: BLE001 - whatever a parser trips over, the next page follows
                reason = f"{type(failure).__name__}: {failure}"[:MAX_REASON_CHARS]
                yield Page(number=number, status=PageStatus.ERROR, reason=reason)

    def _read(self, loaded: _LoadedPage) -> Page:
        """Return the page from its text; as recognised by tesseract where it is unreadable, a scan, or without text."""
        texts = [fragment.text for fragment in loaded.text.fragments]
        remarks = read_remarks(loaded.page, loaded.text) if has_fields(loaded.page) else []
        page = self._read_text(loaded, texts, [remark for remark in remarks if remark.seen])
        turned = pymupdf.Matrix(loaded.page.rotation_matrix)
        unseen = tuple(
            HiddenText(text=remark.text, reason="in a hidden field or comment", bbox=map_box(remark.bbox, turned))
            for remark in remarks
            if not remark.seen
        )
        return page.model_copy(update={"hidden": page.hidden + unseen}) if unseen else page

    def _read_text(self, loaded: _LoadedPage, texts: Sequence[str], comments: Sequence[Remark]) -> Page:
        """Return a page from its text layer, or recognised by OCR where that is unreadable, missing or too short."""
        chars = sum(len(text) - text.count(" ") for text in texts)
        if is_mostly_unreadable(texts):
            return self._recognise(loaded, comments, why="glyphs without Unicode")
        if chars < FEW_CHARS and not comments and pdf_document.is_scan(loaded.page):
            return self._recognise(loaded, comments, why="image-only")
        if 0 < chars < SPARSE_CHARS and not comments and pdf_document.has_drawn_text(loaded.page, chars=chars):
            return self._recognise(loaded, comments, why=pdf_document.DRAWN_TEXT)
        if not chars and not comments:
            return self._recognise(loaded, comments, why=None)
        return self._page(loaded, comments, reason=_describe_damage(loaded.text))

    def _recognise(self, loaded: _LoadedPage, comments: Sequence[Remark], *, why: str | None) -> Page:
        """Return the page as tesseract reads it; else the legible part of its own text, else EMPTY; with the reason."""
        page, text = loaded.page, loaded.text
        has_text = bool(text.fragments or comments)
        if not has_text and page.get_pixmap(dpi=36, colorspace=pymupdf.csGRAY, alpha=False).is_unicolor:
            return _empty_page(loaded, PageStatus.EMPTY, "blank")
        why = why or pdf_document.why_no_text(page)
        legible = tuple(f for f in text.fragments if not is_mostly_unreadable([f.text]))
        scanned: list[Fragment] = []
        if self._options.ocr == "auto" and pdf_document.find_ocr_languages():
            try:
                scanned = pdf_document.read_scan(page)
            except pdf_document.OcrFailed as failure:
                why = f"{why}; {failure}"
        if sum(len(line.text) for line in scanned) > sum(len(line.text) for line in legible):
            width, height, turned = page.rect.width, page.rect.height, pymupdf.Matrix(page.rotation_matrix)
            # no words: drawn tables are not looked for in a scan
            recognised = PageText(width, height, tuple(scanned), words=list, to_reading=turned)
            why = why.removesuffix(", not read")
            return self._page(_with_text(loaded, recognised), comments, reason=why, status=PageStatus.OCR)
        if legible or comments:
            legible_text = text._replace(fragments=legible)
            reason = why if why == pdf_document.DRAWN_TEXT else _describe_damage(text) or why
            return self._page(_with_text(loaded, legible_text), comments, reason=reason)
        return _empty_page(loaded, PageStatus.EMPTY, why)

    def _page(
        self, loaded: _LoadedPage, comments: Sequence[Remark], *, reason: str | None, status: PageStatus = PageStatus.OK
    ) -> Page:
        """Return the page with its blocks; `comments` are form values and annotations."""
        text = loaded.text
        near = {distance: self._peek(loaded.number + distance) for distance in NEIGHBOURS}
        near_margins = {distance: page.margins for distance, page in near.items() if page}
        running = pdf_blocks.find_running_rows(loaded.margins, near_margins)

        # values of form fields and stamps are runs of text in their places, comments are notes
        to_reading, to_page = text.to_reading, text.to_page
        body = self._body or pdf_blocks.find_body_style(text.fragments) or DEFAULT_BODY
        values = [
            # no run of the page has the block -1
            Fragment(*map_box(remark.bbox, to_reading), remark.text, *DEFAULT_BODY, upright=True, line=(-1, i))
            for i, remark in enumerate(comments)
            if remark.printed
        ]
        if values:
            drawn = text.words
            text = text._replace(
                fragments=(*text.fragments, *values),
                words=lambda: [*drawn(), *(Word(*value[:5], value.line) for value in values)],
            )

        # tables, and the text outside of them
        fragments = list(text.fragments)
        tables: list[Table] = []
        if self._options.tables and status is PageStatus.OK:
            drawings = loaded.page.get_cdrawings() or []
            edges = find_edges(drawings, text.to_reading, width=text.width, height=text.height)
            own = [f for f in text.fragments if f.line not in running.header | running.footer]
            tables = find_tables(text, own, edges)
            fragments = remove_table_words(text.fragments, text.words(), tables) if tables else fragments

        blocks = pdf_blocks.build_blocks(
            fragments,
            tables,
            running=running,
            body=body,
            page=loaded.number,
            comments=[(remark.text, map_box(remark.bbox, to_reading)) for remark in comments if not remark.printed],
            to_page=None if to_page is None else lambda box: map_box(box, to_page),
        )
        return _empty_page(loaded, status, reason).model_copy(update={"blocks": blocks})

    def _load_page(self, page_number: int) -> _LoadedPage:
        """Return a page (1-based) with its text and margins, which are read once."""
        if page_number not in self._loaded:
            pymupdf.TOOLS.reset_mupdf_warnings()
            page = self._document.load_page(page_number - 1)
            text = extract_text(page, layers=self._layers)
            if self._options.pdf_reader == "pdfplumber":
                text = self._plumber.text(page_number, text)
            margins, complaints = pdf_blocks.find_margins(text), pdf_document.list_warnings()
            self._loaded[page_number] = _LoadedPage(page_number, page, text, margins, complaints)
        return self._loaded[page_number]

    def _peek(self, number: int) -> _LoadedPage | None:
        """Return another page if it is loaded, or short and without forms, so that it takes little time; else None."""
        if number in self._loaded:
            return self._loaded[number]
        if not 1 <= number <= self.header.page_count or self._options.pdf_reader == "pdfplumber":
            return None
        try:
            page = self._document.load_page(number - 1)
            content_bytes = sum(len(self._document.xref_stream_raw(xref) or b"") for xref in page.get_contents())
            simple = not self._document.get_page_xobjects(number - 1) and not has_fields(page)
            return self._load_page(number) if simple and content_bytes <= MAX_PEEK_BYTES else None
        except Exception:  # noqa: BLE001 - its own turn will say what is wrong with it
            return None

    @cached_property
    def _body(self) -> pdf_blocks.BodyStyle | None:
        """Style of the running text on a few pages that are cheap to read; None where they hold none."""
        count = self.header.page_count
        numbers = sorted({1 + (count - 1) * i // STYLE_SAMPLES for i in range(1, STYLE_SAMPLES)})
        peeked = [loaded for loaded in map(self._peek, numbers) if loaded]
        fragments = (fragment for loaded in peeked for fragment in loaded.text.fragments)
        return pdf_blocks.find_body_style(fragments)

    @cached_property
    def _layers(self) -> tuple[int, ...]:
        """Numbers of the layers (optional content) that are off."""
        layers = self._document.layer_ui_configs()
        return tuple(layer["number"] for layer in layers if layer["type"] == "checkbox" and not layer["on"])

    @cached_property
    def _plumber(self) -> Plumber:
        return Plumber(self._path, self._password)


def _with_text(loaded: _LoadedPage, text: PageText) -> _LoadedPage:
    return loaded._replace(text=text, margins=pdf_blocks.find_margins(text))


def _empty_page(loaded: _LoadedPage, status: PageStatus, reason: str | None) -> Page:
    rect = loaded.page.rect
    hidden = group_hidden(loaded.text.hidden)
    return Page(number=loaded.number, status=status, reason=reason, width=rect.width, height=rect.height, hidden=hidden)


def _describe_damage(text: PageText) -> str | None:
    """Return a note on the characters of a page that were replaced or have no Unicode; None if there are few."""
    bad, total = count_unreadable(fragment.text for fragment in text.fragments)
    missing = f"glyphs without Unicode: {bad} of {total} characters" if bad > NOTED_SHARE * total else None
    return "; ".join(filter(None, (text.note, missing))) or None


class Plumber:
    """The words of a document as pdfplumber reads them; whatever pdfplumber and pdfminer raise is raised."""

    def __init__(self, path: Path, password: str | None) -> None:
        import pdfplumber  # slow to import, and most documents do without

        # from memory: a reader that is dropped half way leaves no open file behind
        self._document: Any = pdfplumber.open(BytesIO(path.read_bytes()), password=password or "")

    def text(self, number: int, seen: PageText) -> PageText:
        """Return the text of a page (1-based); seen: the same page as pymupdf reads it, without hidden letters."""
        unseen: defaultdict[tuple[str, int], list[BBox]] = defaultdict(list)
        for found in seen.hidden:
            for shift in (-0.4, 0.4):  # both readers give the left edge, a little apart
                unseen[found.char.text, round(found.char.box[0] + shift)].append(found.char.box)

        def is_seen(drawn: dict[str, Any]) -> bool:
            middle = (drawn["top"] + drawn["bottom"]) / 2
            boxes = unseen.get((drawn.get("text", ""), round(drawn["x0"])), ())
            return not any(box[1] - 0.5 < middle < box[3] + 0.5 for box in boxes)

        page = self._document.pages[number - 1].filter(is_seen)
        read = _join_marks(page.extract_words(extra_attrs=["size", "fontname", "upright"]))
        page.close()
        words: list[Word] = []
        # words that stand close, on one line and in one size, are a run
        for before, word in pairwise([{}, *read]):
            gap = word["x0"] - before.get("x1", 0)
            near = bool(before) and abs(word["top"] - before["top"]) < 3 and -1 <= gap < RUN_GAP_EMS * word["size"]
            alike = near and word["upright"] == before["upright"] and abs(word["size"] - before["size"]) < 0.5
            run = words[-1].line[0] + (not alike) if words else 0
            x0, y0, x1, y1 = (float(word[edge]) for edge in ("x0", "top", "x1", "bottom"))
            words.append(Word(x0, y0, x1, y1, store_drawn(word["text"]), (run, 0)))
        fragments: list[Fragment] = []
        for line, group in groupby(zip(words, read, strict=True), key=lambda pair: pair[0].line):
            own, (lead, *_) = zip(*group, strict=True)
            box, text = enclosing_box([word[:4] for word in own]), " ".join(word.text for word in own)
            bold, upright = "Bold" in str(lead["fontname"]), bool(lead["upright"])
            fragments.append(Fragment(*box, text, float(lead["size"]), bold, upright, line))
        size = float(page.width), float(page.height)
        to_shown = seen.to_reading * seen.to_page if seen.to_page else seen.to_reading
        return PageText(*size, tuple(fragments), words=lambda: words, to_reading=to_shown, hidden=seen.hidden)


def _join_marks(words: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the words of pdfplumber, which parts them by size, with the raised signs of each behind it."""

    def make_span(word: dict[str, Any]) -> dict[str, Any]:
        # letters go about a fifth of their size below the baseline
        return word | {"origin": (word["x0"], word["bottom"] - 0.2 * word["size"])}

    joined: list[dict[str, Any]] = []
    for word in words:
        base = joined[-1] if joined else word
        gap = (word["x0"] - base["x1"]) / (base["size"] or 1)
        if joined and NEAR_EMS[0] <= gap <= NEAR_EMS[1] and find_place(make_span(word), make_span(base)) > 0:
            text = base["text"] + raise_signs(word["text"], before=base["text"])
            joined[-1] = base | {"text": text, "x1": word["x1"]}
        else:
            joined.append(word)
    return joined
