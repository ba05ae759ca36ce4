"""Options that several commands share, and checks of the files and models that they name."""

from __future__ import annotations

import enum
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flows.cli.output import REFUSED, fail, plain_errors
from flows.running.config_reading import index_place
from flows.running.settings import settings
from models.model_errors import ModelUnavailable
from storage.engines import lasting_name
from storage.files import write
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


LAST_INDEX, DEFAULT_INDEX = Path("index", "last"), Path("index", "default")
"""Below the home: the name of the index that `rag index` made last, and the one that it makes without --index."""


def last_index() -> Path:
    """Return the index that `rag index` made last, and show it on stderr; exits where there is none."""
    try:
        name = (settings().home / LAST_INDEX).read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        fail(
            "there is no index yet; make one with `trivet rag index FOLDER`, where FOLDER has your documents, "
            "or name one by --index DIR",
            REFUSED,
        )
    typer.secho(f"index {name}", dim=True, err=True)
    return read_index(name)


def keep_last_index(index: Path) -> None:
    """Note that `index` was made last; an index of which nothing was published is not noted."""
    from storage.index import is_published

    if is_published(index):
        write(settings().home / LAST_INDEX, lasting_name(index).encode())


def default_index(documents: Path) -> Path:
    """Return the default index of this home; exits where it is of other documents, which it would lose."""
    from storage.index import is_published
    from tasks.rag.indexing.index_report import read_status

    index, own = settings().home / DEFAULT_INDEX, str(documents.absolute())
    status = read_status(index) if is_published(index) else None
    if status and status.parameters.get("documents", own) != own:
        make = shlex.join(["trivet", "rag", "index", str(documents), "--index", str(index.with_name(Path(own).name))])
        indexed = status.parameters["documents"]
        fail(f"the default index is of {indexed}, whose documents it would lose; make another one: {make}", REFUSED)
    return index


IndexFolder = Annotated[
    Path,
    typer.Option(
        "--index",
        metavar="DIR",
        parser=read_index,
        help="Folder of the index, or postgresql://…",
        default_factory=lambda: None,
        show_default="the one that `rag index` made last",
        callback=lambda ctx, folder: folder if folder or ctx.resilient_parsing else last_index(),  # for completion
    ),
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
    """Exit if a model surely cannot be asked, about pictures or texts; loads nothing. option: with its value."""
    from models.backends import local_of, require_key
    from tasks.resources import vision

    with plain_errors(ModelUnavailable, option=option):
        if local := local_of(name):
            require_here(local, pictures=pictures)
        else:
            require_key(vision(name))  # steps of this process use this model


def require_here(local: Local, *, pictures: bool = False) -> None:
    """Raise ModelUnavailable if a local model lacks its files, its engine, or support for pictures."""
    from models.backends import require_vllm, require_weights

    require_weights(local, pictures=pictures)
    if local.kind == "vllm" and not settings().gpu_deployment:  # else the engine is on the GPU worker's machine
        require_vllm(local.pretrained)


def refuse_unusable_spec(spec: ModelSpec, flag: str) -> None:
    """Exit if an evaluation's model (classes apart) surely cannot be asked; loads nothing. flag: option, no dashes."""
    import importlib.util

    from models.backends import Local, kinds, require_key, require_weights
    from tasks.evaluation.running.open_models import open_model

    with plain_errors(ModelUnavailable, option=f"--{flag} {spec.backend}"):
        pretrained = spec.args.get("pretrained") or spec.args.get("model") or spec.name
        if "." in spec.backend:
            return  # opening it would load it
        if spec.backend in kinds("process") and pretrained:
            require_weights(Local(spec.backend, str(pretrained), spec.opening_args))
            if spec.backend == "hf" or importlib.util.find_spec("vllm"):
                return
        require_key(open_model(spec))
