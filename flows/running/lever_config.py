"""Configuration of `flows.lever.post_train`; the Prefect UI draws its form from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import Field, field_validator, model_validator

from flows.running.answer_models import priced, spelled_out
from models.backends import kinds
from storage.records import Record
from tasks.budget import Spending
from tasks.lever import lever_options as options
from tasks.lever.judge.judges import DIGITS, PromptSettings
from tasks.lever.lever_records import Sampler

StageName = Literal["embed", "pools", "beams", "sft", "rl-data", "rce", "grpo", "evaluate"]
STAGES: tuple[StageName, ...] = get_args(StageName)


class DatasetConfig(Record):
    """The dataset and its splits."""

    name: Literal["digits", "okvqa", "vqav2", "textvqa", "vizwiz"] = DIGITS
    """`digits` is generated; the others are read from `data_dir` in their official format."""
    data_dir: Path | None = None
    """Folder of questions, annotations and images. Unset: for `digits`, a folder below the results."""
    train_queries: int = Field(default=4000, ge=1)
    """Number of training queries; all training items are candidates."""
    validation: int = Field(default=400, ge=1)
    """Number of held-out queries for choosing checkpoints."""
    test: int | None = Field(default=400, ge=1)
    """Number of held-out queries that are reported. Unset: all that are left."""
    seed: int = 0
    """Seed of the splits; use the same one for runs to be compared."""


class DigitsConfig(Record):
    """The CPU world, for the dataset `digits`."""

    seed: int = 0
    """Seed of the images, the lexicon and the judge."""
    candidates: int = Field(default=4000, ge=10)
    """Number of training items."""
    judge_steps: int = Field(default=800, ge=1)
    """Number of training steps of the judge."""


class StartConfig(Record):
    """Files that replace the results of earlier stages."""

    query_embeddings: Path | None = None
    """File `query_embeddings.pt`, in place of the encoder."""
    candidate_embeddings: Path | None = None
    """File `candidate_embeddings.pt`, in place of the encoder."""
    beam_data: Path | None = None
    """File of beam data of Lever-Plus, in its old or new format."""
    sft_checkpoint: Path | None = None
    """A trained SFT selector: ours, or a v2 checkpoint of Lever-Plus."""
    rl_data: Path | None = None
    """File `rl_data_{Sampler}.json`, in place of judging."""
    rce_checkpoint: Path | None = None
    """A trained RCE selector, from which GRPO continues."""
    grpo_checkpoint: Path | None = None
    """A trained GRPO selector, which is only measured."""

    @model_validator(mode="after")
    def _has_both_embeddings(self) -> Self:
        if (self.query_embeddings is None) != (self.candidate_embeddings is None):
            raise ValueError("query_embeddings and candidate_embeddings: give both files, or none")
        return self


class LeverConfig(Record):
    """Configuration of `post_train`; the defaults are those of the CPU world."""

    dataset: DatasetConfig = DatasetConfig()
    digits: DigitsConfig = DigitsConfig()
    judge: str = DIGITS
    """Model that answers with the demonstrations: `openai:MODEL` at an endpoint; `hf:FOLDER` or `vllm:FOLDER` in this
    process, arguments after a comma (`hf:FOLDER,dtype=bfloat16`); `scripted`; a name from the file that TRIVET_MODELS
    names; or `digits`, only for that dataset."""
    concurrency: int = Field(default=16, ge=1)
    """Number of concurrent requests to an endpoint."""
    encoder: str = DIGITS
    """Model that embeds: `clip`, the name or path of another CLIP (`hf:…` is the same), or `digits`."""
    adapters: Path | None = None
    """Folder of LoRA weights for the CLIP."""
    prompts: PromptSettings = PromptSettings()
    """How demonstrations are shown."""
    vectors: options.Vectors = "joint"
    """What the selector sees of queries and candidates."""
    sampler: Sampler = "RandSampler"
    """How candidates of a query are found."""
    pool_size: int = Field(default=32, ge=2)
    """Number of candidates of a query."""
    shots: int = Field(default=2, ge=1)
    """Number of demonstrations that selectors learn to choose."""
    network: options.NetworkSettings = options.NetworkSettings(layers=2, dropout=0.3)
    """The pointer network."""
    beams: options.BeamSettings = options.BeamSettings(candidates=16, queries=2500)
    """The search for demonstrations to imitate."""
    sft: options.SftSettings = options.SftSettings()
    """Supervised training on the best demonstrations."""
    rl_data: options.RlDataSettings = options.RlDataSettings(random=5)
    """Which pointers are judged."""
    reward: options.RewardMode = "hard_plus_soft"
    """How answers are rewarded."""
    threshold: float = Field(default=0.5, gt=0, le=1)
    """VQA accuracy from which an answer counts as correct."""
    stem: bool = False
    """Compare stems of words, as OK-VQA does."""
    rce: options.RceSettings = options.RceSettings(epochs=10, temperature_start=0.5, temperature_end=0.1)
    """Training on rewarded groups."""
    grpo: options.GrpoSettings = options.GrpoSettings(
        lr=1.5e-3, rounds=18, draws=8, beta=0.005, beta_min=0.005, beta_max=0.005
    )
    """Training on comparisons within groups; it continues from RCE."""
    rce_only: bool = False
    """Skip GRPO; an ablation."""
    evaluated_shots: tuple[int, ...] = (1, 2, 3, 4)
    """Numbers of demonstrations to report."""
    oracle: options.OracleSettings = options.OracleSettings()
    """Search for the best demonstrations, as an upper bound."""
    seeds: int = Field(default=1, ge=1)
    """Number of runs with different pools, draws and initial weights; gains are reported over all of them."""
    first_seed: int = 0
    """Seed of the first run."""
    start: StartConfig = StartConfig()
    """Files that replace stages, the same for all seeds."""
    begin_at: StageName = "embed"
    """First stage; results of earlier ones are read from the results folder of each seed."""
    until: StageName = "evaluate"
    """Last stage."""
    results: Path = Path("results")
    """Folder of the output: `{results}/{dataset}/…`, with the file names of Lever-Plus."""
    rl_data_copy: Path | None = None
    """File for a copy of the RL data."""
    device: str | None = None
    """Device, such as `cpu` or `cuda:0`. Unset: a GPU if there is one."""
    spending: Spending = Spending()
    """Limits on calls of the judge."""
    save: Literal["file", "database", "both"] = "both"
    """Where figures are kept."""

    @property
    def title(self) -> str:
        """Name of the run in the Prefect UI: `post-train okvqa RandSampler, 1 shot, 3 seeds`."""
        shots = f"{self.shots} shot{'s' if self.shots != 1 else ''}"
        seeds = f"{self.seeds} seed{'s' if self.seeds != 1 else ''}"
        return f"post-train {self.dataset.name} {self.sampler}, {shots}, {seeds}"

    @model_validator(mode="before")
    @classmethod
    def _priced(cls, given: Any) -> Any:
        return priced(given, by="judge")

    @field_validator("judge")
    @classmethod
    def _spelled_out(cls, judge: str) -> str:
        return spelled_out(judge)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Refuse inconsistent settings before anything is trained."""
        most = max((self.shots, *self.evaluated_shots) if self.until == "evaluate" else (self.shots,))
        if most > self.pool_size:
            raise ValueError(f"{most} shots from pools of {self.pool_size}: widen pool_size, or lower the shots")
        if min(self.evaluated_shots, default=1) < 1:
            raise ValueError(f"evaluated_shots {self.evaluated_shots}: at least 1 is shown")
        likely = self.judge.split(":")[0] in (DIGITS, *kinds("process"), "scripted")
        if self.reward == "hard_plus_gtprob" and not likely:
            raise ValueError(
                f"the reward hard_plus_gtprob needs log-probabilities, and {self.judge} gives none; take hf:… or vllm:…"
            )
        searched = self.until not in ("embed", "pools") and STAGES.index(self.begin_at) <= STAGES.index("beams")
        if searched and not likely and not (self.start.beam_data or self.start.sft_checkpoint):
            raise ValueError(
                f"the search for demonstrations to imitate needs log-probabilities, and {self.judge} gives none: give "
                "--beam-data or --sft-ckpt, or a judge in this process (hf:…, vllm:…)"
            )
        return self
