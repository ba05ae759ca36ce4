"""Refuses a model that cannot be used before anything is started: one sentence with the flag, exit 2."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flows.cli.output import REFUSED, fail, state

if TYPE_CHECKING:
    from models.chats import Local
    from tasks.evaluation.running.model_spec import ModelSpec


def refuse_unusable(name: str, said: str, *, pictures: bool) -> None:
    """End unless the model called `name` can be asked, as far as that is seen without loading it.

    said: the option with its value. pictures: True where it will be shown some.
    """
    from models.chats import local_of
    from tasks.resources import vision

    with refused(said):
        if local := local_of(name):
            require_here(local, pictures=pictures)
        else:
            vision(name)  # which the steps of this process ask


def require_here(local: Local, *, pictures: bool = False) -> None:
    """Raises ModelUnavailable for a model that lacks its files, eyes for pictures, or the engine that runs it."""
    from flows.running.settings import settings
    from models.backends import require_vllm
    from models.chats import require_weights

    require_weights(local, pictures=pictures)
    if local.kind == "vllm" and not settings().gpu_deployment:  # whose machine has the engine
        require_vllm(local.pretrained)


def refuse_unusable_spec(spec: ModelSpec, flag: str) -> None:
    """As `refuse_unusable`, of a model that answers benchmarks."""
    import importlib.util

    from models.backends import kinds
    from models.chats import Local, require_weights
    from tasks.evaluation.running.open_models import open_model

    with refused(f"--{flag} {spec.backend}"):
        pretrained = spec.args.get("pretrained") or spec.args.get("model") or spec.name
        if "." in spec.backend:
            return  # to open it is to load it
        if spec.backend in kinds("process") and pretrained:
            require_weights(Local(spec.backend, str(pretrained), spec.args))
            if spec.backend == "hf" or importlib.util.find_spec("vllm"):
                return
        open_model(spec)


@contextmanager
def refused(what: str) -> Generator[None]:
    """End with one sentence, `what` and the reason, where a model is unavailable; with --debug that propagates."""
    from models.model_errors import ModelUnavailable

    try:
        yield
    except ModelUnavailable as error:
        if state["debug"]:
            raise
        fail(f"{what}: {error}", REFUSED)
