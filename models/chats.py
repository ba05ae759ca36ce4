"""Opens a chat backend by its name, the one that users write after `--vlm`, `--llm` or `--judge`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from pydantic import JsonValue, SecretStr

from models.backends import backends, check_args, kinds, open_backend, parse_model_args
from models.gguf_files import gguf_in, split_gguf
from models.model_errors import ModelUnavailable
from models.protocols import Chat
from models.request_fields import BRIEFLY
from models.weight_files import GENERATOR_FILES, digest_files, digest_folder


class Local(NamedTuple):
    """A model that runs in the process that asks it, as its name says."""

    kind: str
    pretrained: str  # a folder, or a name of the hub
    args: Mapping[str, JsonValue]  # as `--model_args` of that backend

    @property
    def name(self) -> str:
        """The whole name, arguments as JSON; what is in them keeps its order, which a schema means."""
        said = f",{json.dumps(dict(sorted(self.args.items())), ensure_ascii=False)}" if self.args else ""
        return f"{self.kind}:{self.pretrained}{said}"


def open_chat(
    name: str, *, base_url: str | None = None, api_key: SecretStr | None = None, timeout_s: float = 120.0
) -> Chat:
    """The backend called `name`. Raises ModelUnavailable if there is none of that name.

    base_url, api_key, timeout_s: for backends behind an endpoint; None is OpenAI's own, without a key.
    """
    from models.registry import open_spelled

    if chat := open_spelled(name, base_url=base_url, api_key=api_key, timeout_s=timeout_s):
        return chat
    if local := local_of(name):
        return open_backend(local.kind, name=local.pretrained, args=local.args, pictures=True)
    kind, _, rest = name.partition(":")
    backend = backends().get(kind)
    if backend is None or (backend.needs_subject and not rest):
        raise ModelUnavailable(f"There is no model backend called {name!r}; give {spellings()}.")
    return open_backend(
        kind,
        args={backend.subject: rest} if rest else {},
        base_url=base_url,
        api_key=api_key,
        timeout_s=timeout_s,
        pictures=True,
        thinking=BRIEFLY,
    )


def spellings() -> str:
    """How each backend is written, for messages."""
    listed = ", ".join(backend.spelling for backend in backends().values())
    return (
        f"{listed}, with arguments behind a comma (`hf:FOLDER,dtype=float32`), or a name of the file in TRIVET_MODELS"
    )


def is_in_process(name: str) -> bool:
    """True where the weights of the backend called `name` are loaded in the process that asks it."""
    return name.partition(":")[0] in kinds("process")


def local_of(name: str) -> Local | None:
    """The parts of `hf:…` and `vllm:…`; None for another backend. Raises ModelUnavailable for arguments that are none.

    A comma separates folder and arguments, unless it is part of the name of an existing folder.
    """
    kind, _, rest = name.partition(":")
    if kind not in kinds("process") or not rest:
        return None
    pieces = rest.split(",")
    folder = next((end for end in range(len(pieces), 0, -1) if Path(",".join(pieces[:end])).is_dir()), 1)
    pretrained, args = ",".join(pieces[:folder]), parse_model_args(",".join(pieces[folder:]))
    if kind == "hf":
        said = args.get("gguf_file")
        pretrained, gguf_file = split_gguf(pretrained, said if isinstance(said, str) else None)
        args |= {"gguf_file": gguf_file} if gguf_file else {}
    return Local(kind, pretrained, args)


def require_weights(local: Local, *, pictures: bool = False) -> None:
    """Refuse a model without its files, or a text-only one that would be shown pictures; loads nothing.

    Raises ModelUnavailable.
    """
    from models.causal_weights import check_dtype, model_config, weights_folder

    check_args(local.kind, local.args)
    if local.kind == "hf":
        check_dtype(str(local.args.get("dtype", "auto")))
    revision, gguf_file = local.args.get("revision"), local.args.get("gguf_file")
    wanted = (str(gguf_file) if gguf_file else "config.json",)
    folder = weights_folder(local.pretrained, str(revision) if revision else None, wanted, "model")
    if gguf_file:
        gguf_in(folder, str(gguf_file))
    sees = not gguf_file and "vision_config" in model_config(folder)
    if not sees and pictures and local.kind == "hf":
        raise ModelUnavailable(
            f"the model in {folder} reads text alone, and it would be shown pictures; name one that sees, such as "
            "hf:Qwen/Qwen2.5-VL-3B-Instruct"
        )


def revision_of(name: str) -> str:
    """What lies on this disk under the name of a backend; other weights, another revision. Loads nothing.

    An endpoint shows nothing: its name has to stand for it. Raises ModelUnavailable.
    """
    if local := local_of(name):
        return _revision_of_weights(local)
    kind, _, rest = name.partition(":")
    if kind in ("scripted", "replay") and rest:
        if not Path(rest).is_file():
            raise ModelUnavailable(f"{name!r}: there is no file {rest}; name one")
        return digest_files([Path(rest)])
    return ""


def _revision_of_weights(local: Local) -> str:
    from models.causal_weights import find_weights, weights_folder

    revision, peft, lora = (local.args.get(name) for name in ("revision", "peft", "lora_local_path"))
    gguf_file = local.args.get("gguf_file")
    found = find_weights(
        local.pretrained,
        revision=str(revision) if revision else None,
        dtype="auto",
        peft=None,
        trust_remote_code=bool(local.args.get("trust_remote_code")),
        gguf_file=str(gguf_file) if gguf_file else None,
    )
    if not (adapter := peft or lora):
        return found.fingerprint
    return f"{found.fingerprint}+{digest_folder(weights_folder(str(adapter), None, GENERATOR_FILES, 'LoRA'))}"
