from __future__ import annotations

from pathlib import Path

import numpy as np
import pymupdf
import pytest
from PIL import Image

from tasks.documents.isolation import ReadLimits
from tasks.rag.answering.evidence import write_evidence
from tasks.rag.answers import Citation

BOX = (100.0, 200.0, 300.0, 260.0)


def citation(n: int, *, digest: str = "a" * 64, page: int | None = 1, name: str = "보고서.pdf") -> Citation:
    return Citation(n=n, document=name, digest=digest, page=page, bbox=BOX if page else None, quote="words")


@pytest.fixture
def pdf(tmp_path: Path) -> Path:
    """Three white pages of 400 x 600 points, the second turned by a quarter."""
    path = tmp_path / "three.pdf"
    with pymupdf.open() as document:
        for number in range(3):
            page = document.new_page(width=400, height=600)
            if number == 1:
                page.set_rotation(90)
        document.save(path)
    return path


def coloured(picture: Path, *, points_across: float) -> tuple[float, ...]:
    """The box around everything that is not white, in points."""
    pixels = np.asarray(Image.open(picture).convert("RGB"))
    rows, columns = np.nonzero((pixels != 255).any(axis=2))
    scale = points_across / pixels.shape[1]
    return tuple(float(edge) * scale for edge in (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1))


@pytest.mark.parametrize(("page", "across"), [(1, 400), (2, 600)], ids=["upright", "turned"])
def test_the_box_is_drawn_where_the_page_shows_it(pdf: Path, tmp_path: Path, page: int, across: float) -> None:
    found = write_evidence([citation(1, page=page)], tmp_path / "out", locate=lambda _: pdf, limits=ReadLimits())
    [picture] = found.files
    expected = (BOX[0] - 3, BOX[1] - 3, BOX[2] + 3, BOX[3] + 3)
    assert coloured(picture, points_across=across) == pytest.approx(expected, abs=1.0)


def test_one_picture_per_page_named_by_its_first_citation(pdf: Path, tmp_path: Path) -> None:
    cited = [citation(1, page=3), citation(2, page=1), citation(4, page=3)]
    found = write_evidence(cited, tmp_path / "out", locate=lambda _: pdf, limits=ReadLimits())
    assert sorted(file.name for file in found.files) == ["1-보고서-p3.png", "2-보고서-p1.png"]
    assert found.notes == ()


def test_what_has_no_picture_is_said(pdf: Path, tmp_path: Path) -> None:
    text = tmp_path / "plain.txt"
    text.write_text("words")
    places = {"a" * 64: None, "b" * 64: text, "c" * 64: pdf}
    cited = [citation(1), citation(2, digest="b" * 64, page=1, name="x.txt"), citation(3, digest="c" * 64, page=None)]
    found = write_evidence(cited, tmp_path / "out", locate=places.__getitem__, limits=ReadLimits())
    assert found.files == ()
    assert [note.partition(": ")[2] for note in found.notes] == [
        "its bytes are not in this home's store; index it here again",
        "only pages of PDF, HWP, HWPX, DOCX and pictures can be drawn",
        "it has no pages",
    ]


def test_a_damaged_file_is_a_note(tmp_path: Path) -> None:
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7\nnothing more")
    found = write_evidence([citation(1)], tmp_path / "out", locate=lambda _: broken, limits=ReadLimits())
    assert found.files == ()
    assert len(found.notes) == 1


def test_a_document_name_cannot_lead_out_of_the_folder(pdf: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    cited = [citation(1, name="../../../etc/passwd.pdf")]
    [picture] = write_evidence(cited, out, locate=lambda _: pdf, limits=ReadLimits()).files
    assert picture.parent == out
