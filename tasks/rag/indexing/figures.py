"""Selects figures for a vision model, asks about them, and judges its answers.

A figure's record is made by the filters, marked where it repeats another document's figure, and given a description.
"""

from __future__ import annotations

import hashlib
import io
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from models.model_errors import ModelError, RequestRefused, TransientModelError
from models.protocols import Chat, ChatRequest, Image, Message, Text
from storage.records import Record, Ref
from tasks.budget import Budget, BudgetSpent
from tasks.calls import Limits, ResponseStore, ask
from tasks.documents.blocks import BBox, ImageCandidate
from tasks.rag.indexing.chunks import figure_label

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

WHITE_FROM = 250
"""The grey level (0 to 255) from which a pixel counts as white."""
MEASURED_SIDE_PX = 128
"""Edges are measured at this size: their share falls with the resolution, whatever the picture shows."""
HASH_SIDE = 8
LIKELY_BITS = 8
"""Bits of 64: the pixels of two figures are compared when their perceptual hashes differ by no more."""
ALIKE_LEVELS = 16
"""Grey levels (of 255) that near-duplicates may differ by. Measured: another scale or JPEG quality (50 to 90) at most
16, another digit in letters of 10 pixels and light grey at least 35."""

Status = Literal["kept", "dropped", "duplicate", "described", "skipped", "uninformative", "failed"]


class FigureSettings(Record):
    """Which figures are described, and by how long an answer; the names are those of the seed's `config.py`."""

    qwen3_vl_enabled: bool = True
    """False: figures are found and filtered, and none is described."""
    qwen3_vl_model_path: str | None = None
    """Folder or name of the weights, for a backend that runs in process."""
    qwen3_vl_max_tokens: int = Field(default=512, ge=1)
    """Most tokens of a description."""
    qwen3_vl_gpu_memory_utilization: float = Field(default=0.9, gt=0, le=1)
    """Share of the device's memory that a backend in process may take."""
    qwen3_vl_max_model_len: int = Field(default=8192, ge=1)
    """Tokens of prompt, picture and answer together, for a backend in process."""
    qwen3_vl_min_image_pixels: int = Field(default=128 * 128, ge=0)
    """Fewer pixels than this make an icon."""
    qwen3_vl_min_variance: float = Field(default=15.0, ge=0)
    """Least variance of the grey levels (0 to 255): drops plain colours."""
    qwen3_vl_min_nonwhite_ratio: float = Field(default=0.02, ge=0, le=1)
    """Least share of pixels darker than 250: drops empty pages."""
    qwen3_vl_min_edge_energy: float = Field(default=0.01, ge=0, le=1)
    """Least mean step between neighbouring pixels, 0 to 1: drops gradients and blurs."""
    qwen3_vl_dedupe_images: bool = True
    """Ask once for pictures that look the same, wherever they stand."""


class Measures(Record):
    """Measures of a picture, by which filters drop it and duplicates of it are found."""

    pixels: int
    """Number of pixels of the original, before it was scaled down."""
    variance: float
    nonwhite_ratio: float
    edge_energy: float
    pixel_hash: str
    """SHA-256 (hex) of size and RGB values: equal for equal pictures, however they are packed."""
    shape_hash: str
    """64 bits (hex) of the low frequencies: close for pictures that look alike."""


class FigureRecord(Record):
    """A figure of a document: its place, its measures, and its description or the reason why it has none."""

    document: str
    page: int | None
    bbox: BBox | None
    n: int
    """1-based order on its page, or in a document without pages."""
    source: Literal["raster", "vector"]
    image: Ref | None
    """The figure as a PNG; None where no picture could be drawn."""
    status: Status
    reason: str | None = None
    """Why it is not described; begins with the name of the setting that dropped it, if one did."""
    measures: Measures | None = None
    text: str | None = None
    """The text of the figure's chunk: `[PAGE n IMAGE m]` and the description."""
    response_key: str | None = None
    retryable: bool = False
    out_of_budget: bool = False
    """True when it was not asked about because the run's budget was spent."""
    original: Ref | None = None
    """PNG of the figure in another document that this one repeats; one description serves both."""


class DocumentFigures(Record):
    """The figures of one document, in reading order."""

    document: str
    figures: tuple[FigureRecord, ...]


class FigurePlan(Record):
    """The figures of a folder by outcome, and the model calls that a run would make, for `--dry-run`."""

    documents: int
    found: int
    kept: int
    dropped: dict[str, int]
    """Figures by the setting, or the problem, that dropped them."""
    duplicates: int
    answered: int
    """Kept figures whose description is in the response store."""
    expected_calls: int


def record_figure(
    candidate: ImageCandidate, *, document: str, image: Ref | None, settings: FigureSettings
) -> FigureRecord:
    """Record a picture as `kept`, or as `dropped` with the filter and the measured value."""
    measures = measure(candidate) if candidate.png else None
    reason = candidate.problem or (drop_reason(measures, settings) if measures else "the picture is empty")
    return FigureRecord(
        document=document,
        page=candidate.page,
        bbox=candidate.bbox,
        n=candidate.n,
        source=candidate.source,
        image=image,
        status="dropped" if reason else "kept",
        reason=reason,
        measures=measures,
    )


