"""Pictures of the digits' world come back from their PNG as they were drawn, and nothing else passes for one."""

from __future__ import annotations

import io

import numpy as np
import PIL.Image
import pytest

from tasks.lever.digits.scenes import PARTS, SIZE, NoScene, from_png, load_digits, render, stream, to_png


def scene() -> np.ndarray:
    return render(load_digits()["test"].ink[None, :2], stream(0, "scene"))[0].numpy()


def reencoded(mode: str = "RGB", size: tuple[int, int] = SIZE, format: str = "PNG") -> bytes:
    file = io.BytesIO()
    PIL.Image.open(io.BytesIO(to_png(scene()))).convert(mode).resize(size).save(file, format)
    return file.getvalue()


@pytest.mark.parametrize(
    ("png", "why"),
    [
        pytest.param(b"", "no readable PNG", id="nothing"),
        pytest.param(to_png(scene())[:200], "no readable PNG", id="cut off"),
        pytest.param(reencoded(format="JPEG"), "no readable PNG", id="another format"),
        pytest.param(reencoded(size=(64, 64)), "64 × 64 pixels, not 128 × 64", id="another size"),
    ],
)
def test_what_is_no_scene_is_refused(png: bytes, why: str):
    with pytest.raises(NoScene, match=why):
        from_png(png)


def test_a_scaled_picture_is_refused_even_in_the_right_size():
    file = io.BytesIO()
    small = PIL.Image.open(io.BytesIO(to_png(scene()))).resize((40, 20))
    small.resize(SIZE, PIL.Image.Resampling.BICUBIC).save(file, "PNG")
    with pytest.raises(NoScene, match="scaled or compressed"):
        from_png(file.getvalue())


def test_each_digit_is_in_one_part_and_each_part_has_all_ten():
    parts = load_digits()
    assert {part: len(digits.ink) for part, digits in parts.items()} == PARTS
    assert sum(PARTS.values()) == 1797
    assert all(digits.labels.unique().tolist() == list(range(10)) for digits in parts.values())
