"""What a GPU is worth here, beside the CPU of the same machine; needs neither network nor weights.

Weights are random and of real shapes; all figures are rates, higher is better. Without a GPU the CPU's alone are
measured, and the others are null; `small` has tiny shapes that prove the script, not a machine.

    pointer training   updates of GRPO by tasks.lever.learning.trainings, as `trivet lever run` makes them: 150
                       queries a batch, pools of 64, groups of 12, exact KL. Its limit: the bandwidth, divided by
                       the least bytes that an update moves (see least_bytes)
    embedding export   CLIP ViT-B/32: the forward pass alone, and from PNG files as `lever run --until embed` does it
    generation         a Llama of 0.5 billion parameters in bf16 by models.causal_lm; its limit for a batch of one:
                       the bandwidth, divided by the bytes of the weights, which every token reads
    FAISS lists        training and filling an IVF index by storage.vectors, on the CPU in one thread as ever
    bandwidth          copying an array: bytes read and written a second, best of several
"""

from __future__ import annotations

import io
import math
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import faiss
import numpy as np
import PIL.Image
import torch
from numpy.typing import NDArray

from models.causal_lm import CausalLM
from models.clip import GPU_BATCH, image_features
from models.pointer import PointerConfig, PointerSelector
from models.prompts import open_picture
from models.protocols import ChatRequest, Message, Text
from storage.vectors import Centres, Vectors, count_gpus, count_lists, pack_vectors, train_lists
from tasks.lever.learning.training_inputs import Groups
from tasks.lever.learning.training_loop import TrainingRun
from tasks.lever.learning.trainings import learn_grpo
from tasks.lever.lever_options import GrpoSettings
from tests.benchmarks.bench_hf import make_endless_model
from tests.benchmarks.bench_retrieval import alike_vectors, recall_at_10
from tests.benchmarks.measuring import Figures

POOL, SHOTS, GROUP, FLOAT = 64, 2, 12, 4
PEAK_ROUNDS = 5


class Shapes(NamedTuple):
    """How much is measured."""

    copied_mb: int = 1024
    queries: int = 1_500
    batch: int = 150
    epochs: int = 4
    """Of the pointer; the first one warms up."""
    pictures: int = 512
    clip_layers: int = 12
    model: tuple[int, int, int] = (24, 896, 150_000)
    """Layers, width and words of a model of half a billion parameters."""
    batches: tuple[int, ...] = (1, 8, 64)
    new_tokens: int = 64
    vectors: int = 500_000


SMALL = Shapes(
    copied_mb=8,
    queries=24,
    batch=12,
    epochs=2,
    pictures=2,
    clip_layers=1,
    model=(2, 128, 200),
    batches=(1, 2),
    new_tokens=4,
    vectors=7_000,
)


def measure(small: bool = False) -> Figures:
    """Where this runs, then rates on both devices and the most that the device could do.

    small: tiny shapes, in seconds; they prove the script and say nothing of the machine.
    """
    shapes = SMALL if small else Shapes()
    yield from machine().items()
    copied = _both(lambda device: bandwidth(device, shapes.copied_mb << 20))
    peak = copied["cuda"] or copied["cpu"]
    assert peak
    yield "bandwidth of a copy, bytes/s", copied
    steps = _both(lambda device: pointer_updates(device, shapes))
    yield "pointer training, GRPO, updates/s", steps | {"limit": peak / least_bytes(shapes.batch)}
    for name, from_png in (("forward", False), ("from PNG", True)):
        rates = _both(lambda device, from_png=from_png: pictures(device, shapes, from_png=from_png))
        yield f"CLIP ViT-B/32 of {shapes.clip_layers} layers, {name}, pictures/s", rates
    with tempfile.TemporaryDirectory() as folder:
        layers, hidden, words = shapes.model
        make_endless_model(Path(folder), layers=layers, hidden=hidden, words=words)
        size = sum(one.stat().st_size for one in Path(folder).glob("*.safetensors")) / 2  # fp32 on disk, asked in bf16
        subjects = {device: CausalLM(folder, device=device, dtype="bfloat16") for device in ("cuda", "cpu")}
        for batch in shapes.batches:
            rates = _both(lambda device, batch=batch: tokens(subjects[device], batch, shapes.new_tokens))
            limit = {"limit": peak / size} if batch == 1 else {}
            yield f"Llama of {size / 2e6:,.1f} million, batches of {batch}, tokens/s", rates | limit
    vectors = alike_vectors(shapes.vectors, dimension=384)
    made = {"cuda": build(vectors, gpu=True) if count_gpus() else None, "cpu": build(vectors, gpu=False)}
    rows = len(vectors)
    yield f"FAISS lists of {rows:,} x 384, vectors/s", {name: one and rows / one.took_s for name, one in made.items()}
    recalls = {name: one and one.recall for name, one in made.items()}
    yield "FAISS lists, recall@10 in an eighth of the lists", recalls


def machine() -> dict[str, str]:
    """Where this runs and on what."""
    packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "numpy"))
    gpu = "none"
    if torch.cuda.is_available():
        module = Path("/proc/driver/nvidia/version").read_text().splitlines()[0]
        gpu = f"{torch.cuda.get_device_name()}, {module}, CUDA {torch.version.cuda}"
    return {
        "cpu": f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads",
        "gpu": gpu,
        "python": f"{platform.python_version()}, {packages}, faiss {faiss.__version__}",
    }


