"""Opens a reranker by its name, the one that users write after `--reranker`."""

from __future__ import annotations

from models.model_errors import ModelUnavailable
from models.protocols import Reranker
from models.weight_files import digest_folder, hub_folder

NAMES = "a sentence-transformers cross-encoder (`BAAI/bge-reranker-v2-m3`, `NAME@REVISION`), its folder, or `scripted`"


def open_reranker(name: str) -> Reranker:
    """The reranker called `name`. Raises ModelUnavailable if there is none of that name.

    name: a cross-encoder of the Hugging Face hub, one revision of it (`NAME@REVISION`) or a folder, with or
    without `hf:` before it; `scripted` counts words in common, for tests and dry runs.
    """
    if not name.strip():
        raise ModelUnavailable(f"the name of the reranker is empty; give {NAMES}")
    if name == "scripted":
        from models.scripted import ScriptedReranker

        return ScriptedReranker()
    from models.cross_encoder import CrossEncoderReranker

    return CrossEncoderReranker(name.removeprefix("hf:"))


def fingerprint_of(name: str) -> str:
    """What the weights behind a reranker's name are: other weights, another fingerprint. Raises ModelUnavailable."""
    return "" if name == "scripted" else digest_folder(hub_folder(name.removeprefix("hf:"), what="reranker"))
