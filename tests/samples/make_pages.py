"""Text, tables and pictures that flow down the pages of one PDF, with headers, footers and a table of contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pymupdf

NANUM = Path("/usr/share/fonts/truetype/nanum")
NANUM_FILES = {
    "ng": NANUM / "NanumGothic.ttf",
    "nb": NANUM / "NanumGothicBold.ttf",
    "nm": NANUM / "NanumMyeongjo.ttf",
    "nmb": NANUM / "NanumMyeongjoBold.ttf",
}
LEADING = 1.55
PADDING = 4.0
INK = (0.1, 0.1, 0.12)
GREY = (0.45, 0.45, 0.48)
SHADE = (0.9, 0.92, 0.95)
Color = tuple[float, float, float]
Ruling = Literal["grid", "rules", "none"]


@dataclass(frozen=True)
class Cell:
    """A table cell that is more than plain text; the positions that it covers hold None."""

    text: str
    rows: int = 1
    cols: int = 1
    bold: bool = False
    align: str | None = None
    fill: Color | None = None


Row = Sequence["str | Cell | None"]


@dataclass(frozen=True)
class Look:
    """Typeface and frame of a document; lengths in points."""

    body: str = "ng"
    bold: str = "nb"
    size: float = 10.0
    accent: Color = (0.12, 0.27, 0.5)
    margin_x: float = 68.0
    top: float = 78.0
    bottom: float = 70.0
    gutter: float = 22.0
    paper: tuple[float, float] = (595.0, 842.0)


@dataclass
class Sheet:
    """A PDF in the making; `y` is where the next thing goes in the current column."""

    title: str
    created: str
    """PDF date, fixed so that two runs give the same bytes: D:20240304090000+09'00'."""
    look: Look = field(default_factory=Look)
    header: str = ""
    footer: str = "- {page} -"
    logo: bytes | None = None
    covers: int = 0
    """Leading pages without header and footer."""

    def __post_init__(self) -> None:
        self.pdf: Any = pymupdf.open()
        self.pen: Any = None
        """The current page's drawing: one content stream, committed when the page is left."""
        self.entries: list[tuple[int, str, int]] = []
        self.contents_page: int | None = None
        self.column = 0
        self.columns = 1
        self.y = 0.0
        self.column_top = self.look.top
        self.new_page()

    # -- the frame

    @property
    def left(self) -> float:
        return self.look.margin_x + self.column * (self.width + self.look.gutter)

    @property
    def width(self) -> float:
        inner = self.look.paper[0] - 2 * self.look.margin_x
        return (inner - (self.columns - 1) * self.look.gutter) / self.columns

    @property
    def floor(self) -> float:
        return self.look.paper[1] - self.look.bottom

    def new_page(self) -> None:
        if self.pen:
            self.pen.commit()
        self.pen = self.pdf.new_page(width=self.look.paper[0], height=self.look.paper[1]).new_shape()
        self.column, self.column_top = 0, self.look.top
        self.y = self.column_top

    def advance(self) -> None:
        """Go to the next column, or to the next page after the last column."""
        if self.column + 1 < self.columns:
            self.column += 1
            self.y = self.column_top
        else:
            self.new_page()

    def set_columns(self, count: int) -> None:
        """From here down the page is set in `count` columns."""
        self.columns, self.column, self.column_top = count, 0, self.y

    def need(self, height: float) -> None:
        if self.y + height > self.floor:
            self.advance()

    def space(self, height: float) -> None:
        self.y += height

    # -- text

    def heading(self, text: str, level: int = 1) -> None:
        size = self.look.size * {1: 1.5, 2: 1.22, 3: 1.06}[level]
        lines = wrap(text, self.width, self.look.bold, size)
        self.need(size * LEADING * len(lines) + self.look.size * LEADING * 4)
        if self.y > self.column_top:
            self.space(size * (0.9 if level < 3 else 0.5))
        self.entries.append((level, text, self.pdf.page_count))
        color = self.look.accent if level == 1 else INK
        self._lines(lines, self.left, self.look.bold, size, color=color)
        if level == 1 and self.columns == 1:
            self._line(self.left, self.y, self.left + self.width, self.y, color=self.look.accent, width=1.2)
            self.space(5)
        self.space(3)

    def text(self, *paragraphs: str, size: float | None = None, align: str = "l", bold: bool = False) -> None:
        size = size or self.look.size
        font = self.look.bold if bold else self.look.body
        for paragraph in paragraphs:
            self._lines(wrap(paragraph, self.width, font, size), self.left, font, size, align=align)
            self.space(size * 0.45)

    def items(self, mark: str, *texts: str) -> None:
        """A list; a mark `1.` or `가.` counts on from item to item."""
        size, indent = self.look.size, 12.0
        for number, text in enumerate(texts):
            label = count_on(mark, number)
            hang = max(advance_width(label + " ", self.look.body, size), size * 1.1)
            lines = wrap(text, self.width - indent - hang, self.look.body, size)
            self.need(size * LEADING * min(2, len(lines)))
            self._draw(label, self.left + indent, self.y + size, self.look.body, size)
            self._lines(lines, self.left + indent + hang, self.look.body, size)
            self.space(size * 0.18)
        self.space(size * 0.3)

    def chapter(self, text: str) -> None:
        """A heading on top of a page of its own."""
        if self.y > self.column_top:
            self.new_page()
        self.heading(text)

    def centered(
        self, text: str, size: float, *, y: float | None = None, color: Color = INK, bold: bool = True
    ) -> None:
        if y is not None:
            self.y = y
        font = self.look.bold if bold else self.look.body
        self._lines(wrap(text, self.width, font, size), self.left, font, size, align="c", color=color)

    # -- tables

    def table(
        self,
        rows: Sequence[Row],
        widths: Sequence[float],
        *,
        align: str = "",
        head: int = 1,
        ruling: Ruling = "grid",
        caption: str = "",
        unit: str = "",
        size: float | None = None,
    ) -> None:
        """Rows that break over pages between groups of cells joined by row spans; the head is not repeated.

        widths: shares of the column width. align: one of l, c, r per column.
        A table of less than a quarter of a page is kept on one page.
        """
        grid = Grid(
            rows,
            [w * self.width / sum(widths) for w in widths],
            align,
            head,
            ruling,
            size or self.look.size * 0.9,
            self.look,
        )
        groups = grid.groups()
        captioned = self.look.size * LEADING * (bool(caption) + bool(unit))
        small = sum(grid.heights) < self.look.paper[1] / 4
        first = sum(sum(grid.heights[a:b]) for a, b in groups[: None if small else 2])
        self.need(captioned + first + 4)
        if caption:
            self.text(caption, bold=True, size=self.look.size * 0.95)
        if unit:
            self.text(unit, size=self.look.size * 0.8, align="r")
        self.space(1)
        self._rows(grid, groups)
        self.space(self.look.size * 0.9)

    def _rows(self, grid: Grid, groups: list[tuple[int, int]]) -> None:
        top = self.y
        for start, stop in groups:
            if self.y + sum(grid.heights[start:stop]) > self.floor:
                self._close_rules(grid, top)
                self.advance()
                top = self.y
            self._group(grid, start, stop)
        self._close_rules(grid, top)

    def _close_rules(self, grid: Grid, top: float) -> None:
        if grid.ruling == "rules":
            right = self.left + sum(grid.widths)
            self._line(self.left, top, right, top, width=1.1)
            self._line(self.left, self.y, right, self.y, width=1.1)

    def _group(self, grid: Grid, start: int, stop: int) -> None:
        for row in range(start, stop):
            for col, cell in grid.cells(row):
                box = grid.box(row, col, cell, self.left, self.y, start)
                if cell.fill:
                    fill(self.pen, box, cell.fill)
                if grid.ruling == "grid":
                    self.pen.draw_rect(box)
                    self.pen.finish(color=GREY, width=0.6)
        for row in range(start, stop):
            for col, cell in grid.cells(row):
                self._cell(grid, cell, col, grid.box(row, col, cell, self.left, self.y, start))
        self.y += sum(grid.heights[start:stop])
        if grid.ruling == "rules" and stop == grid.head:
            self._line(self.left, self.y, self.left + sum(grid.widths), self.y, width=0.6)

    def _cell(self, grid: Grid, cell: Cell, col: int, box: Any) -> None:
        font = self.look.bold if cell.bold else self.look.body
        lines = wrap(cell.text, box.width - 2 * PADDING, font, grid.size)
        y = box.y0 + (box.height - len(lines) * grid.size * 1.35) / 2 + grid.size * 1.08
        for line in lines:
            x = aligned(line, box.x0 + PADDING, box.width - 2 * PADDING, font, grid.size, cell.align or grid.align[col])
            self._draw(line, x, y, font, grid.size)
            y += grid.size * 1.35

    # -- pictures

    def picture(self, image: bytes, height: float, caption: str) -> None:
        """A raster image, scaled to `height` and centred, its caption below."""
        area = self.frame(height)
        self.pdf[-1].insert_image(area, stream=image, keep_proportion=True)
        self.text(caption, size=self.look.size * 0.9, align="c")
        self.space(6)

    def frame(self, height: float) -> Any:
        """Reserve a drawing area across the column and return its rectangle."""
        self.need(height + self.look.size * LEADING + 12)
        area = pymupdf.Rect(self.left, self.y, self.left + self.width, self.y + height)
        self.space(height + 5)
        return area

    # -- the end

    def contents(self, title: str) -> None:
        """Reserve this page for the table of contents, which is set when all headings are known."""
        self.contents_page = self.pdf.page_count
        self.contents_title = title
        self.new_page()

    def close(self) -> Any:
        """The finished PDF: contents, headers and footers set, fonts cut down to the glyphs in use."""
        self.pen.commit()
        self._set_contents()
        for number in range(self.covers, self.pdf.page_count):
            self._set_margins(number)
        self.pdf.set_metadata(fixed_metadata(self.title, self.created))
        self.pdf.subset_fonts()
        return self.pdf

    def save(self, path: Path) -> None:
        write_pdf(self.close(), path)

    def _set_contents(self) -> None:
        if self.contents_page is None:
            return
        pen, size, y = self.pdf[self.contents_page - 1].new_shape(), self.look.size, self.look.top
        left, right = self.look.margin_x, self.look.paper[0] - self.look.margin_x
        draw(pen, self.contents_title, left, y + 16, self.look.bold, size * 1.5, self.look.accent)
        y += 46
        for level, text, number in self.entries:
            if level > 2:
                continue
            font = self.look.bold if level == 1 else self.look.body
            x, label = left + 16 * (level - 1), str(number)
            end = right - advance_width(label, font, size)
            draw(pen, text, x, y, font, size)
            draw(pen, label, end, y, font, size)
            dot = advance_width(".", font, size)
            dots = max(0, int((end - x - advance_width(text, font, size) - 10) / dot))
            draw(pen, "." * dots, end - 5 - dots * dot, y, font, size, GREY)
            y += size * 1.75
        pen.commit()

    def _set_margins(self, index: int) -> None:
        pen, (width, height) = self.pdf[index].new_shape(), self.look.paper
        left, right, size = self.look.margin_x, width - self.look.margin_x, self.look.size * 0.8
        if self.logo:
            self.pdf[index].insert_image(pymupdf.Rect(right - 58, 30, right, 50), stream=self.logo)
        if self.header:
            draw(pen, self.header, left, 46, self.look.body, size, GREY)
        if self.header or self.logo:
            rule(pen, left, 54, right, 54, GREY, 0.5)
        label = self.footer.format(page=index + 1, pages=self.pdf.page_count)
        x = aligned(label, left, right - left, self.look.body, size, "c")
        draw(pen, label, x, height - 36, self.look.body, size, GREY)
        pen.commit()

    # -- drawing

    def _lines(
        self, lines: list[str], x: float, font: str, size: float, *, align: str = "l", color: Color = INK
    ) -> None:
        offset = x - self.left  # the column may change between two lines
        for line in lines:
            if self.y + size * LEADING > self.floor:
                self.advance()
            at = aligned(line, self.left + offset, self.width - offset, font, size, align)
            self._draw(line, at, self.y + size, font, size, color)
            self.y += size * LEADING

    def _draw(self, text: str, x: float, y: float, font: str, size: float, color: Color = INK) -> None:
        draw(self.pen, text, x, y, font, size, color)

    def _line(self, x0: float, y0: float, x1: float, y1: float, *, color: Color = INK, width: float = 0.6) -> None:
        rule(self.pen, x0, y0, x1, y1, color, width)


