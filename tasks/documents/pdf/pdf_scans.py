"""Pages without text: what they show instead, and their text by tesseract where it is installed."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections import Counter, defaultdict
from functools import cache
from itertools import groupby
from operator import itemgetter
from statistics import median_high
from typing import Any

import pymupdf

from tasks.documents.blocks import BBox
from tasks.documents.pdf.pdf_text import Fragment
from tasks.documents.pdf.pdf_words import outline

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
