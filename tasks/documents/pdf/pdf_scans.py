"""Pages without text of their own: whether they are scans, and their text by tesseract when it is installed."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import pymupdf

from tasks.documents.pdf.pdf_text import Fragment

OCR_DPI = 300
MAX_OCR_PIXELS = 30_000_000
"""Larger pages are rendered coarser."""
SCAN_SHARE = 0.7
"""Share of the page that one image covers when the page is a scan."""


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
    """What tesseract reads on the rendered page, in points of the shown page.

    Raises tasks.documents.pdf.pdf_scans.OcrFailed.
    """
    dpi = OCR_DPI
    pixels = page.rect.width * page.rect.height * (dpi / 72) ** 2
    if pixels > MAX_OCR_PIXELS:
        dpi = max(int(dpi * (MAX_OCR_PIXELS / pixels) ** 0.5), 36)
    image = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY, alpha=False)
    lines, scale = read_image(image.tobytes("png"), dpi=dpi), 72 / dpi
    return [
        Fragment(
            line.x0 * scale,
            line.y0 * scale,
            line.x1 * scale,
            line.y1 * scale,
            line.text,
            size=_size(lines, line) * scale,
            bold=False,
            upright=True,
            line=(number, 0),
        )
        for number, line in enumerate(lines)
    ]


def _size(lines: Sequence[OcrLine], line: OcrLine) -> float:
    """Height of the line's paragraph: single lines vary with their letters."""
    heights = sorted(other.y1 - other.y0 for other in lines if other.paragraph == line.paragraph)
    return heights[len(heights) // 2]


WANTED_LANGUAGES = ("kor", "eng")
MIN_CONFIDENCE = 30.0
"""Percent; what tesseract trusts less is texture, not text."""
TIMEOUT_S = 120.0


class OcrFailed(Exception):
    """Tesseract is missing, has no language, took too long or gave up; the text says which."""


class OcrLine(NamedTuple):
    """A line of recognised text, in pixels of the image."""

    x0: float
    y0: float
    x1: float
    y1: float
    text: str
    paragraph: tuple[int, int]
    """Tesseract's block and paragraph."""


def ocr_available() -> bool:
    """Whether tesseract is installed with Korean or English."""
    return bool(languages())


@cache
def languages() -> tuple[str, ...]:
    """Those of Korean and English that are installed; empty without tesseract."""
    program = shutil.which("tesseract")
    if program is None:
        return ()
    listed = subprocess.run([program, "--list-langs"], capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    return tuple(name for name in WANTED_LANGUAGES if name in listed.stdout.split())


def read_image(png: bytes, *, dpi: int, timeout_s: float = TIMEOUT_S) -> list[OcrLine]:
    """Lines in reading order; none on an image without text.

    Raises OcrFailed.
    """
    if not languages():
        raise OcrFailed("tesseract is not installed with `kor` or `eng`; install it, or read with ocr=off")
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
    return _lines(done.stdout.decode("utf-8", "replace"))


def _lines(tsv: str) -> list[OcrLine]:
    rows = csv.DictReader(io.StringIO(tsv), delimiter="\t", quoting=csv.QUOTE_NONE)
    words = [row for row in rows if row["level"] == "5" and row["text"].strip()]
    words = [row for row in words if float(row["conf"]) >= MIN_CONFIDENCE]
    place = itemgetter("block_num", "par_num", "line_num")
    return [_line(list(group)) for _, group in groupby(words, key=place)]


def _line(words: list[dict[str, str]]) -> OcrLine:
    return OcrLine(
        min(float(w["left"]) for w in words),
        min(float(w["top"]) for w in words),
        max(float(w["left"]) + float(w["width"]) for w in words),
        max(float(w["top"]) + float(w["height"]) for w in words),
        " ".join(w["text"] for w in words),
        (int(words[0]["block_num"]), int(words[0]["par_num"])),
    )
