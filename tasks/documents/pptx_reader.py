"""Reads PowerPoint presentations (PPTX, PPTM, PPSX): a page for each slide, with the places of its shapes.

Text, tables, the data of charts and the texts of diagrams become blocks; speaker notes stand behind their slide. Slides
and shapes that are not shown are kept as hidden text. Macros never run, and nothing outside the file is fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tasks.documents.archives import Package, parse_xml
from tasks.documents.blocks import BBox, Cell, ImageCandidate, Kind, Page, PageStatus
from tasks.documents.document_errors import CorruptDocument, DocumentError, shorten
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_page, read_whole
from tasks.documents.embedded_images import EXTERNAL_IMAGE, EmbeddedImage, make_candidates
from tasks.documents.marks import shift_signs
from tasks.documents.office_package import list_unread, local_name, read_chart, read_title, refuse_encrypted
from tasks.documents.visibility import BLACK, NO_INK, WHITE, Color, explain_unseen, read_color

READER = "trivet pptx 1"
EMU = 12_700
"""English metric units in a point."""
DIAGRAM = "http://schemas.openxmlformats.org/drawingml/2006/diagram"
DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
FILLS = tuple(f"{DRAWING}{name}Fill" for name in ("solid", "grad", "blip", "patt"))
SCHEME = {"bg1": WHITE, "tx1": BLACK}
"""Colours of a light template."""
RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


class PlacedShape(NamedTuple):
    """A shape outside any group, with its box on the slide in points; None where the file gives no place."""

    shape: Any
    bbox: BBox | None
    is_hidden: bool = False
    """Switched off, alone or with its group."""
    is_covered: bool = False
    """Under another shape."""

    def covers(self) -> bool:
        """Return whether nothing that it stands before is seen: an upright rectangle in one colour that covers."""
        form, fill = self.shape.element.find("{*}spPr/{*}prstGeom"), _find_fill(self.shape.element)
        is_plain = form is not None and form.get("prst") == "rect" and fill is not None and not self.is_hidden
        return is_plain and not self.is_turned() and _find_color(fill) not in (None, NO_INK)

    def is_turned(self) -> bool:
        return next(self.shape.element.iter(f"{DRAWING}xfrm"), {}).get("rot", "0") != "0"

    def is_under(self, cover: BBox) -> bool:
        """Return whether all of it lies in a cover's box: what is turned, or runs out of its own, may not."""
        if not self.bbox or self.is_turned():
            return False
        (left, top, right, bottom), (x0, y0, x1, y1) = self.bbox, cover
        if not (x0 <= left and y0 <= top and right <= x1 and bottom <= y1):
            return False
        text = "".join(node.text or "" for node in self.shape.element.iter(f"{DRAWING}t"))
        size = max((int(node.get("sz", "1800")) / 100 for node in self.shape.element.iter(f"{DRAWING}rPr")), default=18)
        wraps = all(node.get("wrap") != "none" for node in self.shape.element.iter(f"{DRAWING}bodyPr"))
        # a letter is some .6 of its size wide
        length, width = 0.6 * size * len(text), right - left
        return length * size <= width * (bottom - top) and (wraps or length <= width)

    def explain_unseen(self, size: tuple[float, float]) -> str | None:
        """Return why the shape is not seen on a slide of a size; None if it is."""
        if self.is_hidden:
            return "hidden shape"
        if self.is_covered:
            return "under a shape"
        left, top, right, bottom = self.bbox or (0, 0, *size)
        return "off the slide" if right <= 0 or bottom <= 0 or left >= size[0] or top >= size[1] else None


