"""Opens PDFs with MuPDF, reads their titles, and draws pages with boxes around what an answer cites."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import median_high
from typing import Any

import pymupdf

from tasks.documents.blocks import BBox, enclosing_box
from tasks.documents.document_errors import CorruptDocument, NeedsPassword, UnsupportedDocument
from tasks.documents.document_readers import make_storable
from tasks.documents.pdf.pdf_text import Fragment

MUPDF_ERRORS = (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase)  # pyright: ignore[reportPrivateImportUsage]
MAX_NOTES = 4
MAX_NOTE_CHARS = 120
DPI = 110
MOST_PIXELS = 16_000_000  # larger pages are drawn at a lower resolution
INK, WASH = (214, 40, 40, 255), (255, 214, 10, 56)
MARGIN_POINTS = 3.0


def open_document(path: Path, password: str | None) -> pymupdf.Document:
    """Open and unlock a PDF; MuPDF prints nothing from here on. Raises DocumentError or OSError."""
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    pymupdf.TOOLS.reset_mupdf_warnings()
    try:
        document = pymupdf.open(path, filetype="pdf")
        if not document.is_pdf:  # MuPDF goes by the content, whatever `filetype` says
            raise CorruptDocument("The document is not a PDF; give it the name of what it is, or fetch it again.")
        if document.needs_pass and not password:
            raise NeedsPassword("The document is encrypted; give its password through `--password-env NAME`.")
        if document.needs_pass and not document.authenticate(password or ""):
            raise NeedsPassword("The document is encrypted and does not open with the given password; check it.")
        if not document.page_count:
            raise CorruptDocument(
                "The document holds no page that can be read: it is truncated or damaged; fetch it again."
            )
    except MUPDF_ERRORS as failure:
        warnings = list_warnings(str(failure))
        if "encrypt" in " ".join(warnings).lower():
            raise UnsupportedDocument(
                "The document is protected by an encryption that is not read; save it without protection."
            ) from failure
        message = "The document cannot be read as a PDF: it is truncated or damaged; fetch it again."
        raise CorruptDocument(message) from failure
    return document


def read_title(document: pymupdf.Document) -> str | None:
    """Return the title that is stored in the file; None without one."""
    return make_storable(str((document.metadata or {}).get("title") or "")).strip() or None


def list_warnings(*more: str) -> tuple[str, ...]:
    """Return up to MAX_NOTES distinct warnings: MuPDF's since the last reset, without its counts, and then `more`."""
    lines = [line.strip()[:MAX_NOTE_CHARS] for line in (*pymupdf.TOOLS.mupdf_warnings().splitlines(), *more)]
    return tuple(dict.fromkeys(line for line in lines if line and not line.startswith("...")))[:MAX_NOTES]


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based page, PNG) for each existing page of `boxes`, which are in points. Raises DocumentError."""
    with open_document(path, password) as document:
        yield from draw_pages(document, boxes)


def draw_pages(document: pymupdf.Document, boxes: Mapping[int, Sequence[BBox]]) -> Iterator[tuple[int, bytes]]:
    """Yield (1-based page, PNG) for each existing page of `boxes`."""
    for number in sorted(boxes):
        if 1 <= number <= document.page_count:
            yield number, draw_page(document[number - 1], boxes[number])


def draw_page(page: pymupdf.Page, boxes: Sequence[BBox]) -> bytes:
    """Draw a page as PNG with boxes, in units of the page, tinted yellow inside a red frame."""
    from PIL import Image, ImageDraw  # not needed to read text

    points = max(page.rect.width * page.rect.height, 1.0)
    scale = min(DPI / 72, (MOST_PIXELS / points) ** 0.5)
    pixels = page.get_pixmap(dpi=round(scale * 72), alpha=False)
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.samples)
    pixels_per_point = pixels.width / page.rect.width
    over = Image.new("RGBA", image.size)
    pen = ImageDraw.Draw(over)
    for x0, y0, x1, y1 in boxes:
        left, top, right, bottom = (
            (edge + side * MARGIN_POINTS) * pixels_per_point
            for edge, side in ((min(x0, x1), -1), (min(y0, y1), -1), (max(x0, x1), 1), (max(y0, y1), 1))
        )
        pen.rectangle((left, top, right, bottom), fill=WASH, outline=INK, width=max(2, round(pixels_per_point * 1.5)))
    file = io.BytesIO()
    Image.alpha_composite(image.convert("RGBA"), over).convert("RGB").save(file, "PNG", optimize=True)
    return file.getvalue()


OCR_DPI = 300
MAX_OCR_PIXELS = 30_000_000  # larger pages are rendered at a lower resolution
SCAN_SHARE = 0.7  # share of the page that one image covers when the page is a scan


def why_no_text(page: pymupdf.Page) -> str:
    """Return what a page without text shows instead."""
    drawn = Counter(str(entry[0]) for entry in page.get_bboxlog())
    if any("text" in kind for kind in drawn):
        return "glyphs without Unicode"
    if any("image" in kind for kind in drawn):
        return "image-only"
    if page.first_widget is not None:
        return "only empty form fields"
    if has_drawn_text(page):
        return DRAWN_TEXT
    return "only vector drawings" if drawn else "blank"


DRAWN_TEXT = "drawn text, not read"
LETTER_POINTS = (2.0, 60.0)
LEAST_IN_ROW, LEAST_LETTERS = 5, 20
OUTLINES = 2  # for each character of the page's own text: letters that are stroked to look bold have fewer


def has_drawn_text(page: pymupdf.Page, *, chars: int = 0) -> bool:
    """Return whether filled outlines of the size of letters stand in rows, as text that was turned into curves.

    chars: the characters of the page's own text, which these outlines must outnumber by far.
    """
    across: Counter[int] = Counter()
    down: Counter[int] = Counter()
    for path in page.get_cdrawings() or []:
        if "f" not in str(path["type"]):
            continue
        # one path may hold the outlines of a whole page: each begins where the one before it did not end
        outlines: list[list[tuple[float, float]]] = []
        for kind, *points in path["items"]:
            if kind not in ("l", "c"):
                continue
            if not outlines or outlines[-1][-1] != points[0]:
                outlines.append([])
            outlines[-1] += points
        for outline in outlines:
            xs, ys = zip(*outline, strict=True)
            least, most = LETTER_POINTS
            if least < max(ys) - min(ys) < most and max(xs) - min(xs) < most:
                across[round(max(ys) / 2)] += 1
                down[round(max(xs) / 2)] += 1
    return any(
        sum(count for count in rows.values() if count >= LEAST_IN_ROW) >= max(LEAST_LETTERS, OUTLINES * chars)
        for rows in (across, down)
    )


def is_scan(page: pymupdf.Page) -> bool:
    """Return whether one image covers most of the page."""
    images: list[dict[str, Any]] = page.get_image_info()
    return any(abs(pymupdf.Rect(image["bbox"]) & page.rect) >= SCAN_SHARE * abs(page.rect) for image in images)


WANTED_LANGUAGES = ("kor", "eng")
MIN_CONFIDENCE = 30.0  # percent; what tesseract trusts less is texture, not text
TIMEOUT_S = 120.0


class OcrFailed(Exception):
    """Tesseract took too long or failed; the message says which."""


@cache
def find_ocr_languages() -> tuple[str, ...]:
    """Return which of Korean and English tesseract can read; empty where it is not installed."""
    program = shutil.which("tesseract")
    if program is None:
        return ()
    process = subprocess.run([program, "--list-langs"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return tuple(name for name in WANTED_LANGUAGES if name in process.stdout.split())


def read_scan(page: pymupdf.Page, *, timeout_s: float = TIMEOUT_S) -> list[Fragment]:
    """Return the lines of words that tesseract reads and trusts, in points of the shown page. Raises OcrFailed."""
    dpi = OCR_DPI
    pixels = page.rect.width * page.rect.height * (dpi / 72) ** 2
    if pixels > MAX_OCR_PIXELS:
        dpi = max(int(dpi * (MAX_OCR_PIXELS / pixels) ** 0.5), 36)
    png = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY, alpha=False).tobytes("png")
    # one thread: the pages of a collection are read side by side, and tesseract's threads cost more than they give
    command = ["env", "OMP_THREAD_LIMIT=1", "tesseract", "stdin", "stdout"]
    command += ["-l", "+".join(find_ocr_languages()), "--dpi", str(dpi), "tsv"]
    try:
        process = subprocess.run(command, input=png, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise OcrFailed(f"tesseract took more than {timeout_s:g} s") from late
    if process.returncode:
        errors = process.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OcrFailed(f"tesseract failed: {errors[-1] if errors else f'exit code {process.returncode}'}")

    output = io.StringIO(process.stdout.decode("utf-8", "replace"))
    table = csv.DictReader(output, delimiter="\t", quoting=csv.QUOTE_NONE)  # a quotation mark is text here
    words = [row for row in table if row["level"] == "5" and row["text"].strip()]  # 4 is a line, 5 a word
    words = [row for row in words if float(row["conf"]) >= MIN_CONFIDENCE]
    points_per_pixel = 72 / dpi
    texts: list[str] = []
    boxes: list[BBox] = []
    paragraphs: list[str] = []
    # the size of a line is the median height of its paragraph, as the height of lines varies by their letters
    heights: defaultdict[str, list[float]] = defaultdict(list)
    for (block, paragraph, _), line in groupby(words, key=itemgetter("block_num", "par_num", "line_num")):
        line_words = list(line)
        edges = [[float(word[name]) for name in ("left", "top", "width", "height")] for word in line_words]
        boxes.append(enclosing_box([(left, top, left + width, top + height) for left, top, width, height in edges]))
        texts.append(" ".join(word["text"] for word in line_words))
        paragraphs.append(f"{block} {paragraph}")
        heights[paragraphs[-1]].append(boxes[-1][3] - boxes[-1][1])
    lines: list[Fragment] = []
    for number, (text, box, paragraph) in enumerate(zip(texts, boxes, paragraphs, strict=True)):
        x0, y0, x1, y1 = (edge * points_per_pixel for edge in box)
        size = median_high(heights[paragraph]) * points_per_pixel
        lines.append(Fragment(x0, y0, x1, y1, text, size=size, bold=False, upright=True, line=(number, 0)))
    return lines
