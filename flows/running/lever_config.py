"""Configuration of `flows.lever.post_train`; the Prefect UI draws its form from it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Annotated, Any, Literal, Self, cast, get_args

from pydantic import Field, field_validator, model_validator

from flows.running.answer_models import add_price, resolve_name
from flows.running.config_reading import FlowConfig, merge, merge_parameters
from models.backends import kinds
from models.model_errors import ModelUnavailable
from storage.records import Record
from tasks.budget import Spending
from tasks.lever import lever_options as options
from tasks.lever.data.folder_layout import OWN_SUFFIX, Layout, dataset_of, folder_of, judge_of, sampler_of
from tasks.lever.judge.demonstration_task import WORDINGS, PromptSettings
from tasks.lever.judge.judges import CPU_WORLDS, DIGITS
from tasks.lever.lever_errors import OptionUnusable
from tasks.lever.lever_records import PoolRecipe, Sampler

WRITTEN_LABELS = ", or have the label written: --set dataset.metric=exact"
StageName = Literal["embed", "pools", "beams", "sft", "rl-data", "rce", "grpo", "evaluate"]
STAGES: tuple[StageName, ...] = get_args(StageName)
DatasetName = Literal["digits", "crowded", "okvqa", "vqav2", "textvqa", "vizwiz", "trec", "sst2", "agnews"]
DATASETS = get_args(DatasetName)


class DatasetConfig(Record):
    """Configuration of the dataset: its name, its files, and the sizes of its splits."""

    name: DatasetName | Annotated[str, Field(pattern=r"\.jsonl$")] = DIGITS
    """`digits` and `crowded` are generated; the others are read from `data_dir` in their official format; of these
    `trec`, `sst2` and `agnews` are texts with classes. Or a file of your own, `*.jsonl`, with a line of JSON for each
    item: `{"id", "text", "image", "question", "answers" or "label", "split"}`."""
    data_dir: Path | None = None
    """Folder of questions, annotations and images, or of texts. Unset: for generated worlds, one below the results."""
    train_queries: int = Field(default=4000, ge=1)
    """Number of training queries; all training items are candidates, in `crowded` others are."""
    validation: float = Field(default=400, gt=0)
    """Number of held-out queries for choosing checkpoints and between these and rules, or, below 1, their share of the
    items to learn from; never more than half of these."""
    test: int | None = Field(default=400, ge=1)
    """Number of held-out queries that are reported. Unset: all that are left."""
    metric: str | None = None
    """How answers to a file of your own are scored: `vqa`, `exact`, `label` (the likeliest label is the answer), or
    `module.function`, called with the answer and the right ones. Unset: by the fields of the items."""

    @field_validator("name", mode="before")
    @classmethod
    def _is_there(cls, name: Any) -> Any:
        """Return the name. Raises ValueError unless it is that of a dataset or of a readable file of items."""
        if isinstance(name, str) and name.endswith(OWN_SUFFIX):
            _first_item(name)
        elif name not in DATASETS:
            raise ValueError(
                f"there is no such dataset; choose {', '.join(DATASETS)}, or name a file of yours, *.jsonl"
            )
        return name

    @property
    def title(self) -> str:
        """Name of the dataset's folder."""
        return folder_of(self.name)

    @property
    def task(self) -> Literal["pictures", "labels", "texts"]:
        """Whether questions about pictures are answered, texts classified, or questions about texts answered."""
        if self.name in WORDINGS:
            return "labels"
        if not self.name.endswith(OWN_SUFFIX):
            return "pictures"
        item = _first_item(self.name)
        labels = self.metric == "label" or (self.metric is None and item.get("label") not in (None, ""))
        return "pictures" if item.get("image") else "labels" if labels else "texts"


