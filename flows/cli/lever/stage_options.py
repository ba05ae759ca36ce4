"""Options of the stages, and the usual values of runs on pictures and on texts."""

from __future__ import annotations

from typing import Any, Literal

from flows.cli.commands import Flag, Options

OF_REAL_DATA: dict[str, Any] = {
    "dataset": {"train_queries": 800, "test": 1000},
    "judge": "hf:Qwen/Qwen2.5-VL-3B-Instruct",
    "encoder": "clip",
    "prompts": {"style": "chat"},
    "network": {},
    "beams": {},
    "sft": {},
    "rl_data": {},
    "rce": {},
    "grpo": {},
    "oracle": {"most_judgments": 20_000},
}
"""Defaults of runs on questions about real pictures, in place of those of the CPU world; {}: Lever-Plus's own."""
OF_TEXTS: dict[str, Any] = {
    "dataset": {"train_queries": 40, "validation": 20, "test": 60},
    "judge": "smollm2",
    "encoder": "minilm",
    "reward": "gt_logprob",
    "pool_size": 16,
    "evaluated_shots": (2,),
    "beams": {"width": 1, "candidates": 6},
    "sft": {"batch_size": 16},
    "rl_data": {"beams": 2, "samples": 1, "random": 2},
    "rce": {"batch_size": 16, "epochs": 6},
    "grpo": {"batch_size": 40, "rounds": 3, "draws": 4},
    "oracle": {"most_judgments": 200},
}
"""Defaults of runs on texts: as much as a small language model on a CPU answers in some minutes."""


def _shown(of_real_data: object, of_texts: object) -> str:
    return f"{of_real_data}; {{usual}} for CPU worlds, {of_texts} for texts"


Start = Literal["sft", "rl-data", "rce", "grpo", "evaluate"]
"""Stages that can begin from files of the results folder."""
DATASET = "digits or crowded (small, for CPUs), okvqa, vqav2, textvqa, vizwiz; texts: trec, sst2, agnews."
VECTORS = "What the selector sees of queries and candidates: joint, image or text."
SAMPLER = (
    "How candidates of a query are found: RetrievalSampler (nearest of all, and some at random), or Lever-Plus's "
    "RandSampler, TextSimSampler, ImgSimSampler or MixSampler."
)
FROM = "First stage, from files of the results folder: sft, rl-data, rce, grpo or evaluate."
NO_GATE = "Ablation: the state of the pointer network ignores the demonstrations picked so far."
UNSET: dict[str, Any] = {"default": None}
ON: dict[str, Any] = {"type": bool, "default": False}
OPTIONS = Options(
    "flows.running.lever_config:LeverConfig",
    {
        "dataset.name": Flag("--dataset --world", type=str, help=DATASET, **UNSET),
        "dataset.data_dir": Flag(**UNSET),
        "judge": Flag("--judge --vqa-model", shown=_shown(OF_REAL_DATA["judge"], OF_TEXTS["judge"]), **UNSET),
        "encoder": Flag(shown=_shown(OF_REAL_DATA["encoder"], OF_TEXTS["encoder"]), **UNSET),
        "adapters": Flag(),
        "vectors": Flag(type=str, help=VECTORS, **UNSET),
        "sampler": Flag(type=str, help=SAMPLER, shown="RetrievalSampler, or the checkpoint's", **UNSET),
        "pool_size": Flag(
            "--pool-size --candidate-num", shown="64, 32 for CPU worlds, 16 for texts, or the checkpoint's", **UNSET
        ),
        "shots": Flag("--shots --shot-num", **UNSET),
        "seeds": Flag(**UNSET),
        "first_seed": Flag("--seed", min=0, **UNSET),
        "dataset.train_queries": Flag(
            "--train-queries --sample-num",
            shown=_shown(OF_REAL_DATA["dataset"]["train_queries"], OF_TEXTS["dataset"]["train_queries"]),
            **UNSET,
        ),
        "begin_at": Flag("--from", type=Start, metavar="STAGE", help=FROM, **UNSET),
        "start.sft_checkpoint": Flag("--sft-ckpt"),
        "start.rce_checkpoint": Flag("--rce-ckpt"),
        "start.grpo_checkpoint": Flag("--grpo-ckpt"),
        "start.beam_data": Flag(),
        "start.rl_data": Flag(),
        "start.query_embeddings": Flag("--query-emb"),
        "start.candidate_embeddings": Flag("--cand-emb"),
        "rl_data_copy": Flag("--output-path"),
        "results": Flag(**UNSET),
        "device": Flag(),
        "grpo.offline_only": Flag(**ON),
        "rce_only": Flag(**ON),
        "network.gate": Flag("--no-gate", help=NO_GATE, **ON),
        "grpo.dropout_in_ratio": Flag(**ON),
        "grpo.top_k": Flag(min=1),  # the field says which numbers make sense
        "spending.max_calls": Flag(),
        "save": Flag(**UNSET),
    },
)
"""Unset options leave the value to the file of --config and to the defaults of the dataset."""