class Grid:
    """A table measured for its column widths."""

    def __init__(
        self, rows: Sequence[Row], widths: list[float], align: str, head: int, ruling: Ruling, size: float, look: Look
    ) -> None:
        self.widths, self.head, self.ruling, self.size, self.look = widths, head, ruling, size, look
        self.align = align or "l" * len(widths)
        for row in rows:
            assert len(row) == len(widths), f"{len(row)} cells for {len(widths)} columns: {row}"
        self._cells = [[self._as_cell(cell, r < head) for cell in row] for r, row in enumerate(rows)]
        self.heights = self._heights()

    def _as_cell(self, cell: str | Cell | None, head: bool) -> Cell | None:
        if cell is None:
            return None
        cell = cell if isinstance(cell, Cell) else Cell(cell)
        if not head:
            return cell
        shade = SHADE if self.ruling == "grid" else None
        return Cell(cell.text, cell.rows, cell.cols, bold=True, align=cell.align or "c", fill=shade)

    def cells(self, row: int) -> list[tuple[int, Cell]]:
        return [(col, cell) for col, cell in enumerate(self._cells[row]) if cell]

    def _tall(self, col: int, cell: Cell) -> float:
        font = self.look.bold if cell.bold else self.look.body
        inner = sum(self.widths[col : col + cell.cols]) - 2 * PADDING
        air = 7.0 if self.ruling == "grid" else 4.0
        return len(wrap(cell.text, inner, font, self.size)) * self.size * 1.35 + air

    def _heights(self) -> list[float]:
        heights = [0.0] * len(self._cells)
        for span in range(1, len(self._cells) + 1):
            for row in range(len(self._cells)):
                for col, cell in self.cells(row):
                    if cell.rows == span:
                        missing = self._tall(col, cell) - sum(heights[row : row + span])
                        heights[row + span - 1] += max(0.0, missing)
        return heights

    def groups(self) -> list[tuple[int, int]]:
        """Row ranges that must not be torn apart."""
        groups: list[tuple[int, int]] = []
        start = 0
        while start < len(self._cells):
            stop = max(start + 1, self.head if start < self.head else 0)
            row = start
            while row < stop:
                stop = max([stop, *(row + cell.rows for _, cell in self.cells(row))])
                row += 1
            groups.append((start, stop))
            start = stop
        return groups

    def box(self, row: int, col: int, cell: Cell, x: float, y: float, start: int) -> Any:
        x0, y0 = x + sum(self.widths[:col]), y + sum(self.heights[start:row])
        width = sum(self.widths[col : col + cell.cols])
        return pymupdf.Rect(x0, y0, x0 + width, y0 + sum(self.heights[row : row + cell.rows]))