def bandwidth(device: str, size: int) -> float:
    """Bytes read and written a second."""
    source = torch.ones(size // FLOAT, device=device)
    target = torch.empty_like(source)
    return 2 * size / min(_seconds(lambda: target.copy_(source), device) for _ in range(PEAK_ROUNDS))


def least_bytes(batch: int) -> int:
    """That an update of GRPO must move if whatever can stay in registers and caches does so, all in fp32.

    The pools of a batch are gathered (read, written), then read by the forward and by the backward pass; the keys of
    the candidates are written and read forward, read backward, and so are their gradients written and read. Weights
    are read forward and backward, their gradients written, and AdamW reads gradient, weight and two moments and writes
    three of them.
    """
    config = PointerConfig()
    pools, keys = (batch * POOL * width * FLOAT for width in (config.embedding_dim, config.hidden))
    weights = sum(one.numel() for one in PointerSelector(config).parameters()) * FLOAT
    return 4 * pools + 5 * keys + 10 * weights


def pointer_updates(device: str, shapes: Shapes) -> float:
    """Updates a second, loop, figures and bookkeeping included; validation marks the time."""
    random = torch.Generator().manual_seed(0)
    config, queries, candidates = PointerConfig(), shapes.queries, 4 * shapes.queries
    groups = Groups(
        ids=tuple(map(str, range(queries))),
        queries=torch.randn(queries, config.embedding_dim, generator=random),
        bank=torch.randn(candidates, config.embedding_dim, generator=random),
        pools=torch.stack([torch.randperm(candidates, generator=random)[:POOL] for _ in range(queries)]),
        pointers=torch.rand(queries, GROUP, POOL, generator=random).argsort(-1)[..., :SHOTS],
        rewards=torch.rand(queries, GROUP, generator=random),
        judged=torch.ones(queries, GROUP, dtype=torch.bool),
        behaviour=torch.full((queries, GROUP), math.nan),
    )
    marks: list[float] = []

    def mark(selector: PointerSelector) -> float:
        _wait(device)
        marks.append(time.perf_counter())
        return 0.0

    settings = GrpoSettings(batch_size=shapes.batch, offline_epochs=shapes.epochs, rounds=0)
    run = TrainingRun(mark, device=device)
    learn_grpo(PointerSelector(config), groups, settings, run, judge=lambda asked: [0.0] * len(asked))
    updates = math.ceil(queries / shapes.batch) * (shapes.epochs - 1)
    return updates / (marks[-1] - marks[1])


@torch.inference_mode()
def pictures(device: str, shapes: Shapes, *, from_png: bool) -> float:
    """Pictures a second, in the batches of models.clip: single ones on a CPU."""
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

    config = CLIPVisionConfig(num_hidden_layers=shapes.clip_layers)
    model: Any = CLIPVisionModelWithProjection(config).eval()
    model, prepare = model.to(device), CLIPImageProcessorPil()
    batch = 1 if device == "cpu" else GPU_BATCH
    pngs = [_png()] * (batch * max(1, shapes.pictures // batch // (16 if device == "cpu" else 1)))

    def prepared(part: list[bytes]) -> dict[str, torch.Tensor]:
        pictures = prepare([open_picture(png) for png in part], return_tensors="pt")
        return {"pixel_values": pictures["pixel_values"].to(device)}

    ready = prepared(pngs[:batch])

    def embed() -> None:
        for start in range(0, len(pngs), batch):
            image_features(model, prepared(pngs[start : start + batch]) if from_png else ready).cpu()

    image_features(model, ready)
    return len(pngs) / _seconds(embed, device)


def tokens(subject: CausalLM, batch: int, new_tokens: int) -> float:
    """New tokens a second of two batches, prompts of 100 words."""
    words = [Message(role="user", content=(Text(text=f"word{number} " * 100),)) for number in range(2 * batch)]
    asked = [ChatRequest(messages=(one,), max_tokens=new_tokens, template=False) for one in words]
    subject.use_batches(batch)
    list(subject.complete_many(asked[:batch]))
    started = time.perf_counter()
    answers = [answer for _, answer in subject.complete_many(asked)]
    took = time.perf_counter() - started
    return sum(getattr(answer, "completion_tokens", 0) for answer in answers) / took


class Built(NamedTuple):
    """Speed and quality of an index."""

    took_s: float
    recall: float
    """Share of the true ten nearest that an eighth of the lists holds."""


def build(rows: NDArray[np.float32], *, gpu: bool) -> Built:
    """Time the making of lists, and ask them. Raises RuntimeError where FAISS sees no GPU that it is to use."""
    lists = count_lists(len(rows))
    started = time.perf_counter()
    centres = Centres(train_lists(rows, lists, gpu=gpu), max(1, lists // 8), len(rows))
    packed = pack_vectors(rows.astype(np.float16), centres)
    took_s = time.perf_counter() - started
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vectors"
        path.write_bytes(packed)
        index = Vectors([path], dimension=rows.shape[1], centres=centres)
        return Built(took_s, recall_at_10(index, rows, rows[:: len(rows) // 100]))


def _both(rate: Callable[[str], float]) -> dict[str, float | None]:
    """Rates of the same work; None where it was not run."""
    return {"cuda": rate("cuda") if torch.cuda.is_available() else None, "cpu": rate("cpu")}


def _seconds(work: Callable[[], object], device: str) -> float:
    _wait(device)
    started = time.perf_counter()
    work()
    _wait(device)
    return time.perf_counter() - started


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _png() -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    PIL.Image.fromarray(noise).save(file, "PNG")
    return file.getvalue()
