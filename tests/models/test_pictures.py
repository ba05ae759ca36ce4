from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from models.prompts import MOST_PIXELS, picture_size
from tests.models.tiny_vision import make_huge_png, make_png

READ_WITH_LITTLE_MEMORY = """
import resource, sys
from pathlib import Path
from models.model_errors import RequestRefused
from models.prompts import open_picture, picture_size

open_picture(Path(sys.argv[2]).read_bytes())  # what Pillow loads at first use is loaded
mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 32 * 2**20,) * 2)
for read in (picture_size, open_picture):
    try:
        read(Path(sys.argv[1]).read_bytes())
    except RequestRefused as error:
        print(error)
"""


def test_a_picture_has_the_size_of_its_header():
    assert picture_size(make_png(0, width=24, height=16)) == (16, 24)


def test_a_picture_of_900_million_pixels_is_refused_within_32_megabytes(tmp_path: Path):
    (tmp_path / "huge.png").write_bytes(make_huge_png())
    (tmp_path / "small.png").write_bytes(make_png(0))
    command = [sys.executable, "-c", READ_WITH_LITTLE_MEMORY, str(tmp_path / "huge.png"), str(tmp_path / "small.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stderr, done.stdout.count(f"no more than {MOST_PIXELS:,} pixels are decoded")) == ("", 2)