def measure(candidate: ImageCandidate) -> Measures:
    """Measure a picture's size, contrast, edges and perceptual hash."""
    picture = _open(candidate.png)
    grey = np.asarray(picture.convert("L"), dtype=np.float32)  # (height, width)
    thumbnail = picture.convert("L")
    thumbnail.thumbnail((MEASURED_SIDE_PX, MEASURED_SIDE_PX))
    small = np.asarray(thumbnail, dtype=np.float32)
    # the mean step to the right and down, 0 to 1
    steps = [np.abs(np.diff(small, axis=axis)).mean() for axis in (0, 1) if small.shape[axis] > 1]
    # as pHash does: the signs of the 8 × 8 lowest frequencies of the picture at 32 × 32, against their median
    side = 4 * HASH_SIDE
    tiny = np.asarray(picture.convert("L").resize((side, side)), dtype=np.float64)
    # rows of the discrete cosine transform (type II) for the lowest frequencies, (8, side)
    waves = np.cos(np.pi / side * np.outer(np.arange(HASH_SIDE), np.arange(side) + 0.5))
    low = (waves @ tiny @ waves.T).ravel()  # (64,)
    return Measures(
        pixels=candidate.width * candidate.height,
        variance=round(float(grey.var()), 4),
        nonwhite_ratio=round(float((grey < WHITE_FROM).mean()), 6),
        edge_energy=round(float(sum(steps)) / 255, 6),
        pixel_hash=hashlib.sha256(f"{picture.width}x{picture.height}".encode() + picture.tobytes()).hexdigest(),
        shape_hash=np.packbits(low > np.median(low)).tobytes().hex(),
    )


def drop_reason(measures: Measures, settings: FigureSettings) -> str | None:
    """Return the first filter that a picture does not pass, with the measured value; None if it passes all."""
    values = {
        "qwen3_vl_min_image_pixels": measures.pixels,
        "qwen3_vl_min_nonwhite_ratio": measures.nonwhite_ratio,
        "qwen3_vl_min_variance": measures.variance,
        "qwen3_vl_min_edge_energy": measures.edge_energy,
    }
    for name, value in values.items():
        least = getattr(settings, name)
        if value < least:
            return f"{name}: {value:.6g} is below {least:g}"
    return None


def mark_repeated(
    records: Sequence[FigureRecord], *, load: Callable[[Ref], bytes], settings: FigureSettings
) -> list[FigureRecord]:
    """Return the records in their order; if the settings say so, kept ones that look like another are `duplicate`.

    The first by document digest, page and number stays, so that the order of the documents does not matter.
    """
    if not settings.qwen3_vl_dedupe_images:
        return list(records)
    by_pixels: dict[str, FigureRecord] = {}
    originals: list[FigureRecord] = []
    hashes: list[int] = []

    def original_of(record: FigureRecord) -> FigureRecord | None:
        """Return the figure that `record` repeats; None where it repeats none, and is an original from now on."""
        assert record.image is not None
        assert record.measures is not None
        pixels, shape = record.measures.pixel_hash, int(record.measures.shape_hash, 16)
        if pixels in by_pixels:
            return by_pixels[pixels]
        distances = np.bitwise_count(np.array(hashes, dtype=np.uint64) ^ np.uint64(shape))
        for original in (originals[place] for place in np.flatnonzero(distances <= LIKELY_BITS)):
            assert original.image is not None
            if look_alike(load(original.image), load(record.image)):
                by_pixels[pixels] = original
                return original
        by_pixels[pixels] = record
        originals.append(record)
        hashes.append(shape)
        return None

    marked: dict[int, FigureRecord] = {}
    for place, record in sorted(
        enumerate(records), key=lambda numbered: (numbered[1].document, numbered[1].page or 0, numbered[1].n)
    ):
        if record.status == "kept" and (original := original_of(record)):
            reason = f"looks like document {original.document[:12]} {figure_label(original.page, original.n)}"
            elsewhere = original.image if original.document != record.document else None
            marked[place] = _updated(record, "duplicate", reason, original=elsewhere)
    return [marked.get(place, record) for place, record in enumerate(records)]


def look_alike(first: bytes, second: bytes) -> bool:
    """Return whether two pictures, PNG each, differ by scale and compression alone and not by as much as a digit."""
    from PIL import ImageFilter

    pictures = [_open(data).convert("L") for data in (first, second)]
    small, large = sorted(pictures, key=lambda picture: picture.width * picture.height)
    if abs(small.width * large.height - large.width * small.height) > 0.02 * small.width * large.height:
        return False  # their proportions differ by more than rounding of a size does
    # the blur levels out what scaling and compression change at edges
    levels = [
        np.asarray(picture.resize(small.size).filter(ImageFilter.BoxBlur(1)), dtype=np.int16)
        for picture in (small, large)
    ]
    return int(np.abs(levels[0] - levels[1]).max()) <= ALIKE_LEVELS


