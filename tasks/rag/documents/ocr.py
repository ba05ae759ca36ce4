"""Text of a page image, by tesseract when it is installed."""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from functools import cache
from itertools import groupby
from typing import NamedTuple

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
    return [_line(list(group)) for _, group in groupby(words, key=_place)]


def _place(word: dict[str, str]) -> tuple[int, int, int]:
    return int(word["block_num"]), int(word["par_num"]), int(word["line_num"])


def _line(words: list[dict[str, str]]) -> OcrLine:
    return OcrLine(
        min(float(w["left"]) for w in words),
        min(float(w["top"]) for w in words),
        max(float(w["left"]) + float(w["width"]) for w in words),
        max(float(w["top"]) + float(w["height"]) for w in words),
        " ".join(w["text"] for w in words),
        _place(words[0])[:2],
    )
