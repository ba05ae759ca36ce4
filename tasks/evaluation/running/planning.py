"""Plans a run: items, repeats and sampling of each task, and every setting that can change a score."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, JsonValue, ValidationError, field_validator, model_validator

from storage.artifacts import Artifacts
from storage.records import Record, Ref
from storage.storage_errors import StorageError
from tasks.evaluation.benchmarks.base import BaseBenchmark, is_whole
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, DataUnusable, EvaluationError, OptionUnusable
from tasks.evaluation.evaluation_records import Dataset, Family, Item, ModelFacts, Sampling
from tasks.evaluation.record_lines import write_lines
from tasks.evaluation.running.open_models import ModelSpec
from tasks.grading.grading_records import GradingError
from tasks.grading.reading import Policy
from tasks.sandbox.sandbox_python import find_interpreter, identify_other_python
from tasks.sandbox.sandbox_records import SandboxError

if TYPE_CHECKING:
    from tasks.evaluation.running.benchmark_data import Data

EXPECTED_ERRORS = (EvaluationError, GradingError, SandboxError)
"""Errors that an evaluation raises on purpose; the text of each is a full sentence with the remedy."""
DEBUG_ITEMS = 2
"""Number of items of each task that a run with --debug asks."""
GRADER_VERSION = 9
"""Version of grading, which is part of every task's settings: raise it when a response would be graded otherwise."""
PROGRAM_SETTINGS = ("k", "unsafe_code", "python")
"""Settings of tasks whose answers are programs."""
NOT_IN_REQUESTS = ("limit", "samples", "repeats", "judge", "extract", *PROGRAM_SETTINGS)
"""Settings that are not part of any request to the model."""
DEMONSTRATIONS = re.compile(r"(random|similarity|selector:(?P<checkpoint>.+)):(?P<count>[1-9][0-9]{0,2})")
"""Matches the ways of choosing demonstrations that a run can name."""
SAMPLING_NAMES = {"max_gen_toks": "max_tokens", "max_new_tokens": "max_tokens", "until": "stop"}
"""Names of sampling parameters in lm_eval and transformers, each with our name."""