def figure_request(png: bytes, settings: FigureSettings) -> ChatRequest:
    """Return the request that asks a vision model to describe a picture."""
    content = (Text(text=PROMPT), Image(png=png))
    return ChatRequest(
        messages=(Message(role="user", content=content),), temperature=0.0, max_tokens=settings.qwen3_vl_max_tokens
    )


def describe(
    record: FigureRecord,
    png: bytes,
    *,
    chat: Chat | None,
    responses: ResponseStore,
    limits: Limits,
    settings: FigureSettings,
    budget: Budget | None = None,
) -> FigureRecord:
    """Return a kept record with its description, or the reason why it has none; other records come back unchanged.

    png: the record's image; for a duplicate of a figure in another document, that figure's, whose description it takes.
    Raises models.model_errors.ModelUnavailable.
    """
    repeats = record.status == "duplicate" and record.original is not None
    if record.status != "kept" and not repeats:
        return record
    if not settings.qwen3_vl_enabled:
        return record if repeats else _updated(record, "skipped", "qwen3_vl_enabled is off")
    if chat is None:
        return record if repeats else _updated(record, "skipped", NO_MODEL)
    try:
        answer = ask(chat, figure_request(png, settings), responses=responses, limits=limits, budget=budget)
    except BudgetSpent as error:
        return _updated(record, "skipped", str(error), out_of_budget=True)
    except (RequestRefused, TransientModelError) as error:
        return mark_failed(record, error)
    text = unicodedata.normalize("NFC", answer.response.text).strip()
    if not is_informative(text):
        return _updated(record, "uninformative", f"the model answered {text[:80]!r}", response_key=answer.key)
    status, reason = ("duplicate", record.reason) if repeats else ("described", None)
    return _updated(
        record, status, reason, text=f"{figure_label(record.page, record.n)}\n{text}", response_key=answer.key
    )


def mark_failed(record: FigureRecord, error: ModelError) -> FigureRecord:
    """Return a record as `failed`, with the error that the model gave in place of a description."""
    return _updated(record, "failed", str(error), retryable=isinstance(error, TransientModelError))


NO_MODEL = "no vision model is configured; name one with `--vlm`"


def plan_descriptions(records: Sequence[FigureRecord], *, documents: int, answered: Collection[str] = ()) -> FigurePlan:
    """Count the figures and the calls to describe them; answered: digests of PNGs whose description is stored."""
    to_describe = [record for record in records if record.status == "kept"]
    digests = {record.image.digest for record in to_describe if record.image}
    dropped = [record.reason or "" for record in records if record.status == "dropped"]
    return FigurePlan(
        documents=documents,
        found=len(records),
        kept=len(to_describe),
        dropped=dict(sorted(Counter(reason.partition(":")[0] for reason in dropped).items())),
        duplicates=sum(record.status == "duplicate" for record in records),
        answered=sum(record.image is not None and record.image.digest in answered for record in to_describe),
        expected_calls=len(digests - set(answered)),
    )


def _updated(record: FigureRecord, status: Status, reason: str | None, **more: Any) -> FigureRecord:
    return record.model_copy(update={"status": status, "reason": reason, **more})


def _open(png: bytes) -> Picture:
    import PIL.Image

    return PIL.Image.open(io.BytesIO(png)).convert("RGB")


PROMPT = (resources.files("tasks.rag") / "prompts" / "figure.txt").read_text("utf-8")
_PHRASES = tomllib.loads((resources.files("tasks.rag.indexing") / "figure_answers.toml").read_text("utf-8"))
_PLACEHOLDER, _LABEL, _EMBLEM = (re.compile(_PHRASES[name], re.I) for name in ("placeholder", "label", "emblem"))
_NOTHING = re.compile("|".join(_PHRASES["nothing"]), re.I)
EMBLEM_CHARS = 120
"""A shorter sentence that names an emblem is not informative."""


def is_informative(answer: str) -> bool:
    """Return whether a description says anything once its placeholders and empty phrases are taken out."""
    lines = [line.strip() for line in unicodedata.normalize("NFC", answer).splitlines()]
    rows = [line for line in lines if line.startswith("|")]
    rules = [place for place, row in enumerate(rows) if set(row) <= set("|-: ")]
    if rules:  # a line below a Markdown table's header: only what follows is data
        rows = [row for row in rows[rules[0] + 1 :] if not set(row) <= set("|-: ")]
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        if any(not _PLACEHOLDER.fullmatch(cell) for cell in cells[1:] or cells):  # the first column names the row
            return True
    texts = [line for line in lines if not line.startswith("|")]
    for sentence in (sentence for line in texts for sentence in re.split(r"(?<=[.!?。])\s+", line)):
        text = re.sub(r"\[?PAGE \d+ IMAGE \d+\]?|[*#`>_]|^[-•]\s+", " ", sentence).strip()
        text = _LABEL.sub(" ", text, count=1).strip(" .。:-")
        is_emblem = _EMBLEM.search(text) and len(text) < EMBLEM_CHARS
        if not (_PLACEHOLDER.fullmatch(text) or _NOTHING.search(text) or is_emblem):
            return True
    return False
