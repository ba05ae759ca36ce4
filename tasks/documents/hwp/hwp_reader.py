"""HWP 5 and HWP 3, read as the layout engine converts them to HWPX. Text, metadata and pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tasks.documents.archives import ZIP_MAGIC
from tasks.documents.blocks import BBox, ImageCandidate
from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import Reader, ReadOptions
from tasks.documents.hwp.hwp_assembly import make_hangul_reader
from tasks.documents.hwp.hwp_container import HwpContents, divide_contents, read_contents
from tasks.documents.hwp.hwp_engine import VERSION
from tasks.documents.hwp.hwp_layout import Part, convert_and_lay_out, draw_boxes
from tasks.documents.hwp.hwp_model import AnchoredText, HangulDocument, ListStyles, Paragraph, Section
from tasks.documents.hwp.hwpx_reader import decrypt_hwpx, divide_hwpx, find_pictures, read_hwpx
from tasks.documents.page_join import LayoutFailed


def open_hwp(path: Path, *, password: str | None, options: ReadOptions) -> Reader:
    """Read an HWP 5 or HWP 3 document as a whole. Raises DocumentError."""
    contents = read_contents(path, password)
    draws, parts = options.layout == "auto", divide_contents(contents.data)
    try:
        converted, laid = convert_and_lay_out(parts, draws=draws)
        document = read_converted(converted, contents)
    except LayoutFailed as error:
        document, laid = _read_text_alone(contents, str(error)), None
    return make_hangul_reader(
        document,
        laid if draws else None,
        format="hwp",
        reader=f"trivet hwp + rhwp {VERSION}",
        texts=contents.texts or None,
    )


def read_converted(converted: Sequence[tuple[bytes, Part]], contents: HwpContents) -> HangulDocument:
    """Return a converted document, with what the engine leaves out of it, before its conversion to blocks."""
    (hwpx, _), *later = converted
    document = read_hwpx(io.BytesIO(hwpx), numbers=contents.numbers, later=later)
    *sections, last = document.sections
    memos = [AnchoredText("note", (Paragraph((text,), None),)) for text in contents.memos]
    left_out = [Paragraph((text,), None) for text in contents.word_art] + [Paragraph(tuple(memos), None)]
    last = last._replace(paragraphs=(*last.paragraphs, *left_out))
    metadata = dict(contents.metadata)  # the engine names itself as the author
    title = metadata.pop("title", None)
    return document._replace(sections=(*sections, last), title=title, metadata=metadata, notes=contents.notes)


def _read_text_alone(contents: HwpContents, why: str) -> HangulDocument:
    """Return the paragraphs of a document that is not converted. Raises UnsupportedDocument for HWP 3."""
    if not contents.texts:
        raise UnsupportedDocument(
            f"The document is encrypted, damaged, or of a kind that is not read ({why}); open it in Hangul "
            "and save it as HWPX."
        )
    paragraphs = [Paragraph((text,), None) for text in contents.texts]
    shown = [paragraph for paragraph in paragraphs if paragraph.runs[0] not in contents.comments]
    hidden = [AnchoredText("hidden comment", (Paragraph((text,), None),)) for text in contents.comments]
    section = Section((*shown, Paragraph(tuple(hidden), None)), outline_id=0)
    notes = (*contents.notes, f"without tables and pages: {why}")
    return HangulDocument((section,), ListStyles({}, {}, {}, {}), None, dict(contents.metadata), notes)


def hwp_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures in the order of the text, then those that only styles use. Raises DocumentError."""
    try:
        first = next(divide_contents(read_contents(path, password).data))  # which has the pictures of all
        [(hwpx, _)], _ = convert_and_lay_out([first], draws=False)
    except LayoutFailed as error:
        raise UnsupportedDocument(f"The pictures cannot be read ({error}); save the document as HWPX.") from error
    yield from find_pictures(hwpx)


def render_pages(
    path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None
) -> Iterator[tuple[int, bytes]]:
    """Yield the 1-based number and the PNG of each existing page of `boxes`, of HWPX, too. Raises DocumentError."""
    data = path.read_bytes()
    is_zip = data.startswith(ZIP_MAGIC)
    data = decrypt_hwpx(data, password) if is_zip else read_contents(path, password).data
    return draw_boxes(divide_hwpx(data) if is_zip else divide_contents(data), boxes)