def open_pptx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a presentation as a whole, with a page for each slide, an error for a damaged one. Raises DocumentError."""
    refuse_encrypted(path, password, program="PowerPoint")
    with Package(path) as package:  # refuses zip bombs before python-pptx unpacks anything
        title = read_title(package)
        films = [name for name in package.names if name.endswith((".mp4", ".mp3", ".wav", ".m4a"))]
        counts = {
            "Slides with comments, which were not read": sum(n.startswith("ppt/comments/") for n in package.names),
            "Sound and film were not read": sum(name.startswith("ppt/media/") for name in films),
        }
        notes = list_unread(package, "presentation", counts)
    presentation = _open_presentation(path)
    width, height = (round((side or 0) / EMU, 2) for side in (presentation.slide_width, presentation.slide_height))
    blocks, pages = BlockList(), list[Page]()
    for number, slide in enumerate(presentation.slides, start=1):
        before, drawn = len(blocks), BlockList()
        is_shown = slide.element.get("show") not in ("0", "false")  # python-pptx has no property for it
        try:
            _add_slide(blocks if is_shown else drawn, slide, number, size=(width, height))
        except Exception as error:  # noqa: BLE001 python-pptx raises what it likes for what no program writes
            reason = f"the slide is damaged ({type(error).__name__}: {shorten(error)})"
            pages.append(Page(number=number, status=PageStatus.ERROR, reason=reason, width=width, height=height))
            continue
        blocks.hide_blocks(drawn, "hidden slide")
        if_empty = "blank slide" if is_shown else "the slide is hidden"
        pages.append(make_page(number, list(blocks)[before:], if_empty=if_empty, width=width, height=height))
    if not pages:
        raise CorruptDocument("The presentation holds no slides; save it again in PowerPoint.")
    shown = blocks.keep_hidden(pages)
    return read_whole(shown, format="pptx", reader=READER, title=title, notes=tuple(notes))


def pptx_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures of all slides, with page and box. Raises DocumentError."""
    refuse_encrypted(path, password, program="PowerPoint")
    Package(path).__exit__()  # refuses zip bombs before python-pptx unpacks anything

    def embedded(shape: Any) -> EmbeddedImage:
        """Return the image of a picture shape; one that is linked or missing has a reason and no bytes."""
        blip = shape.element.blipFill.blip if shape.element.blipFill is not None else None
        if blip is None or not blip.rEmbed:
            return EXTERNAL_IMAGE  # a linked picture lies outside the file
        try:
            return EmbeddedImage(shape.part.related_part(blip.rEmbed).blob)
        except KeyError:
            return EmbeddedImage(b"", "the part of the image is missing from the document")

    for number, slide in enumerate(_open_presentation(path).slides, start=1):
        pictures = [entry for entry in _place_shapes(slide.shapes) if _is_picture(entry.shape)]
        images = make_candidates(embedded(picture.shape) for picture in pictures)
        for picture, candidate in zip(pictures, images, strict=True):
            yield candidate.model_copy(update={"page": number, "bbox": picture.bbox})


def _open_presentation(path: Path) -> Any:
    """Return python-pptx's presentation, a slide show too. Raises CorruptDocument where it cannot be opened."""
    from pptx.package import Package as Presentation  # `pptx.Presentation` refuses slide shows (.ppsx)

    try:
        return Presentation.open(str(path)).main_document_part.presentation
    except DocumentError:
        raise
    except Exception as error:  # KeyError, AttributeError, XMLSyntaxError …: whatever is missing
        why = f"{type(error).__name__}: {shorten(error)}"
        raise CorruptDocument(f"The presentation cannot be opened ({why}).") from error


def _add_slide(blocks: BlockList, slide: Any, number: int, *, size: tuple[float, float]) -> None:
    """Add what a slide shows to the blocks, and the rest to their hidden texts."""
    for text, reason in _take_unseen_runs(slide):
        blocks.hide(text, reason, page=number)
    title, shapes = slide.shapes.title, list(_place_shapes(slide.shapes))
    if slide.element.find("{*}timing") is None:  # what is animated may come and go
        covers = [(n, entry.bbox) for n, entry in enumerate(shapes) if entry.bbox and entry.covers()]
        shapes = [
            entry._replace(is_covered=any(n < later and entry.is_under(cover) for later, cover in covers))
            for n, entry in enumerate(shapes)
        ]
    heading = next((entry for entry in shapes if title is not None and entry.shape.shape_id == title.shape_id), None)
    if title is not None and heading and title.has_text_frame and not heading.explain_unseen(size):
        text = " ".join(_frame_text(title.text_frame).split())
        blocks.add("heading", text, level=1, page=number, bbox=heading.bbox)
        shapes.remove(heading)
    # the file lists shapes as they were drawn; people read from the top left
    for entry in sorted(shapes, key=lambda entry: (entry.bbox is None, entry.bbox and (entry.bbox[1], entry.bbox[0]))):
        reason = entry.explain_unseen(size)
        unseen = BlockList()
        _add_shape(unseen if reason else blocks, entry.shape, entry.bbox, number)
        blocks.hide_blocks(unseen, reason or "")
    if slide.has_notes_slide and (frame := slide.notes_slide.notes_text_frame) is not None:
        blocks.add("note", _frame_text(frame), page=number)


