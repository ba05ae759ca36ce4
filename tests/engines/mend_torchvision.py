"""Lets torchvision be imported beside a torch for CPUs alone: the build on PyPI has no operators there.

Models that see import it, in transformers and in vLLM, and use none of them. Run once behind the installation.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

MENDED = """
if not _has_ops():
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
"""


def main() -> None:
    """Define the two operators that torchvision registers a shape for, whether it has them or not."""
    spec = find_spec("torchvision")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).with_name("extension.py")
    text = file.read_text("utf-8")
    if MENDED not in text:
        file.write_text(text + MENDED, "utf-8")


if __name__ == "__main__":
    main()