@cache
def measure(font: str) -> Any:
    file = NANUM_FILES.get(font)
    return pymupdf.Font(fontfile=str(file)) if file else pymupdf.Font(font)


@cache
def char_width(char: str, font: str) -> float:
    assert measure(font).has_glyph(ord(char)), f"{font} has no glyph for {char!r}"
    return measure(font).glyph_advance(ord(char))


def advance_width(text: str, font: str, size: float) -> float:
    return sum(char_width(char, font) for char in text) * size


def wrap(text: str, width: float, font: str, size: float) -> list[str]:
    """Lines no wider than `width`: broken between words, and inside a word that is wider than a line."""
    lines: list[str] = []
    for paragraph in text.split("\n"):
        line = ""
        for word in paragraph.split(" "):
            joined = f"{line} {word}" if line else word
            if advance_width(joined, font, size) <= width:
                line = joined
                continue
            if line:
                lines.append(line)
            while advance_width(word, font, size) > width:
                fit = next(n for n in range(len(word), 0, -1) if n == 1 or advance_width(word[:n], font, size) <= width)
                lines.append(word[:fit])
                word = word[fit:]
            line = word
        lines.append(line)
    return lines


def aligned(line: str, x: float, width: float, font: str, size: float, align: str) -> float:
    slack = width - advance_width(line, font, size)
    return x + {"l": 0.0, "c": slack / 2, "r": slack}[align]