def _take_unseen_runs(slide: Any) -> Iterator[tuple[str, str]]:
    """Remove from a slide the runs whose letters nobody sees, and yield the text of each with the reason."""
    trees = (slide.element, slide.slide_layout.element, slide.slide_layout.slide_master.element)
    background = next((bg for tree in trees if (bg := tree.find("{*}cSld/{*}bg")) is not None), None)
    colors = trees[-1].find("{*}clrMap")
    # a dark template or slide has its colours the other way round
    is_light = colors is None or colors.get("bg1") == "lt1"
    is_light = is_light and slide.element.find("{*}clrMapOvr/{*}overrideClrMapping") is None
    paper = (WHITE if background is None else _find_color(background)) if is_light else None
    # what is drawn on a slide may lie behind letters, so those on bare paper are judged only
    for node in (node for tree in trees for node in tree.iter() if isinstance(node.tag, str)):  # comments have no name
        name = local_name(node.tag)
        is_filled = name in ("spPr", "grpSpPr") and any(child.tag in FILLS for child in node)
        if is_filled or name in ("pic", "graphicFrame") or (name == "fillRef" and node.get("idx") != "0"):
            paper = None
    for run in list(slide.element.iter(f"{DRAWING}r")):
        look, text = run.find(f"{DRAWING}rPr"), run.findtext(f"{DRAWING}t") or ""
        if look is None or not text.strip():
            continue
        fill = look.find(f"{DRAWING}solidFill")
        # a cell or a shape with a colour of its own is the ground of its letters
        fills = (around_it for around_it in map(_find_fill, run.iterancestors()) if around_it is not None)
        around = next((around_it for around_it in fills if _find_color(around_it) != NO_INK), None)
        ground = paper if around is None else _find_color(around) if is_light else None
        # letters with an outline, a shadow or a mark of their own are told from any ground
        ground = None if any(local_name(node.tag) in ("highlight", "ln", "effectLst") for node in look) else ground
        ink = NO_INK if look.find(f"{DRAWING}noFill") is not None else None if fill is None else _find_color(fill)
        if reason := explain_unseen(ink=ink, ground=ground, size_pt=int(look.get("sz", "1800")) / 100):
            run.getparent().remove(run)
            yield text, reason


def _find_fill(node: Any) -> Any:
    """Return the plain fill of a shape or of a cell of a table; None where it has none."""
    return node.find("{*}tcPr/{*}solidFill" if local_name(node.tag) == "tc" else "{*}spPr/{*}solidFill")


def _find_color(node: Any) -> Color | None:
    """Return the first colour below a node, NO_INK for a transparent one; None if it is shaded or there is none."""
    color = next(node.iter(f"{DRAWING}srgbClr", f"{DRAWING}schemeClr"), None)
    if color is not None and color.find("{*}alpha[@val='0']") is not None:
        return NO_INK
    value = "" if color is None or len(color) else color.get("val", "")
    return SCHEME.get(value) or read_color(value)


def _place_shapes(
    shapes: Any, frame: tuple[float, float, float, float] = (1, 1, 0, 0), *, is_hidden: bool = False
) -> Iterator[PlacedShape]:
    """Yield the shapes in the order in which they are drawn, members of a group in place of the group.

    frame: x on the slide is x in the group, times the first number, plus the third; y by the others.
    """
    from pptx.enum.shapes import MSO_SHAPE_TYPE

    across, down, from_left, from_top = frame
    for shape in shapes:
        named = shape.element.find("./*/{*}cNvPr")
        unseen = is_hidden or (named is not None and named.get("hidden") in ("1", "true"))
        left, top = (shape.left or 0) * across + from_left, (shape.top or 0) * down + from_top
        width, height = (shape.width or 0) * across, (shape.height or 0) * down
        if shape.shape_type == MSO_SHAPE_TYPE.GROUP:
            inner = shape.element.grpSpPr.find("{*}xfrm")
            offset, extent = (None, None) if inner is None else (inner.find("{*}chOff"), inner.find("{*}chExt"))
            within = frame
            if offset is not None and extent is not None:
                wider, higher = width / (int(extent.get("cx")) or 1), height / (int(extent.get("cy")) or 1)
                within = (wider, higher, left - int(offset.get("x")) * wider, top - int(offset.get("y")) * higher)
            yield from _place_shapes(shape.shapes, within, is_hidden=unseen)
            continue
        box = None
        if shape.left is not None and shape.width is not None:
            x0, y0, x1, y1 = (round(edge / EMU, 2) for edge in (left, top, left + width, top + height))
            box = x0, y0, x1, y1
        yield PlacedShape(shape, box, unseen)


