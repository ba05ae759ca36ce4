"""Where the weights of a CLIP lie, and a fingerprint of them: known without loading torch."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from models.model_errors import ModelUnavailable
from models.weight_files import digest_folder, hub_folder, read_json, require_safetensors

VIT_B_32 = "openai/clip-vit-base-patch32"
# its main branch has pickled weights only; this commit of the hub's own conversion has the same ones as safetensors
SAFE_REVISIONS = {VIT_B_32: "c237dc49a33fc61debc9276459120b7eac67e7ef"}
NICKNAMES = {"clip": VIT_B_32}


class ClipWeights(NamedTuple):
    """Files of a CLIP."""

    folder: Path
    adapters: Path | None
    """Folder of LoRA weights to add, if any."""
    label: str
    """The name as ids show it."""
    fingerprint: str


def find_clip(name: str, *, adapters: Path | None = None) -> ClipWeights:
    """Where a CLIP lies and what it is; loads nothing. Raises ModelUnavailable.

    name: `clip` (ViT-B/32, 512 wide), `NAME` or `NAME@REVISION` of the hub (`openai/clip-vit-large-patch14`, 768), or
    a folder; with or without `hf:` before it.
    """
    name = name.removeprefix("hf:")
    name = NICKNAMES.get(name, name)
    pinned = f"{name}@{SAFE_REVISIONS[name]}" if name in SAFE_REVISIONS else name
    folder = hub_folder(pinned, what="CLIP")
    kind = read_json(folder / "config.json").get("model_type")
    if kind != "clip":
        raise ModelUnavailable(f"{folder} holds no CLIP (its config.json says model_type {kind!r}); name one that does")
    require_safetensors(folder)
    digest = digest_folder(folder)
    label = folder.resolve().name if Path(name).is_dir() else name.partition("@")[0]
    if adapters is None:
        return ClipWeights(folder, None, label, digest)
    if not (adapters / "adapter_config.json").is_file():
        raise ModelUnavailable(f"{adapters} holds no adapters: there is no adapter_config.json; name their folder")
    both = hashlib.sha256(f"{digest}{digest_folder(adapters)}".encode()).hexdigest()[:12]
    return ClipWeights(folder, adapters, f"{label}+{adapters.resolve().name}", both)
