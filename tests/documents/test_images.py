from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from pkgutil import resolve_name

import numpy as np
import PIL.Image
import pymupdf
import pytest
from numpy.typing import NDArray

from tasks.documents.blocks import ImageCandidate
from tasks.documents.document_errors import NeedsPassword
from tasks.documents.embedded_images import Undecodable, decode_image
from tasks.documents.formats import find_format
from tests.documents.zips import zipped

Picture = PIL.Image.Image
Draw = Callable[[pymupdf.Page], object]


def found(path: Path, *, password: str | None = None) -> list[ImageCandidate]:
    finder = find_format(path.suffix[1:]).image_finder
    return list(resolve_name(finder)(path, password=password)) if finder else []


def encoded(picture: Picture, format: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def pixels(candidate: ImageCandidate) -> NDArray[np.uint8]:
    return np.asarray(PIL.Image.open(io.BytesIO(candidate.png)))


def noise(width: int, height: int, seed: int = 0) -> Picture:
    levels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return PIL.Image.fromarray(levels)


def made(path: Path, *draw: Draw, rotation: int = 0) -> Path:
    """A PDF whose pages are drawn one by one."""
    file = path / "made.pdf"
    with pymupdf.open() as document:
        for draw_page in draw:
            page = document.new_page(width=595, height=842)
            draw_page(page)
            page.set_rotation(rotation)
        document.save(file)
    return file


def with_content(path: Path, content: bytes) -> Path:
    """A PDF with one page of raw content, 300 × 300 points."""
    file = path / "raw.pdf"
    with pymupdf.open() as document:
        page = document.new_page(width=300, height=300)
        xref = document.get_new_xref()
        document.update_object(xref, "<<>>")
        document.update_stream(xref, content)
        page.set_contents(xref)
        document.save(file)
    return file


def placed(picture: Picture, *rects: tuple[float, float, float, float], rotate: int = 0) -> Draw:
    def draw(page: pymupdf.Page) -> None:
        for rect in rects:
            page.insert_image(rect, stream=encoded(picture), rotate=rotate, keep_proportion=False)

    return draw


# Raster images of PDFs


def test_an_image_comes_with_its_own_pixels_and_its_place(tmp_path: Path):
    picture = noise(60, 40)
    (image,) = found(made(tmp_path, placed(picture, (100, 200, 220, 280))))
    assert (image.page, image.n, image.source, image.width, image.height) == (1, 1, "raster", 60, 40)
    assert image.bbox == pytest.approx((100, 200, 220, 280), abs=0.1)
    np.testing.assert_array_equal(pixels(image), np.asarray(picture))


def test_transparent_parts_are_white(tmp_path: Path):
    picture = PIL.Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    picture.paste((10, 20, 200, 255), (0, 0, 20, 40))
    (image,) = found(made(tmp_path, placed(picture, (100, 200, 180, 280))))
    assert tuple(pixels(image)[20, 10]) == (10, 20, 200)
    assert tuple(pixels(image)[20, 30]) == (255, 255, 255)


def corner(image: ImageCandidate) -> str:
    """Where the dark quarter is."""
    dark = pixels(image).mean(axis=2) < 128
    height, width = dark.shape
    y, x = (axis.mean() for axis in np.nonzero(dark))
    return ("top" if y < height / 2 else "bottom") + (" left" if x < width / 2 else " right")


def quartered() -> Picture:
    picture = PIL.Image.new("RGB", (80, 40), "white")
    picture.paste((0, 0, 0), (0, 0, 40, 20))
    return picture


def test_an_image_is_upright_as_on_the_page(tmp_path: Path):
    (image,) = found(made(tmp_path, placed(quartered(), (100, 200, 180, 360), rotate=90)))
    assert (image.width, image.height) == (40, 80)
    assert corner(image) == "bottom left"


def test_a_turned_page_is_turned(tmp_path: Path):
    (image,) = found(made(tmp_path, placed(quartered(), (100, 200, 260, 280)), rotation=90))
    assert (image.width, image.height) == (40, 80)
    assert corner(image) == "top right"
    assert image.bbox == pytest.approx((842 - 280, 100, 842 - 200, 260), abs=0.1)


def test_an_inline_image_is_found(tmp_path: Path):
    file = with_content(tmp_path, b"q 100 0 0 100 50 50 cm BI /W 2 /H 2 /BPC 8 /CS /G ID \x00\xff\xff\x00 EI Q")
    (image,) = found(file)
    np.testing.assert_array_equal(pixels(image)[:, :, 0], [[0, 255], [255, 0]])


@pytest.mark.parametrize(("columns", "rows"), [(1, 20), (8, 1), (3, 4)], ids=["strips", "columns", "tiles"])
def test_a_picture_in_pieces_is_one_picture(tmp_path: Path, columns: int, rows: int):
    whole = noise(24 * columns, 12 * rows)

    def draw(page: pymupdf.Page) -> None:
        for row in range(rows):
            for column in range(columns):
                piece = whole.crop((24 * column, 12 * row, 24 * column + 24, 12 * row + 12))
                x, y = 50 + 48 * column, 60 + 24 * row
                page.insert_image((x, y, x + 48, y + 24), stream=encoded(piece))

    (image,) = found(made(tmp_path, draw))
    assert (image.width, image.height) == whole.size
    np.testing.assert_array_equal(pixels(image), np.asarray(whole))


def test_a_scanned_page_is_a_picture(tmp_path: Path):
    (image,) = found(made(tmp_path, placed(noise(100, 140), (0, 0, 595, 842))))
    assert (image.width, image.height, image.problem) == (100, 140, None)


def test_a_background_under_text_is_none_and_is_said(tmp_path: Path):
    def draw(page: pymupdf.Page) -> None:
        placed(noise(100, 140), (0, 0, 595, 842))(page)
        page.insert_text((50, 100), "A slide with a picture behind its words. " * 2)

    (image,) = found(made(tmp_path, draw))
    assert image.problem == "the image under the page's text is its background"
    assert not image.png


def test_a_damaged_image_is_a_record_and_the_next_one_follows(tmp_path: Path):
    def draw(page: pymupdf.Page) -> None:
        placed(noise(60, 40), (100, 100, 220, 180))(page)
        xref = page.insert_image((100, 300, 220, 380), stream=encoded(noise(60, 41, seed=2), "JPEG"))
        document = page.parent
        assert isinstance(document, pymupdf.Document)
        document.update_stream(xref, b"\xff\xd8 no picture at all", compress=False)
        document.xref_set_key(xref, "Filter", "/DCTDecode")

    good, damaged = found(made(tmp_path, draw))
    assert good.png
    assert not damaged.png
    assert "damaged" in (damaged.problem or "")


# Drawn charts


def axes(page: pymupdf.Page) -> None:
    page.draw_line((100, 100), (100, 300))
    page.draw_line((100, 300), (400, 300))
    for step in range(5):
        page.insert_text((70, 300 - 40 * step), str(20 * step), fontsize=8)
        page.insert_text((120 + 55 * step, 315), f"20{20 + step}", fontsize=8)


def bars(page: pymupdf.Page) -> None:
    axes(page)
    for place, height in enumerate((60, 95, 150, 120, 180)):
        x = 115 + 55 * place
        page.draw_rect((x, 300 - height, x + 30, 300), color=None, fill=(0.1, 0.3, 0.7))


def line(page: pymupdf.Page) -> None:
    axes(page)
    page.draw_polyline([(115 + 55 * n, 280 - 30 * math.sin(n) - 20 * n) for n in range(6)])


def pie(page: pymupdf.Page) -> None:
    for start, angle in ((0, 90), (90, 150), (240, 120)):
        page.draw_sector((250, 200), (250 + 80 * math.cos(start), 200 - 80 * math.sin(start)), angle, fill=(0, 0.5, 0))
    page.insert_text((340, 150), "North 40%", fontsize=8)
    page.insert_text((340, 170), "South 60%", fontsize=8)


def flow(page: pymupdf.Page) -> None:
    for place, name in enumerate(("Client", "Gateway", "Service")):
        x = 80 + 150 * place
        page.draw_rect((x, 150, x + 90, 200))
        page.insert_text((x + 20, 178), name)
        if place:
            page.draw_line((x - 60, 175), (x, 175))


@pytest.mark.parametrize("draw", [bars, line, pie, flow], ids=lambda draw: draw.__name__)
def test_a_drawn_chart_is_one_picture_with_its_labels(tmp_path: Path, draw: Draw):
    (image,) = found(made(tmp_path, draw))
    assert (image.source, image.problem) == ("vector", None)
    assert image.bbox is not None
    with pymupdf.open(tmp_path / "made.pdf") as document:
        inside, everywhere = (str(document[0].get_text("text", clip=clip)) for clip in (image.bbox, None))
    assert sorted(inside.split()) == sorted(everywhere.split())


def ruled_table(page: pymupdf.Page) -> None:
    for row in range(8):
        page.draw_line((80, 100 + 20 * row), (480, 100 + 20 * row))
    for column in range(5):
        page.draw_line((80 + 100 * column, 100), (80 + 100 * column, 240))
    for row in range(7):
        for column in range(4):
            page.insert_text((85 + 100 * column, 115 + 20 * row), str(row * column), fontsize=9)


def filled_table(page: pymupdf.Page) -> None:
    for row in range(8):
        for column, width in enumerate((150, 60, 80, 100)):
            x = 80 + sum((150, 60, 80, 100)[:column])
            shade = 0.8 if row % 2 else 0.95
            page.draw_rect((x, 100 + 20 * row, x + width, 120 + 20 * row), color=None, fill=(shade, shade, 1))
            page.insert_text((x + 4, 114 + 20 * row), f"{row}.{column}", fontsize=9)


def border_and_underlines(page: pymupdf.Page) -> None:
    page.draw_rect((20, 20, 575, 822))
    for row in range(10):
        page.insert_text((60, 100 + 40 * row), "A heading with a line below", fontsize=12)
        page.draw_line((60, 104 + 40 * row), (60 + 30 * row + 100, 104 + 40 * row))


def ornament(page: pymupdf.Page) -> None:
    page.draw_bezier((0, 60), (200, 0), (400, 120), (595, 60), fill=(0, 0.4, 0.2))


@pytest.mark.parametrize(
    "draw", [ruled_table, filled_table, border_and_underlines, ornament], ids=lambda draw: draw.__name__
)
def test_what_is_no_chart_is_not_taken_for_one(tmp_path: Path, draw: Draw):
    assert found(made(tmp_path, draw)) == []


def test_a_poster_with_drawings_far_off_the_page_is_read(tmp_path: Path):
    content = b"0 0 1e30 1e30 re S -1e9 -1e9 m 5 5 l S 10 10 m 200 230 290 10 290 290 c S"
    file = with_content(tmp_path, content)
    with pymupdf.open(file) as document:
        document.xref_set_key(document[0].xref, "MediaBox", "[0 0 1000000 1000000]")
        document.saveIncr()
    assert all(image.png or image.problem for image in found(file))


# Images of other formats


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "no bytes"),
        (b"\xd7\xcd\xc6\x9a" + bytes(40), "WMF"),
        (b"no picture", "format is not supported"),
        (encoded(noise(30, 20))[:200], "damaged"),
        (encoded(PIL.Image.new("1", (20_000, 20_000))), "than the 100,000,000"),
    ],
    ids=["empty", "wmf", "text", "cut png", "bomb"],
)
def test_what_gives_no_picture_says_why(data: bytes, says: str):
    with pytest.raises(Undecodable, match=says):
        decode_image(data)