def count_on(mark: str, number: int) -> str:
    """The mark `number` items after `mark`: 1. 2. 3., 가. 나. 다., ① ② ③; other marks stay."""
    if mark[0].isdigit() and mark[0].isascii():
        digits = mark.rstrip(".)")
        return f"{int(digits) + number}{mark[len(digits) :]}"
    if mark[0] == "가":
        return "가나다라마바사아자차카타파하"[number] + mark[1:]
    if mark[0] == "①":
        return chr(ord("①") + number)
    if mark in ("a)", "(a)"):
        return mark.replace("a", chr(ord("a") + number))
    return mark


def draw(pen: Any, text: str, x: float, y: float, font: str, size: float, color: Color = INK) -> None:
    if text:
        file = NANUM_FILES.get(font)
        pen.insert_text((x, y), text, fontname=font, fontfile=str(file) if file else None, fontsize=size, color=color)


def rule(pen: Any, x0: float, y0: float, x1: float, y1: float, color: Color = INK, width: float = 0.6) -> None:
    pen.draw_line((x0, y0), (x1, y1))
    pen.finish(color=color, width=width)


def fill(pen: Any, box: Any, color: Color) -> None:
    pen.draw_rect(box)
    pen.finish(color=None, fill=color, width=0)


def fixed_metadata(title: str, created: str) -> dict[str, str]:
    return {"title": title, "author": "", "creator": "", "producer": "", "creationDate": created, "modDate": created}


def write_pdf(pdf: Any, path: Path) -> None:
    """Save without a random file id, so that two runs write the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pdf.save(path, garbage=4, deflate=True, deflate_fonts=True, deflate_images=True, no_new_id=True)
