"""Configuration of `flows.lever.post_train`; the Prefect UI draws its form from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from flows.running.models_file import priced, spelled_out
from models.backends import kinds
from tasks.budget import Spending
from tasks.lever.judge.judges import DIGITS, PromptSettings
from tasks.lever.lever_options import (
    BeamSettings,
    GrpoSettings,
    NetworkSettings,
    OracleSettings,
    RceSettings,
    RewardMode,
    RlDataSettings,
    SftSettings,
    Vectors,
)
from tasks.lever.lever_records import Sampler

StageName = Literal["embed", "pools", "beams", "sft", "rl-data", "rce", "grpo", "evaluate"]
STAGES: tuple[StageName, ...] = get_args(StageName)


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class DatasetConfig(_Config):
    """The dataset and its splits."""

    name: Literal["digits", "okvqa", "vqav2", "textvqa", "vizwiz"] = DIGITS
    """`digits` is drawn here; the others lie in `data_dir` in the official format."""
    data_dir: Path | None = None
    """Folder of questions, annotations and pictures; of `digits` below the results unless said."""
    train_queries: int = Field(default=4000, ge=1)
    """Training items that selectors learn from; all training items are candidates."""
    validation: int = Field(default=400, ge=1)
    """Held-out queries by which checkpoints are chosen."""
    test: int | None = Field(default=400, ge=1)
    """Held-out queries that are reported; none: all that are left."""
    seed: int = 0
    """Seed of the splits; use the same for all runs that are to be compared."""


class DigitsConfig(_Config):
    """The CPU world, where the dataset is `digits`."""

    seed: int = 0
    """Seed of the pictures, the lexicon and the judge."""
    candidates: int = Field(default=4000, ge=10)
    """Training items."""
    judge_steps: int = Field(default=800, ge=1)
    """Updates of the judge's training."""


class StartConfig(_Config):
    """Files that take the place of what earlier stages would make."""

    query_embeddings: Path | None = None
    """`query_embeddings.pt`."""
    candidate_embeddings: Path | None = None
    """`candidate_embeddings.pt`."""
    beam_data: Path | None = None
    """Beam data of the seed, old or new."""
    sft_checkpoint: Path | None = None
    """A trained v2 selector: ours, or a checkpoint of the seed."""
    rl_data: Path | None = None
    """`rl_data_{Sampler}.json`."""
    rce_checkpoint: Path | None = None
    """A selector that GRPO goes on with."""
    grpo_checkpoint: Path | None = None
    """A selector that is only measured."""

    @model_validator(mode="after")
    def _has_both_embeddings(self) -> Self:
        if (self.query_embeddings is None) != (self.candidate_embeddings is None):
            raise ValueError("query_embeddings and candidate_embeddings: give both files, or none")
        return self


class LeverConfig(_Config):
    """Configuration of `post_train`; the defaults are those of the CPU world."""

    dataset: DatasetConfig = DatasetConfig()
    digits: DigitsConfig = DigitsConfig()
    judge: str = DIGITS
    """`openai:MODEL` at an endpoint, `hf:FOLDER` or `vllm:FOLDER` in process, each with arguments behind a comma
    (`hf:FOLDER,dtype=bfloat16`), `scripted`, a name of the file in TRIVET_MODELS; `digits` answers only its own
    world."""
    concurrency: int = Field(default=16, ge=1)
    """Questions under way at once at an endpoint."""
    encoder: str = DIGITS
    """`clip`, the name or path of another CLIP (`hf:…` is the same), or `digits`."""
    adapters: Path | None = None
    """Folder of LoRA weights that the CLIP is trained with."""
    prompts: PromptSettings = PromptSettings()
    """How demonstrations are shown."""
    vectors: Vectors = "joint"
    """What the selector sees of queries and candidates."""
    sampler: Sampler = "RandSampler"
    """How candidates of a query are found."""
    pool_size: int = Field(default=32, ge=2)
    """Candidates of a query."""
    shots: int = Field(default=2, ge=1)
    """Demonstrations that selectors learn to choose."""
    network: NetworkSettings = NetworkSettings(layers=2, dropout=0.3)
    """The pointer network."""
    beams: BeamSettings = BeamSettings(candidates=16, queries=2500)
    """The search for demonstrations to imitate."""
    sft: SftSettings = SftSettings()
    """Learning to imitate."""
    rl_data: RlDataSettings = RlDataSettings(random=5)
    """Which pointers are judged."""
    reward: RewardMode = "hard_plus_soft"
    """What an answer is worth."""
    threshold: float = Field(default=0.5, gt=0, le=1)
    """VQA accuracy from which an answer counts as right."""
    stem: bool = False
    """Compare stems of words, as OK-VQA does."""
    rce: RceSettings = RceSettings(epochs=10, temperature_start=0.5, temperature_end=0.1)
    """Learning from rewarded groups."""
    grpo: GrpoSettings = GrpoSettings(lr=1.5e-3, rounds=18, draws=8, beta=0.005, beta_min=0.005, beta_max=0.005)
    """Learning from comparisons within groups; it goes on from RCE."""
    rce_only: bool = False
    """No GRPO; an ablation."""
    evaluated_shots: tuple[int, ...] = (1, 2, 3, 4)
    """Numbers of demonstrations that are reported."""
    oracle: OracleSettings = OracleSettings()
    """Search for the best demonstrations, as an upper bound."""
    seeds: int = Field(default=1, ge=1)
    """Runs with other pools, draws and initial weights; gains are told over all of them."""
    first_seed: int = 0
    """Seed of the first run."""
    start: StartConfig = StartConfig()
    """Files in place of stages, the same for all seeds."""
    begin_at: StageName = "embed"
    """The first stage: what comes before it is read from the results folder, of each seed its own."""
    until: StageName = "evaluate"
    """The last stage."""
    results: Path = Path("results")
    """Folder of the files that users see: `{results}/{dataset}/…`, as the seed names them."""
    rl_data_copy: Path | None = None
    """A second place for the RL data."""
    device: str | None = None
    """`cpu`, `cuda:0` …; none: a GPU if there is one."""
    spending: Spending = Spending()
    """When to stop asking the judge."""
    save: Literal["file", "database", "both"] = "both"
    """Where figures are kept."""

    @property
    def title(self) -> str:
        """What the UI calls the run: `post-train okvqa RandSampler, 1 shot, 3 seeds`."""
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
        """Said before anything is trained."""
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