def test_docx_pictures_come_in_the_order_of_the_text(tmp_path: Path):
    import docx

    document = docx.Document()
    for seed in (1, 2):
        document.add_paragraph(f"Figure {seed}")
        document.add_picture(io.BytesIO(encoded(noise(30 + seed, 20, seed))))
    document.sections[0].header.paragraphs[0].add_run().add_picture(io.BytesIO(encoded(noise(50, 20, 3))))
    document.save(str(tmp_path / "made.docx"))
    images = found(tmp_path / "made.docx")
    assert [(image.page, image.n, image.width) for image in images] == [(None, 1, 31), (None, 2, 32), (None, 3, 50)]
    np.testing.assert_array_equal(pixels(images[0]), np.asarray(noise(31, 20, 1)))


HPF = """<package xmlns="http://www.idpf.org/2007/opf/"><manifest>
<item id="image1" href="BinData/image1.png" media-type="image/png" isEmbeded="1"/>
<item id="image2" href="BinData/image2.bmp" media-type="image/bmp" isEmbeded="1"/>
<item id="image3" href="C:\\pictures\\x.png" media-type="image/png" isEmbeded="0"/>
<item id="section0" href="Contents/section0.xml" media-type="application/xml"/></manifest></package>"""


def test_hwpx_pictures_come_in_the_order_of_the_text(tmp_path: Path):
    members = {"BinData/image1.png": encoded(noise(31, 20)), "BinData/image2.bmp": encoded(noise(32, 20), "BMP")}
    section = b'<sec><img binaryItemIDRef="image2"/><img binaryItemIDRef="image3"/></sec>'
    path = tmp_path / "made.hwpx"
    path.write_bytes(zipped({"Contents/content.hpf": HPF.encode(), "Contents/section0.xml": section, **members}))
    images = found(path)
    assert [image.width for image in images] == [32, 0, 31]  # image1 is used by a style only
    assert images[1].problem == "the image is outside the document and is not fetched"


