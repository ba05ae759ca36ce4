"""Options that several commands share, and checks of the files and models that they name."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import REFUSED, fail, plain_errors
from flows.running.config_reading import index_place
from flows.running.settings import settings
from models.model_errors import ModelUnavailable
from storage.storage_errors import StorageError
from tasks.rag.retrieval.strategies import strategy_names

if TYPE_CHECKING:
    from models.backends import Local
    from tasks.evaluation.running.open_models import ModelSpec

    class Strategy(enum.StrEnum):
        """How chunks are found: a name of tasks.rag.retrieval.strategies."""

        rrf = "rrf"

else:
    Strategy = enum.StrEnum("Strategy", {name: name for name in strategy_names()})  # choices; plug-ins add names


def read_index(word: str) -> Path:
    """Return the folder of `--index DIR`, or the one that stands for `--index URL`; exits for an unknown engine."""
    with plain_errors(StorageError, option="--index"):
        return index_place(word)


IndexFolder = Annotated[
    Path, typer.Option("--index", metavar="DIR", parser=read_index, help="Folder of the index, or postgresql://…")
]
AnyIndexFolder = Annotated[
    Path | None,
    typer.Option("--index", metavar="DIR", parser=read_index, help="Folder of the index, or postgresql://…"),
]
DocumentOption = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Search only this document, or a pattern's; may be repeated."),
]


def require_file(path: Path, expected: str) -> None:
    """Exit unless `path` is a readable file. expected: what the file should be, for the message."""
    if not path.exists():
        fail(f"there is no file {path}; name {expected}", REFUSED)
    if not path.is_file():
        fail(f"{path} is not a file; name {expected}", REFUSED)
    if not os.access(path, os.R_OK):
        fail(f"{path} may not be read; check its permissions", REFUSED)


def refuse_unusable(name: str, option: str, *, pictures: bool = True) -> None:
    """Exit if it is certain, without loading it, that a model cannot be asked, about pictures or about texts alone.

    option: the option with its value.
    """
    from models.backends import local_of
    from tasks.resources import vision

    with plain_errors(ModelUnavailable, option=option):
        if local := local_of(name):
            require_here(local, pictures=pictures)
        else:
            vision(name)  # steps of this process use this model


def require_here(local: Local, *, pictures: bool = False) -> None:
    """Raise ModelUnavailable if a local model lacks its files, its engine, or support for pictures."""
    from models.backends import require_vllm, require_weights

    require_weights(local, pictures=pictures)
    if local.kind == "vllm" and not settings().gpu_deployment:  # else the engine is on the GPU worker's machine
        require_vllm(local.pretrained)


def refuse_unusable_spec(spec: ModelSpec, flag: str) -> None:
    """Exit if it is certain, without loading it, that a model of an evaluation cannot be asked.

    flag: the option that named it, without dashes.
    """
    import importlib.util

    from models.backends import Local, kinds, require_weights
    from tasks.evaluation.running.open_models import open_model

    with plain_errors(ModelUnavailable, option=f"--{flag} {spec.backend}"):
        pretrained = spec.args.get("pretrained") or spec.args.get("model") or spec.name
        if "." in spec.backend:
            return  # opening it would load it
        if spec.backend in kinds("process") and pretrained:
            require_weights(Local(spec.backend, str(pretrained), spec.args))
            if spec.backend == "hf" or importlib.util.find_spec("vllm"):
                return
        open_model(spec)
