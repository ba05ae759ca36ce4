"""Opens PDFs with MuPDF, reads their metadata, and draws pages with boxes around what an answer cites."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pymupdf

from tasks.documents.blocks import BBox
from tasks.documents.document_errors import CorruptDocument, EmptyDocument, NeedsPassword, UnsupportedDocument
from tasks.documents.document_readers import storable

if TYPE_CHECKING:
    from PIL import Image
import csv
import shutil
import subprocess
from collections import Counter, defaultdict
from functools import cache
from itertools import groupby
from operator import itemgetter
from statistics import median_high
from typing import Any

from tasks.documents.pdf.pdf_text import Fragment
from tasks.documents.pdf.pdf_words import outline

METADATA_NAMES = {name: name for name in ("title", "author", "subject", "keywords", "creator", "producer")} | {
    "creationDate": "created",
    "modDate": "modified",
    "format": "version",
}
"""Ours by MuPDF's."""
MUPDF_ERRORS = (RuntimeError, ValueError, pymupdf.mupdf.FzErrorBase)  # pyright: ignore[reportPrivateImportUsage]
MAX_NOTES = 4
MAX_NOTE_CHARS = 120
DPI = 110
MOST_PIXELS = 16_000_000  # larger pages are drawn at a lower resolution
INK, WASH = (214, 40, 40, 255), (255, 214, 10, 56)
MARGIN_POINTS = 3.0
PDF_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(?:(\d\d)(\d\d)(\d\d)?)?(?:([+-])(\d\d)'?(\d\d)|Z)?")


def open_document(path: Path, password: str | None) -> pymupdf.Document:
    """The document, unlocked; MuPDF prints nothing from here on. Raises DocumentError, OSError."""
    pymupdf.TOOLS.mupdf_display_errors(False)
    pymupdf.TOOLS.mupdf_display_warnings(False)
    pymupdf.TOOLS.reset_mupdf_warnings()
    if path.stat().st_size == 0:
        raise EmptyDocument("The document has no bytes; fetch it again.")
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
        raise _refusal(failure) from failure
    return document


def metadata_of(document: pymupdf.Document) -> dict[str, str]:
    """Title and other metadata stored in the file; dates in ISO 8601 where they are well formed."""
    told = {ours: (document.metadata or {}).get(name) for name, ours in METADATA_NAMES.items()}
    metadata = {name: storable(str(value)).strip() for name, value in told.items() if value}
    metadata |= {name: iso_date(metadata[name]) for name in ("created", "modified") if name in metadata}
    return {name: value for name, value in metadata.items() if value}


def opening_notes(document: pymupdf.Document) -> tuple[str, ...]:
    """Whether the file was repaired, and MuPDF's first warnings."""
    repaired = ["the file is damaged and was repaired; some of it may be missing"] if document.is_repaired else []
    return (*repaired, *complaints())


def iso_date(date: str) -> str:
    """`D:20230317171542-04'00'` as `2023-03-17T17:15:42-04:00`; anything else as it stands."""
    match = PDF_DATE.match(date)
    if match is None:
        return date
    year, month, day, hour, minute, second, sign, zone_hour, zone_minute = match.groups()
    text = "-".join(part for part in (year, month, day) if part)
    if hour:
        text += f"T{hour}:{minute}:{second or '00'}"
        text += f"{sign}{zone_hour}:{zone_minute}" if sign else "Z" if date.endswith("Z") else ""
    return text


def _refusal(failure: Exception) -> CorruptDocument | UnsupportedDocument:
    said = complaints(str(failure))
    if re.search(r"encryption handler|unsupported.*encrypt|unknown encryption", " ".join(said), re.IGNORECASE):
        return UnsupportedDocument(
            f"The document is protected by an encryption that is not read ({said[-1]}); save it without protection."
        )
    return CorruptDocument(
        f"The document cannot be read as a PDF ({said[-1]}): it is truncated or damaged; fetch it again."
    )


def complaints(*more: str) -> tuple[str, ...]:
    """The first few distinct MuPDF warnings since the last reset, without its counts of repetitions."""
    lines = [*pymupdf.TOOLS.mupdf_warnings().splitlines(), *more]
    said = dict.fromkeys(line.strip()[:MAX_NOTE_CHARS] for line in lines if line.strip() and not line.startswith("..."))
    return tuple(said)[:MAX_NOTES]


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """(1-based page, PNG) for each existing page of `boxes`, in points of the shown page. Raises DocumentError."""
    with open_document(path, password) as document:
        yield from drawn_pages(document, boxes)


def drawn_pages(document: pymupdf.Document, boxes: Mapping[int, Sequence[BBox]]) -> Iterator[tuple[int, bytes]]:
    """(1-based page, PNG) for each existing page of `boxes`."""
    for number in sorted(boxes):
        if 1 <= number <= document.page_count:
            yield number, drawn_page(document[number - 1], boxes[number])


def drawn_page(page: pymupdf.Page, boxes: Sequence[BBox]) -> bytes:
    """A page as PNG with boxes in units of the page."""
    from PIL import Image  # not needed to read text

    points = max(page.rect.width * page.rect.height, 1.0)
    scale = min(DPI / 72, (MOST_PIXELS / points) ** 0.5)
    pixels = page.get_pixmap(dpi=round(scale * 72), alpha=False)
    image = Image.frombytes("RGB", (pixels.width, pixels.height), pixels.samples)
    return draw_boxes(image, boxes, pixels_per_point=pixels.width / page.rect.width)


def draw_boxes(image: Image.Image, boxes: Sequence[BBox], *, pixels_per_point: float) -> bytes:
    """The picture as PNG, with each box tinted yellow inside a red frame."""
    from PIL import Image, ImageDraw

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


def is_blank(page: pymupdf.Page) -> bool:
    """Whether the page shows a single colour."""
    return bool(page.get_pixmap(dpi=36, colorspace=pymupdf.csGRAY, alpha=False).is_unicolor)


def why_no_text(page: pymupdf.Page) -> str:
    """What a page without text shows instead."""
    drawn = Counter(str(entry[0]) for entry in page.get_bboxlog())
    if any("text" in kind for kind in drawn):
        return "glyphs without Unicode"
    if any("image" in kind for kind in drawn):
        return "image-only"
    if page.first_widget is not None:
        return "only empty form fields"
    return "only vector drawings" if drawn else "blank"


def is_scan(page: pymupdf.Page) -> bool:
    """Whether one image covers most of the page."""
    images: list[dict[str, Any]] = page.get_image_info()
    return any(abs(pymupdf.Rect(image["bbox"]) & page.rect) >= SCAN_SHARE * abs(page.rect) for image in images)


def read_scan(page: pymupdf.Page) -> list[Fragment]:
    """Lines that tesseract reads on the page, in points of the shown page. Raises OcrFailed."""
    dpi = OCR_DPI
    pixels = page.rect.width * page.rect.height * (dpi / 72) ** 2
    if pixels > MAX_OCR_PIXELS:
        dpi = max(int(dpi * (MAX_OCR_PIXELS / pixels) ** 0.5), 36)
    image = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY, alpha=False)
    return read_image(image.tobytes("png"), dpi=dpi)