def _add_shape(blocks: BlockList, shape: Any, box: BBox | None, number: int) -> None:
    """Add a shape of page `number`: its text, its table, its chart as a table, or the description of its picture."""
    if _is_picture(shape):
        blocks.add(
            "figure", shape.element.nvPicPr.cNvPr.get("descr", "").replace("\v", "\n").strip(), page=number, bbox=box
        )
    elif shape.has_text_frame:
        _add_text(blocks, shape, box, number)
    elif getattr(shape, "has_table", False):
        blocks.add("table", "", cells=_cells(shape.table), page=number, bbox=box)
    elif getattr(shape, "has_chart", False):
        if shape.chart.has_title and shape.chart.chart_title.has_text_frame:
            blocks.add("caption", _frame_text(shape.chart.chart_title.text_frame), page=number, bbox=box)
        rows = enumerate(read_chart(shape.chart._chartSpace))
        cells = [Cell(row=n, col=col, text=text, header=n == 0) for n, row in rows for col, text in enumerate(row)]
        blocks.add("table", "", cells=cells, page=number, bbox=box)
    else:
        # the texts of a diagram (SmartArt) stand in a part of their own
        references = next(shape.element.iter(f"{{{DIAGRAM}}}relIds"), None)
        related = None if references is None else references.get(f"{{{RELATIONSHIPS}}}dm")
        part = shape.part.related_part(related) if related else None
        nodes = parse_xml(part.blob, name=str(part.partname)).iter() if part else ()
        for point in (node for node in nodes if local_name(node.tag) == "pt"):
            text = "".join(node.text or "" for node in point.iter() if local_name(node.tag) == "t")
            blocks.add("list", text, level=1, page=number, bbox=box)


def _add_text(blocks: BlockList, shape: Any, box: BBox | None, number: int) -> None:
    """Add the paragraphs of a shape that are not blank; several of a body placeholder are items of a list.

    The text of a footer, a date or a slide number is one footer block.
    """
    from pptx.enum.shapes import PP_PLACEHOLDER as HOLDS

    placeholder = shape.placeholder_format.type if shape.is_placeholder else None
    if placeholder in (HOLDS.SLIDE_NUMBER, HOLDS.DATE, HOLDS.FOOTER):
        blocks.add("footer", _frame_text(shape.text_frame), page=number, bbox=box)
        return
    paragraphs = [paragraph for paragraph in shape.text_frame.paragraphs if paragraph.text.strip()]
    is_list = placeholder in (HOLDS.BODY, HOLDS.OBJECT, HOLDS.VERTICAL_BODY) and len(paragraphs) > 1
    for paragraph in paragraphs:
        kind: Kind = "list" if is_list else "paragraph"
        level = paragraph.level + 1 if is_list else None
        blocks.add(kind, _paragraph_text(paragraph), level=level, page=number, bbox=box)


def _frame_text(frame: Any) -> str:
    return "\n".join(map(_paragraph_text, frame.paragraphs)).strip()


def _paragraph_text(paragraph: Any) -> str:
    """Return the text of a paragraph, with its raised and lowered runs as such."""
    text = ""
    for node in paragraph._p:  # python-pptx gives runs without fields and line breaks
        match local_name(node.tag):
            case "r" | "fld":
                run, properties = node.findtext("{*}t") or "", node.find("{*}rPr")
                place = "0" if properties is None else properties.get("baseline", "0")  # in percent of the size
                text += shift_signs(run, float(place.rstrip("%")), before=text)
            case "br":
                text += "\n"
            case _:
                pass
    return text.replace("\v", "\n").strip()  # a line break is a vertical tab


def _cells(table: Any) -> Sequence[Cell]:
    """Return the cells of a table; a merged cell is listed once."""
    return [
        Cell(
            row=row,
            col=col,
            text=_frame_text(cell.text_frame),
            row_span=cell.span_height if cell.is_merge_origin else 1,
            col_span=cell.span_width if cell.is_merge_origin else 1,
            header=bool(table.first_row) and row == 0,
        )
        for row, line in enumerate(table.rows)
        for col, cell in enumerate(line.cells)
        if not cell.is_spanned
    ]


def _is_picture(shape: Any) -> bool:
    return shape.element.tag.endswith("}pic")
