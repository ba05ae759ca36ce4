"""Charts drawn as vectors onto a page, charts and logos as PNG images, and pages turned into scans."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymupdf
from make_pages import GREY, INK, NANUM_FILES, Color, Sheet, aligned, draw, fill, fixed_metadata, rule
from PIL import Image, ImageDraw, ImageFont

PALETTE: tuple[Color, ...] = ((0.16, 0.36, 0.62), (0.85, 0.48, 0.18), (0.3, 0.58, 0.36), (0.6, 0.6, 0.63))
Series = dict[str, Sequence[float]]


def vector_bars(
    sheet: Sheet, title: str, labels: Sequence[str], series: Series, *, unit: str, height: float = 190
) -> None:
    """Grouped bars with a title, a legend and the value above each bar."""
    area = sheet.frame(height)
    plot = _axes(sheet, area, title, list(series), unit)
    peak = max(max(values) for values in series.values()) * 1.15
    slot = plot.width / len(labels)
    bar = slot * 0.7 / len(series)
    for i, label in enumerate(labels):
        _label(sheet, label, plot.x0 + i * slot, plot.y1 + 11, slot)
        for k, values in enumerate(series.values()):
            x = plot.x0 + i * slot + slot * 0.15 + k * bar
            top = plot.y1 - plot.height * values[i] / peak
            fill(sheet.pen, pymupdf.Rect(x, top, x + bar * 0.9, plot.y1), PALETTE[k])
            _label(sheet, f"{values[i]:,g}", x, top - 3, bar * 0.9)


def vector_lines(
    sheet: Sheet, title: str, labels: Sequence[str], series: Series, *, unit: str, height: float = 190
) -> None:
    """One line per series with dots at the values."""
    area = sheet.frame(height)
    plot = _axes(sheet, area, title, list(series), unit)
    peak = max(max(values) for values in series.values()) * 1.15
    slot = plot.width / len(labels)
    for i, label in enumerate(labels):
        _label(sheet, label, plot.x0 + i * slot, plot.y1 + 11, slot)
    for k, values in enumerate(series.values()):
        points = [(plot.x0 + (i + 0.5) * slot, plot.y1 - plot.height * v / peak) for i, v in enumerate(values)]
        sheet.pen.draw_polyline(points)
        sheet.pen.finish(color=PALETTE[k], width=1.6, closePath=False)
        for (x, y), value in zip(points, values, strict=True):
            sheet.pen.draw_circle((x, y), 2.2)
            sheet.pen.finish(color=PALETTE[k], fill=PALETTE[k])
            _label(sheet, f"{value:,g}", x - slot / 2, y - 5, slot)


def vector_pie(sheet: Sheet, title: str, shares: dict[str, float], *, unit: str, height: float = 170) -> None:
    """A pie with its legend at the right."""
    area = sheet.frame(height)
    look, total = sheet.look, sum(shares.values())
    draw(sheet.pen, title, area.x0, area.y0 + 12, look.bold, look.size)
    center = pymupdf.Point(area.x0 + area.width * 0.3, area.y0 + 22 + (height - 26) / 2)
    radius = (height - 36) / 2
    start = pymupdf.Point(center.x, center.y - radius)
    for k, (name, value) in enumerate(shares.items()):
        start = sheet.pen.draw_sector(center, start, -360 * value / total)
        sheet.pen.finish(color=None, fill=PALETTE[k])
        y = area.y0 + 48 + k * 20
        fill(
            sheet.pen,
            pymupdf.Rect(area.x0 + area.width * 0.6, y - 8, area.x0 + area.width * 0.6 + 9, y + 1),
            PALETTE[k],
        )
        draw(sheet.pen, f"{name} {value:,g}{unit}", area.x0 + area.width * 0.6 + 15, y, look.body, look.size * 0.9)


def boxes(sheet: Sheet, rows: Sequence[Sequence[str]], *, height: float = 150) -> None:
    """A block diagram: each row of boxes stands above the next, joined by arrows."""
    area = sheet.frame(height)
    tall, size = height / (len(rows) * 1.5 - 0.5), sheet.look.size * 0.88
    for r, row in enumerate(rows):
        wide, y = area.width / len(row), area.y0 + r * tall * 1.5
        for c, text in enumerate(row):
            box = pymupdf.Rect(area.x0 + c * wide + 8, y, area.x0 + (c + 1) * wide - 8, y + tall)
            sheet.pen.draw_rect(box)
            sheet.pen.finish(color=PALETTE[0], fill=(0.93, 0.95, 0.98), width=0.9)
            x = aligned(text, box.x0, box.width, sheet.look.body, size, "c")
            draw(sheet.pen, text, x, y + tall / 2 + size * 0.35, sheet.look.body, size)
        if r + 1 < len(rows):
            middle = area.x0 + area.width / 2
            rule(sheet.pen, middle, y + tall + 2, middle, y + tall * 1.5 - 5, PALETTE[0], 1.2)
            tip = y + tall * 1.5 - 2
            sheet.pen.draw_polyline([(middle - 4, tip - 5), (middle + 4, tip - 5), (middle, tip)])
            sheet.pen.finish(color=None, fill=PALETTE[0])


def _axes(sheet: Sheet, area: Any, title: str, names: list[str], unit: str) -> Any:
    look = sheet.look
    draw(sheet.pen, title, area.x0, area.y0 + 12, look.bold, look.size)
    draw(sheet.pen, unit, area.x0, area.y0 + 27, look.body, look.size * 0.75, GREY)
    x = area.x1
    for k, name in reversed(list(enumerate(names))):
        x -= sum(1 for _ in name) * look.size * 0.8 + 20
        fill(sheet.pen, pymupdf.Rect(x, area.y0 + 20, x + 8, area.y0 + 28), PALETTE[k])
        draw(sheet.pen, name, x + 11, area.y0 + 27, look.body, look.size * 0.78)
    plot = pymupdf.Rect(area.x0 + 6, area.y0 + 40, area.x1 - 6, area.y1 - 18)
    for step in range(5):
        y = plot.y1 - plot.height * step / 4
        rule(sheet.pen, plot.x0, y, plot.x1, y, (0.85, 0.85, 0.87), 0.4)
    rule(sheet.pen, plot.x0, plot.y1, plot.x1, plot.y1, INK, 0.8)
    return plot


def _label(sheet: Sheet, text: str, x: float, y: float, width: float) -> None:
    size = sheet.look.size * 0.74
    draw(sheet.pen, text, aligned(text, x, width, sheet.look.body, size, "c"), y, sheet.look.body, size)


def raster_bars(title: str, labels: Sequence[str], values: Sequence[float], *, unit: str, source: str = "") -> bytes:
    """A bar chart as a PNG of 900 × 520 pixels: its text exists only as pixels."""
    image, pen = _canvas(900, 520)
    pen.text((450, 34), title, font=_font(28, bold=True), fill="#1b2a41", anchor="mm")
    pen.text((70, 80), unit, font=_font(18), fill="#555555", anchor="lm")
    for step in range(6):
        y = 440 - step * 64
        pen.line((70, y, 860, y), fill="#dddddd", width=1)
        pen.text((62, y), f"{max(values) * 1.15 * step / 5:,.0f}", font=_font(16), fill="#555555", anchor="rm")
    slot = 790 / len(labels)
    for i, (label, value) in enumerate(zip(labels, values, strict=True)):
        x, top = 70 + i * slot, 440 - 320 * value / (max(values) * 1.15)
        pen.rectangle((x + slot * 0.2, top, x + slot * 0.8, 440), fill="#2f6690")
        pen.text((x + slot / 2, top - 14), f"{value:,g}", font=_font(18), fill="#1b2a41", anchor="mm")
        pen.text((x + slot / 2, 462), label, font=_font(18), fill="#1b2a41", anchor="mm")
    pen.line((70, 440, 860, 440), fill="#1b2a41", width=2)
    pen.text((860, 500), source, font=_font(15), fill="#777777", anchor="rm")
    return _png(image)


def raster_lines(title: str, labels: Sequence[str], series: Series, *, unit: str) -> bytes:
    """A line chart as a PNG of 900 × 520 pixels."""
    image, pen = _canvas(900, 520)
    pen.text((450, 34), title, font=_font(28, bold=True), fill="#1b2a41", anchor="mm")
    pen.text((70, 80), unit, font=_font(18), fill="#555555", anchor="lm")
    peak, slot = max(max(v) for v in series.values()) * 1.15, 790 / len(labels)
    for step in range(6):
        pen.line((70, 440 - step * 64, 860, 440 - step * 64), fill="#dddddd", width=1)
    for i, label in enumerate(labels):
        pen.text((70 + (i + 0.5) * slot, 462), label, font=_font(18), fill="#1b2a41", anchor="mm")
    for (name, values), color in zip(series.items(), ("#2f6690", "#d97b29", "#4c9a5a"), strict=False):
        points = [(70 + (i + 0.5) * slot, 440 - 320 * v / peak) for i, v in enumerate(values)]
        pen.line(points, fill=color, width=4)
        for (x, y), value in zip(points, values, strict=True):
            pen.ellipse((x - 6, y - 6, x + 6, y + 6), fill=color)
            pen.text((x, y - 18), f"{value:,g}", font=_font(17), fill=color, anchor="mm")
        offset = 180 * list(series).index(name)
        pen.rectangle((500 + offset, 72, 516 + offset, 88), fill=color)
        pen.text((524 + offset, 80), name, font=_font(18), fill="#333333", anchor="lm")
    return _png(image)


def logo(text: str, color: str) -> bytes:
    """A small emblem with a name beside it, 232 × 80 pixels."""
    image, pen = _canvas(232, 80)
    pen.ellipse((6, 10, 66, 70), fill=color)
    pen.pieslice((18, 22, 54, 58), 200, 380, fill="white")
    pen.text((78, 40), text, font=_font(26, bold=True), fill=color, anchor="lm")
    return _png(image)


def scanned(sheet: Sheet, *, seed: int, dpi: int = 130) -> Any:
    """The sheet's pages as photographs of paper: slightly turned, grainy, with no text layer."""
    grain, scan = np.random.default_rng(seed), pymupdf.open()
    for number, page in enumerate(sheet.close()):
        pixels = page.get_pixmap(dpi=dpi, colorspace=pymupdf.csGRAY)
        image = Image.frombytes("L", (pixels.width, pixels.height), pixels.samples)
        turn = 0.35 * math.cos(number * 2.1)
        turned = np.asarray(image.rotate(turn, resample=Image.Resampling.BICUBIC, fillcolor=255), dtype=np.float32)
        noisy = np.clip(turned * 0.93 + 8 + grain.normal(0, 3.0, turned.shape), 0, 255).astype(np.uint8)
        stream = io.BytesIO()
        Image.fromarray(noisy).save(stream, "JPEG", quality=42, dpi=(dpi, dpi))
        paper = scan.new_page(width=page.rect.width, height=page.rect.height)
        paper.insert_image(paper.rect, stream=stream.getvalue())
    scan.set_metadata(fixed_metadata(sheet.title, sheet.created))
    return scan


def _canvas(width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (width, height), "white")
    return image, ImageDraw.Draw(image)


def _font(size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(NANUM_FILES["nb" if bold else "ng"]), size)


def _png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.quantize(64).save(stream, "PNG", optimize=True)
    return stream.getvalue()