WANTED_LANGUAGES = ("kor", "eng")
MIN_CONFIDENCE = 30.0  # percent; what tesseract trusts less is texture, not text
TIMEOUT_S = 120.0


class OcrFailed(Exception):
    """Tesseract took too long or failed."""


@cache
def languages() -> tuple[str, ...]:
    """Which of Korean and English tesseract can read; empty where it is not installed."""
    program = shutil.which("tesseract")
    if program is None:
        return ()
    listed = subprocess.run([program, "--list-langs"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return tuple(name for name in WANTED_LANGUAGES if name in listed.stdout.split())


def read_image(png: bytes, *, dpi: int, timeout_s: float = TIMEOUT_S) -> list[Fragment]:
    """Lines of an image in reading order, in points. Raises OcrFailed."""
    # one thread: the pages of a collection are read side by side, and tesseract's threads cost more than they give
    command = ["env", "OMP_THREAD_LIMIT=1", "tesseract", "stdin", "stdout"]
    command += ["-l", "+".join(languages()), "--dpi", str(dpi), "tsv"]
    try:
        done = subprocess.run(command, input=png, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired as late:
        raise OcrFailed(f"tesseract took more than {timeout_s:g} s") from late
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise OcrFailed(f"tesseract failed: {said[-1] if said else f'exit code {done.returncode}'}")
    return _lines(done.stdout.decode("utf-8", "replace"), points_per_pixel=72 / dpi)


def _lines(tsv: str, *, points_per_pixel: float) -> list[Fragment]:
    """The lines of tesseract's table; their size is the median height of their paragraph, as lines vary by letters."""
    rows = csv.DictReader(io.StringIO(tsv), delimiter="\t", quoting=csv.QUOTE_NONE)
    words = [row for row in rows if row["level"] == "5" and row["text"].strip()]
    words = [row for row in words if float(row["conf"]) >= MIN_CONFIDENCE]
    lines = [list(line) for _, line in groupby(words, key=itemgetter("block_num", "par_num", "line_num"))]
    boxes = [outline([_box(word) for word in line]) for line in lines]
    paragraphs = [(line[0]["block_num"], line[0]["par_num"]) for line in lines]
    heights: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for paragraph, box in zip(paragraphs, boxes, strict=True):
        heights[paragraph].append(box[3] - box[1])
    return [
        Fragment(
            box[0] * points_per_pixel,
            box[1] * points_per_pixel,
            box[2] * points_per_pixel,
            box[3] * points_per_pixel,
            " ".join(word["text"] for word in line),
            size=median_high(heights[paragraph]) * points_per_pixel,
            bold=False,
            upright=True,
            line=(number, 0),
        )
        for number, (line, box, paragraph) in enumerate(zip(lines, boxes, paragraphs, strict=True))
    ]


def _box(word: dict[str, str]) -> BBox:
    left, top, width, height = (float(word[name]) for name in ("left", "top", "width", "height"))
    return left, top, left + width, top + height