class RunSettings(Record):
    """Settings of a run that hold for all its tasks; None leaves each task its own."""

    limit: Annotated[int, Field(ge=1)] | Annotated[float, Field(gt=0, lt=1)] | None = None
    """Only the first so many items of each task; below 1 it is that part of them, rounded up."""
    samples: dict[str, tuple[Annotated[int, Field(ge=0)], ...]] = Field(
        default_factory=dict, exclude_if=lambda value: not value
    )
    """Positions of the items to ask, from 0, by task; all items of the other tasks."""
    metadata: dict[str, JsonValue] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Values that some tasks of the harness are made with (RULER's tokenizer, lengths)."""
    n_repeat: int | None = Field(default=None, ge=1)
    """Answers to each item. Unset: as many as the benchmark wants."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Maximum tokens of an answer. Unset: the benchmark's own limit."""
    gen_kwargs: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling: temperature, top_p, stop (or until), max_tokens (or max_gen_toks, max_new_tokens)."""
    seed: tuple[int, int, int, int] = (0, 1234, 1234, 1234)
    """Seeds of python (the model gets it; repeat i gets it plus i), numpy, torch and few-shot examples."""
    system_instruction: str | None = None
    """System prompt in place of a task's own."""
    apply_chat_template: bool | str = True
    """Ask as a chat: True, False (the prompt as it stands), or the name of one of the tokenizer's templates."""
    num_fewshot: int | None = Field(default=None, ge=0)
    """Few-shot examples before each question of a harness task. Unset: the task's own number."""
    fewshot_as_multiturn: bool = False
    """Show the few-shot examples of harness tasks as turns of a chat."""
    demonstrations: str | None = Field(default=None, exclude_if=lambda value: value is None)
    """Solved examples before each question: `random:4`, `similarity:4` (the nearest ones, the nearest last), or
    `selector:CHECKPOINT:4` (what a selector of `trivet lever` chooses). Unset: none."""
    ks: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """Values of k for pass@k of programs; elsewhere also of cons@k and avg@k. Unset: the benchmark's own."""
    extract: Policy | None = None
    """How answers are read for the headline: as the source of each benchmark does, strictly (announced or in a box), or
    flexibly (also bold, the last line or number, a letter in prose). Unset: published."""
    unsafe_code: bool = False
    """Run programs that models write without a sandbox."""
    debug: bool = False
    """Only the first two items of each task, with a log; kept in files, and in no table of results."""

    @field_validator("demonstrations")
    @classmethod
    def _can_be_chosen(cls, demonstrations: str | None) -> str | None:
        if demonstrations is not None and not DEMONSTRATIONS.fullmatch(demonstrations):
            raise ValueError("expected random:N, similarity:N or selector:CHECKPOINT:N, N from 1 to 999")
        return demonstrations

    @model_validator(mode="after")
    def _has_one_selection(self) -> RunSettings:
        if self.samples and self.limit:
            raise ValueError("`samples` names the items, and `limit` their number; give one of them")
        return self

    @property
    def first(self) -> int | float | None:
        """Number of items that are asked of each task, or below 1 the part of them; None for all."""
        if not self.debug:
            return self.limit
        # what a part of the items comes to is not known here
        return min(DEBUG_ITEMS, self.limit) if isinstance(self.limit, int) else DEBUG_ITEMS


class PlannedTask(Record):
    """A benchmark with its items, ready to be asked in any process."""

    task: str
    benchmark: str
    """Name or path of the benchmark."""
    version: str
    """Version of the benchmark: its number and the digest of its definition."""
    family: Family
    data: Dataset
    items: Ref
    """Artifact of the items, JSONL of Item."""
    left_out: dict[str, str] = Field(default_factory=dict, exclude_if=lambda value: not value)
    """Items of the data that cannot be used, by ID, each with the reason."""
    examples: Ref | None = Field(default=None, exclude_if=lambda value: value is None)
    """Artifact of solved examples, JSONL of Example, from which demonstrations are still to be chosen for the items."""
    count: int
    repeats: int
    sampling: Sampling
    temperature_given: bool = False
    """Whether the run sets a temperature, which takes precedence over the items' own."""
    system: str | None = None
    template: bool | str = True
    judge: ModelSpec | None = None
    whole: bool = False
    """Whether the benchmark implements evalchemy's two methods and so runs in one piece."""
    overrides: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling fields that the run sets, for a benchmark that builds its own requests."""
    score_only: bool = False
    batch_size: int | None = None
    ks: tuple[int, ...] = ()
    """Values of k for pass@k; empty: the benchmark's own."""
    extract: Policy = "published"
    """Policy by which answers are extracted for the headline metric."""
    unsafe_code: bool = False
    python: str = ""
    """Digest of the Python and libraries that execute programs, executed again when it changes; else empty."""
    settings: dict[str, JsonValue]
    """Everything besides model and data that can change a score."""

    @property
    def samples(self) -> int:
        """Number of samples: items times repeats."""
        return self.count * self.repeats


class TaskChoice(Record):
    """A task as the user named it."""

    task: str
    """Name, path of a YAML file, `file.py:Class`; or a task of the lm-evaluation-harness."""
    batch_size: int | None = None
    """Items per batch, where the backend takes batches; None: the backend's choice."""


class EvaluationRequest(Record):
    """Request for a run: the model, the tasks, where their data are, and the settings."""

    model: ModelSpec
    """The model to measure."""
    tasks: tuple[TaskChoice, ...] = Field(min_length=1)
    """Benchmarks by name or path, and tasks of the lm-evaluation-harness."""
    data_dir: Path | None = None
    """Folder of the benchmarks' data. Unset: they are loaded from the hub."""
    include_path: Path | None = None
    """Folder of your own harness tasks, as YAML."""
    settings: RunSettings = RunSettings()
    """Settings for all tasks."""
    judge: ModelSpec | None = None
    """Model that grades where a benchmark wants a judge; with `auto_judge` only its endpoint and key are used."""
    auto_judge: bool = True
    """Use the judge that each benchmark names."""
    overwrite: bool = False
    """Evaluate again what was evaluated before under the same settings."""


class Plan(Record):
    """Plan of a run: the tasks to ask, those to skip, and the model that every step opens."""

    model: ModelFacts
    spec: ModelSpec
    """The model as every step opens it: an endpoint with the identity of the weights that answer there."""
    tasks: tuple[PlannedTask, ...]
    harness: tuple[TaskChoice, ...]
    skipped: dict[str, str]
    """Tasks that were evaluated before, each with the ID of that run."""
    lacking: dict[str, str] = Field(default_factory=dict)
    """Tasks of other harnesses that are not here, each with the reason."""
    remarks: tuple[str, ...] = ()
    """Sentences on the identity of the models."""

    @property
    def notes(self) -> list[str]:
        """Remarks, and a sentence for each task that was left out."""
        return [*self.remarks, *(f"{task} is skipped: {why}" for task, why in self.lacking.items())]


def plan_task(
    benchmark: BaseBenchmark,
    data: Data,
    artifacts: Artifacts,
    *,
    benchmark_name: str,
    settings: RunSettings,
    model: ModelSpec,
    judge: ModelSpec | None,
    batch_size: int | None = None,
) -> PlannedTask:
    """Plan a benchmark and store its items. Raises DataMissing, DataUnusable, OptionUnusable, BenchmarkUnusable."""
    from tasks.evaluation.benchmarks.benchmark_registry import definition_digest

    definition = definition_digest(benchmark)
    if settings.demonstrations and benchmark.example_file is None:
        raise OptionUnusable(
            f"{benchmark.name} has no solved examples to show; leave `demonstrations`, or name a training file under "
            "`examples` in its YAML"
        )
    whole, programs = is_whole(benchmark), benchmark.family == "code"
    if whole and (settings.first or settings.samples):
        raise OptionUnusable(
            f"{benchmark.name} reads its own items, which --limit, --samples and --debug do not reach; leave them"
        )
    ids = set[bytes]()
    data.left_out.clear()
    chosen = settings.samples.get(benchmark.name)
    made = (item for place, item in enumerate(make_items(benchmark, data)) if chosen is None or place in chosen)
    run_items = iter(()) if whole else _require_distinct(made, benchmark.name, ids)
    # items are made as they are written, which fills `ids`
    items = write_lines(artifacts, "items", take_first(run_items, settings.first))
    if len(data.left_out) > len(ids) and not (settings.first and ids):
        first = next(iter(data.left_out.values()))
        raise DataUnusable(
            f"{benchmark.name}: {len(data.left_out)} of {len(data.left_out) + len(ids)} items cannot be used ({first})"
        )
    if not ids and not whole:
        sources = ", ".join(str(data.find(file) or file.hub) for file in benchmark.files) or "its own code"
        raise DataUnusable(f"{benchmark.name} has no items; see that what it reads is whole: {sources}")
    own_data = Dataset(name=benchmark.name, source="the benchmark itself", checksum=definition, count=0)
    sampling, overrides = effective_sampling(benchmark, settings), read_overrides(settings)
    repeats = settings.n_repeat or benchmark.repeats
    version = f"{benchmark.version}-{definition[:12]}"
    extract = (settings.extract if benchmark.reads_answers else None) or "published"
    examples = write_lines(artifacts, "examples", benchmark.examples(data)) if settings.demonstrations else None
    judge = judge if benchmark.judge else None
    ks = settings.ks if programs or repeats > 1 else ()
    unsafe_code = settings.unsafe_code and programs
    score_settings: dict[str, JsonValue] = {
        "version": version,
        "grader": GRADER_VERSION,
        "sampling": sampling.model_dump(mode="json"),
        "repeats": repeats,
        "limit": settings.first,
        "seed": list(settings.seed),
        "system_instruction": settings.system_instruction,
        "apply_chat_template": settings.apply_chat_template,
        "model_args": model.shapes_answers,
        "judge": judge and describe_judge(judge),
        **({} if chosen is None else {"samples": list(chosen)}),
        **({} if extract == "published" else {"extract": extract}),
        **describe_demonstrations(settings.demonstrations, examples),
        **describe_programs(ks, unsafe_code=unsafe_code, python=identify_other_python() if programs else ""),
    }
    return PlannedTask(
        task=benchmark.name,
        benchmark=benchmark_name,
        version=version,
        family=benchmark.family,
        data=own_data if whole else data.facts(benchmark.name, benchmark.files),
        items=items,
        left_out=dict(data.left_out),
        examples=examples,
        count=len(ids),
        repeats=repeats,
        sampling=sampling,
        temperature_given="temperature" in overrides,
        system=settings.system_instruction,
        template=settings.apply_chat_template,
        judge=judge,
        whole=whole,
        overrides={name: sampling.model_dump()[name] for name in overrides} if whole else {},
        score_only=benchmark.score_only,
        batch_size=batch_size,
        ks=ks,
        extract=extract,
        unsafe_code=unsafe_code,
        python=find_interpreter().digest if programs else "",
        settings=score_settings,
    )


def describe_judge(judge: ModelSpec) -> dict[str, JsonValue]:
    """Return the settings that say which model judges, and which weights where an endpoint's are known."""
    identity = judge.args.get("identity")
    args = judge.shapes_answers | ({"identity": identity} if identity else {})
    return {"backend": judge.backend, "name": judge.name, "args": args}


def take_first(items: Iterator[Item], first: int | float | None) -> Iterator[Item]:
    """Return the first items: that number of them, or below 1 that part of them, rounded up; all for None."""
    if not isinstance(first, float):
        return islice(items, first)
    all_items = list(items)  # a part of them needs their number, so here alone all are held in memory
    return iter(all_items[: math.ceil(len(all_items) * first)])  # as lm_eval rounds


def describe_demonstrations(demonstrations: str | None, examples: Ref | None) -> dict[str, JsonValue]:
    """Return how demonstrations are chosen, of which examples, by what selector; empty: none. Raises OptionUnusable."""
    match = DEMONSTRATIONS.fullmatch(demonstrations) if demonstrations else None
    if not (match and examples):
        return {}
    entries: dict[str, JsonValue] = {"demonstrations": demonstrations, "examples": examples.digest[:12]}
    if checkpoint := match["checkpoint"]:
        try:
            digest = hashlib.sha256(Path(checkpoint).read_bytes()).hexdigest()
        except OSError as error:
            why = f"{checkpoint} cannot be read ({error.strerror})"
            raise OptionUnusable(f"demonstrations {demonstrations}: {why}") from error
        entries |= {"demonstrations": f"selector:{match['count']}", "selector": digest[:12]}
    return entries


def describe_programs(ks: Sequence[int], *, unsafe_code: bool, python: str) -> dict[str, JsonValue]:
    """Return the settings that say how programs are scored and executed; empty where the run sets nothing.

    python: digest of the Python that executes them, where it is not the one that runs this program. Of that one nothing
    is stored: otherwise scores of two machines could never be compared.
    """
    entries: dict[str, JsonValue] = {"k": list(ks)} if ks else {}
    entries |= {"unsafe_code": True} if unsafe_code else {}
    return entries | {"python": python} if python else entries


def make_items(benchmark: BaseBenchmark, data: Data) -> Iterator[Item]:
    """Yield the items of a benchmark. Raises BenchmarkUnusable where code of the user's own fails."""
    try:
        yield from benchmark.items(data)
    except (*EXPECTED_ERRORS, StorageError):
        raise
    except Exception as error:  # a benchmark may come from outside the repository
        raise BenchmarkUnusable(
            f"{benchmark.name}: its items cannot be made ({error!r}); `trivet --debug eval list --check` shows where"
        ) from error


def effective_sampling(benchmark: BaseBenchmark, settings: RunSettings) -> Sampling:
    """Return the benchmark's sampling, overridden by the run's. Raises OptionUnusable for bad names and values."""
    overrides = read_overrides(settings)
    changed = benchmark.sampling.model_dump() | overrides
    if changed["seed"] is not None and "seed" not in overrides:  # None: the benchmark sends no seed
        changed["seed"] = settings.seed[0]
    if unknown := [name for name in overrides if name not in Sampling.model_fields]:
        accepted_names = ", ".join([*Sampling.model_fields, *SAMPLING_NAMES, "do_sample"])
        raise OptionUnusable(f"gen_kwargs {unknown[0]!r} is not known; give {accepted_names}")
    try:
        return Sampling.model_validate(changed)
    except ValidationError as error:
        first = error.errors()[0]
        raise OptionUnusable(f"gen_kwargs {first['loc'][0]}: {first['msg']} (it is {first['input']!r})") from error


def read_overrides(settings: RunSettings) -> dict[str, JsonValue]:
    """Return the sampling fields that the run sets, under our names; `do_sample` False is a temperature of 0."""
    overrides = {SAMPLING_NAMES.get(name, name): value for name, value in settings.gen_kwargs.items()}
    if overrides.pop("do_sample", None) is False:
        overrides["temperature"] = 0.0
    if settings.max_tokens is not None:
        overrides["max_tokens"] = settings.max_tokens
    stop = overrides.get("stop")
    if isinstance(stop, str):
        overrides["stop"] = [stop]
    return overrides


def identify_questions(task: PlannedTask) -> str:
    """Return a text that is equal for runs that send the same questions, however many items and repeats each asks."""
    request_settings = {name: value for name, value in task.settings.items() if name not in NOT_IN_REQUESTS}
    return json.dumps([task.task, task.data.checksum, request_settings], sort_keys=True)


def _require_distinct(items: Iterable[Item], source: str, digests: set[bytes]) -> Iterator[Item]:
    """Yield the items unchanged, and add a digest of each ID to `digests`. Raises DataUnusable for a repeated ID."""
    for item in items:
        # 8 bytes an ID: among a million items two collide with a chance of 3e-8
        digest = hashlib.blake2b(item.id.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        if digest in digests:
            raise DataUnusable(f"{source}: two items have the id {item.id!r}; give each its own")
        digests.add(digest)
        yield item