def test_a_bomb_in_a_picture_of_hwpx_costs_that_picture_only(tmp_path: Path):
    path = tmp_path / "made.hwpx"
    pictures = {"BinData/a.png": encoded(noise(31, 20)), "BinData/b.png": bytes(20_000_000)}
    path.write_bytes(zipped({"Contents/section0.xml": b"<sec/>", **pictures}))
    images = found(path)
    assert [image.width for image in images] == [31, 0]
    assert "deflate bomb" in str(images[1].problem)


# Real documents


@pytest.mark.shared
def test_a_distribution_document_gives_its_pictures(shared: Path):
    images = found(shared / "documents" / "hwp" / "distribution.hwp")
    assert [(image.width, image.height) for image in images] == [(601, 936), (154, 350), (456, 213), (60, 60)]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["password-12345.hwp", "password-12345.hwpx"])
def test_a_locked_hangul_document_opens_with_its_password(shared: Path, name: str):
    file = shared / "documents" / "hwp" / name
    with pytest.raises(NeedsPassword):
        found(file)
    assert all(image.png for image in found(file, password="12345"))


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "pages"),
    [
        ("english/BESTBUY_2023_10K.pdf", [1, 22]),
        ("english/NIKE_2019_10K.pdf", [1, *[9] * 7, 23, 30, 30, 30, 31]),
        ("english/PEPSICO_2023_8K_dated-2023-05-05.pdf", []),
        ("korean/kbo_only_table.pdf", []),
        ("korean/nfl_rulebook_both.pdf", []),
    ],
)
def test_filings_give_their_pictures_and_none_of_their_tables(shared: Path, name: str, pages: list[int]):
    assert [image.page for image in found(shared / "documents" / name)] == pages


@pytest.mark.shared
def test_drawn_diagrams_of_a_real_report_are_found(shared: Path):
    images = found(shared / "documents" / "hostile" / "GeoBase_NHNC1_Data_Model_UML_EN.pdf")
    assert {7, 10, 14, 15, 18} <= {image.page for image in images if image.source == "vector"}