def _first_item(path: str) -> dict[str, Any]:
    """Return the first item of a file of one's own. Raises ValueError; other items are checked when all are read."""
    try:
        with Path(path).open(encoding="utf-8-sig") as file:
            item: Any = json.loads(next((line for line in file if line.strip()), "null"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no file of JSON lines ({error})") from error
    if not isinstance(item, dict):
        raise ValueError(f"{path}: expected an object of JSON in the first line")
    return cast(dict[str, Any], item)


class DigitsConfig(Record):
    """The CPU worlds, for the datasets `digits` and `crowded`."""

    candidates: int = Field(default=4000, ge=10)
    """Number of items that may be shown."""
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


class LeverConfig(FlowConfig):
    """Configuration of `post_train`; the defaults are those of the CPU world."""

    dataset: DatasetConfig = DatasetConfig()
    digits: DigitsConfig = DigitsConfig()
    judge: str = DIGITS
    """Model that answers with the demonstrations: `openai:MODEL` at an endpoint; `hf:FOLDER` or `vllm:FOLDER` in this
    process, arguments after a comma (`hf:FOLDER,dtype=bfloat16`); `scripted`; a name from the file that TRIVET_MODELS
    names; or `digits`, only for the CPU worlds."""
    encoder: str = DIGITS
    """Model that embeds: `clip`, the name or path of another CLIP (`hf:…` is the same), or `digits`; for texts `minilm`
    or another embedder."""
    adapters: Path | None = None
    """Folder of LoRA weights for the CLIP."""
    prompts: PromptSettings = PromptSettings()
    """How demonstrations are shown."""
    sampler: Sampler | None = None
    """How candidates of a query are found. Unset: as for the checkpoint that the run begins with, else by
    RetrievalSampler, which takes the nearest of all."""
    pool_size: int | None = Field(default=None, ge=2)
    """Number of candidates of a query. Unset: as for the checkpoint, else 64, for CPU worlds 32."""
    pool_others: float | None = Field(default=None, ge=0, lt=1)
    """Share of a pool that RetrievalSampler draws at random. Unset: as for the checkpoint, else a quarter."""
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
    """Accuracy from which an answer counts as correct."""
    stem: bool = False
    """Compare stems of words, as OK-VQA does."""
    rce: options.RceSettings = options.RceSettings(epochs=10, temperature_start=0.5, temperature_end=0.1)
    """Training on rewarded groups."""
    grpo: options.GrpoSettings = options.GrpoSettings(lr=1.5e-3, rounds=18, draws=8, beta=0.005, adapt_beta=False)
    """Training on comparisons within groups; it continues from RCE."""
    evaluated_shots: tuple[int, ...] = (1, 2, 3, 4)
    """Numbers of demonstrations to report; zero-shot, which is 0, is reported anyway."""
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
        return f"post-train {self.dataset.name} {self.pools().sampler}, {shots}, {seeds}"

    @property
    def is_text_task(self) -> bool:
        """True for texts, false for questions about pictures."""
        return self.dataset.task != "pictures"

    @property
    def world_sizes(self) -> dict[str, int]:
        """Number of items of each kind that a CPU world has."""
        share, queries = self.dataset.validation, self.dataset.train_queries
        validation = max(1, round(share * queries)) if share < 1 else int(share)
        held_out = {"validation": validation, "test": self.dataset.test or 400}
        return {"candidates": self.digits.candidates, "queries": self.dataset.train_queries, **held_out}

    @property
    def asks_judge(self) -> bool:
        """False for a run that ends before a stage that has the judge answer."""
        return self.until not in ("embed", "pools")

    @property
    def needs_rl_data(self) -> bool:
        """True unless all selectors that would learn from RL data are there."""
        return not (self.start.rce_checkpoint and (self.start.grpo_checkpoint or self.begin_at == "evaluate"))

    @property
    def trains_grpo(self) -> bool:
        """True where GRPO is trained in this run."""
        return not (self.start.grpo_checkpoint or self.begin_at == "evaluate")

    @property
    def gives_log_probs(self) -> bool:
        """Whether the judge can tell how likely an answer is."""
        return self.judge.split(":")[0] in (DIGITS, *kinds("process"), "scripted")

    def require_inputs(self) -> None:
        """Raise OptionUnusable for a file, folder or device that is not here, before anything is trained."""
        if missing := [path for _, path in self.start if path and not path.exists()]:
            raise OptionUnusable(f"there is no file {missing[0]}; name one of an earlier run, or leave it out")
        name, folder = self.dataset.name, self.dataset.data_dir
        if name not in CPU_WORLDS and not name.endswith(OWN_SUFFIX) and not (folder and folder.is_dir()):
            raise OptionUnusable(f"{name} is read from a folder that exists; --data-dir names {folder or 'none'}")
        if self.device:
            from models.causal_weights import device_for  # brings torch

            try:
                device_for(self.device)
            except ModelUnavailable as error:
                raise OptionUnusable(str(error)) from error

    def with_earlier_files(self, files: Layout) -> LeverConfig:
        """Return a copy that begins with files which an earlier run of a seed left; those of the user precede."""
        earlier = files.files_before(self.begin_at, sampler=self.pools().sampler)
        replacements = {name: path for name, path in earlier.items() if getattr(self.start, name) is None}
        return self.model_copy(update={"start": self.start.model_copy(update=replacements)})

    def pools(self, of_checkpoint: PoolRecipe | None = None) -> PoolRecipe:
        """Return the recipe of the pools; what is unset is as in the recipe of the checkpoint, if that is known."""
        usual = PoolRecipe(
            sampler="RetrievalSampler",
            size=32 if self.dataset.name in CPU_WORLDS else 64,
            others=0.25,
            modalities=("joint",) if self.is_text_task else ("joint", "images", "texts"),
        )
        begun = of_checkpoint.model_dump(exclude_defaults=True) if of_checkpoint else {}
        settings = {"sampler": self.sampler, "size": self.pool_size, "others": self.pool_others}
        settings = {name: value for name, value in settings.items() if value is not None}
        stored = {name: value for name, value in begun.items() if value}
        return PoolRecipe.model_validate(usual.model_dump() | stored | settings)

    @model_validator(mode="before")
    @classmethod
    def _priced(cls, values: Any) -> Any:
        return add_price(values, model_field="judge")

    @field_validator("judge")
    @classmethod
    def _spelled_out(cls, judge: str) -> str:
        return resolve_name(judge)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        """Return the configuration. Raises ValueError for inconsistent settings, before anything is trained."""
        shots = (self.shots, *self.evaluated_shots) if self.until == "evaluate" else (self.shots,)
        most_shots, size = max(shots), self.pools().size
        if most_shots > size:
            raise ValueError(f"{most_shots} shots from pools of {size}: widen pool_size, or lower the shots")
        if min(self.evaluated_shots, default=0) < 0:
            raise ValueError(f"evaluated_shots {self.evaluated_shots}: 0 is zero-shot, and fewer cannot be shown")
        if self.is_text_task:
            name = self.dataset.name
            if self.dataset.task == "labels" and self.judge.split(":")[0] not in kinds("process"):
                raise ValueError(
                    f"{name} needs a judge that tells how likely labels are, and {self.judge} does not; take smollm2, "
                    f"hf:… or vllm:…{WRITTEN_LABELS if name.endswith(OWN_SUFFIX) else ''}"
                )
            if self.encoder == DIGITS:
                raise ValueError(f"{name} holds texts, which `digits` cannot embed; take minilm or another embedder")
            if self.prompts.style == "chat":
                raise ValueError(f"{name} is asked as a completion; leave prompts.style out")
        if self.reward in options.OF_LIKELIHOODS and not self.gives_log_probs:
            raise ValueError(
                f"the reward {self.reward} needs log-probabilities, and {self.judge} gives none; take hf:… or vllm:…"
            )
        return self


DEFAULTS: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_name("lever_defaults.toml").read_text("utf-8"))
"""Defaults of runs on `pictures` and on `texts`, in place of those of the CPU worlds."""


def read_lever_config(
    values: Mapping[str, Any], *, file: Path | None = None, settings: Sequence[str] = ()
) -> LeverConfig:
    """Merge the defaults of the dataset, the YAML file, the options and each `a.b=value`; the later one wins.

    values: dotted path of the field → value. Raises ConfigUnusable, OptionUnusable and pydantic.ValidationError.
    """
    merged = merge_parameters(values, file=file, settings=settings)
    dataset = merged.get("dataset", {})
    if isinstance(dataset, str):
        dataset = {"name": dataset}
    if isinstance(dataset, dict):
        name = str(dataset.get("name", DIGITS))
        name = name if name.endswith(OWN_SUFFIX) else dataset_of(name)
        merged["dataset"] = dataset | {"name": name}
    else:
        name = DIGITS
    for field, read in (("judge", judge_of), ("sampler", sampler_of)):
        if isinstance(merged.get(field), str):
            merged[field] = read(merged[field])
    # all fields, so that a setting of one field of a model leaves its others as they are; `|` replaces whole tables,
    # so that {} takes the defaults of its own class, those of Lever-Plus
    usual = {} if name in CPU_WORLDS else DEFAULTS["texts" if name in WORDINGS else "pictures"]
    if name.endswith(OWN_SUFFIX):
        with suppress(ValueError):  # which the validation of the configuration raises again
            task = DatasetConfig(name=name, metric=merged["dataset"].get("metric")).task
            usual = DEFAULTS["pictures" if task == "pictures" else "texts"]
            if task == "texts":
                usual = usual | {"reward": "hard_plus_soft"}
        usual = usual | {"dataset": {"train_queries": 4000, "validation": 0.25, "test": None}}
    fields = LeverConfig().model_dump() | deepcopy(usual)
    merge(fields, merged)
    return LeverConfig.model_validate(fields)
