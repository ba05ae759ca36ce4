"""The vision model of an index by its whole name: what the figure settings say of a model in process is part of it."""

from __future__ import annotations

from models.backends import kinds
from models.causal_weights import declared_context
from models.chats import Local, local_of
from models.model_errors import ModelUnavailable
from tasks.rag.indexing.figures import FigureSettings


def figure_model(vlm: str, settings: FigureSettings) -> str | None:
    """A name for models.chats.open_chat; of a model behind an endpoint, `vlm` as it is; None where figures are off.

    vlm: `hf` and `vllm` alone mean the folder that `qwen3_vl_model_path` names. What the name says of itself goes
    before the settings. Raises ModelUnavailable.
    """
    if not settings.qwen3_vl_enabled:
        return None
    if vlm in kinds("process"):
        if not settings.qwen3_vl_model_path:
            raise ModelUnavailable(f"{vlm} alone names no weights; write {vlm}:FOLDER, or set qwen3_vl_model_path")
        vlm = f"{vlm}:{settings.qwen3_vl_model_path}"
    if (local := local_of(vlm)) is None:
        return vlm
    return local._replace(args={**_told(local, settings), **local.args}).name


def _told(local: Local, settings: FigureSettings) -> dict[str, float]:
    """The settings as arguments of the backend; a context that is no longer than that is the model's own."""
    own = declared_context(local.pretrained, str(local.args.get("revision") or ""))
    most = settings.qwen3_vl_max_model_len
    shorter = own is not None and most < own and not any(name in local.args for name in ("max_length", "max_model_len"))
    if local.kind == "hf":
        return {"max_length": most} if shorter else {}
    memory = {"gpu_memory_utilization": settings.qwen3_vl_gpu_memory_utilization}
    return {"max_model_len": most, **memory} if shorter else memory
