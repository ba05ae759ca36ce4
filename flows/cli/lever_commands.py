"""`trivet lever`: train a selector of demonstrations, whole or stage by stage; `predict`, `vqa-score`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from pydantic import ValidationError
from rich.markup import escape
from rich.table import Table

from flows.cli.commands import App, Flag, Given, Json, Options, command, nested
from flows.cli.engine import expected_errors, prefect_for_a_command, run_flow
from flows.cli.output import FAILED, REFUSED, Screen, emit, fail, harmless, plain_errors
from flows.cli.shared_options import refuse_unusable
from flows.cli.show_plan import PlanOption, refuse_both, show_steps
from tasks.lever import lever_errors as errors

if TYPE_CHECKING:
    from flows.running.lever_calls import CallPlan
    from flows.running.lever_config import LeverConfig
    from tasks.lever.data.vqa_files import VqaScores
    from tasks.lever.learning.lever_results import LeverReport
    from tasks.lever.learning.selector_comparison import SeedEstimate, Summary


STAGES = {
    "run": "Train a selector of demonstrations and measure it; an interrupted run continues when started again.",
    "embed": "Export the vectors of pictures and questions.",
    "pools": "Choose the candidates of every query.",
    "sft": "Train a selector that imitates the best demonstrations.",
    "rl-data": "Let a trained selector draw demonstrations, and have the judge answer with them.",
    "rce": "Train on rewarded groups of demonstrations.",
    "grpo": "Train on comparisons within groups, which the judge answers during training.",
    "evaluate": "Measure selectors against zero-shot, random choice, nearest neighbours and the oracle.",
}
"""Command → help. Each but `run` is also the name of the last stage of the flow that it runs."""
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

app = App(help="Train a small network that selects demonstrations for a vision-language model.")


def _command(until: str) -> Callable[..., None]:
    def stage(
        given: Given,
        config: Annotated[
            Path | None, typer.Option(help="YAML file of the flow's parameters; options override it.")
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", metavar="NAME=VALUE", help="Any parameter, such as grpo.rounds=10; may be repeated."),
        ] = None,
        dry_run: Annotated[
            bool, typer.Option("--dry-run", help="Count the judge's calls by stage, and do nothing.")
        ] = False,
        plan: PlanOption = False,
        as_json: Json = False,
    ) -> None:
        refuse_both(plan, dry_run)
        try:
            with expected_errors():
                chosen = config_of(given, until=until, file=config, settings=settings or ())
            if plan:
                _look_ahead(chosen, as_json)
                return
            if dry_run:
                _count_calls(chosen, as_json)
                return
            with prefect_for_a_command(quiet=as_json):
                from flows.lever import post_train
                from tasks.lever.judge.judges import DIGITS

                if chosen.judge != DIGITS and chosen.until not in ("embed", "pools"):
                    refuse_unusable(chosen.judge, f"--judge {chosen.judge}", pictures=not chosen.of_texts)
                outcome = run_flow(post_train, chosen, errors.Unfinished)
        except ValidationError as error:
            fail(_sentences(error), REFUSED)
        emit(outcome.report.told(), as_json, lambda: show(outcome.report))
        if outcome.unfinished:
            fail(outcome.unfinished, FAILED)

    return stage


def _count_calls(config: LeverConfig, as_json: bool) -> None:
    """Print what the stages would ask the judge."""
    from flows.running.lever_calls import plan_calls

    with expected_errors():
        plan = plan_calls(config)
    emit(plan, as_json, lambda: _show_calls(plan))


def _show_calls(plan: CallPlan) -> None:
    screen = Screen()
    for stage, count in [*plan.calls.items(), ("total", plan.total)]:
        screen.print(f"{stage:<10}{count:>12,}{'  at most' if stage in ('oracle', 'total') else ''}", markup=False)


def _look_ahead(config: LeverConfig, as_json: bool) -> None:
    """Print what the stages would do, and what those that run would ask the judge."""
    with expected_errors():
        from flows.running.foresight.of_lever import plan_training

        plan = plan_training(config)

    def show_plan() -> None:
        show_steps(plan)
        if plan.calls.calls:
            Screen().print("the judge's calls")
            _show_calls(plan.calls)

    emit(plan, as_json, show_plan)


def config_of(given: Given, *, until: str, file: Path | None = None, settings: Sequence[str] = ()) -> LeverConfig:
    """The parameters of the flow: its defaults, then the YAML file, then the options, then each --set."""
    from flows.running.lever_config import LeverConfig
    from tasks.lever.data.folder_layout import dataset_of
    from tasks.lever.judge.judges import CPU_WORLDS, DIGITS
    from tasks.lever.judge.text_classification import WORDINGS

    typed: dict[str, Any] = {}
    for one in settings:
        _set(typed, one)
    in_file = _in_file(file)
    name = dataset_of(given.get("dataset.name") or _dataset_in(typed) or _dataset_in(in_file) or DIGITS)
    # all fields, so that an option or a line that sets one field of a model leaves its others as they are
    usual = {} if name in CPU_WORLDS else OF_TEXTS if name in WORDINGS else OF_REAL_DATA
    chosen = LeverConfig().model_dump() | deepcopy(usual)
    for more in (in_file, nested(_read(given) | {"dataset.name": name, "until": until}), typed):
        _merge(chosen, more)
    return LeverConfig.model_validate(chosen)


def _read(given: Given) -> dict[str, Any]:
    """The given options, with older names replaced; a switch that is off counts as not given."""
    from tasks.lever.data.folder_layout import judge_of, sampler_of, vectors_of

    readers = {"judge": judge_of, "sampler": sampler_of, "vectors": vectors_of}
    said = {path: value for path, value in given.items() if value is not None and value is not False}
    said = {path: readers[path](value) if path in readers else value for path, value in said.items()}
    return said | ({"network.gate": False} if "network.gate" in said else {})


def _dataset_in(chosen: dict[str, Any]) -> str | None:
    """The dataset that a file or `--set` names; a bare name is moved to `dataset.name`."""
    if isinstance(given := chosen.get("dataset"), str):
        chosen["dataset"] = {"name": given}
        return given
    return given.get("name") if isinstance(given, dict) else None


def _in_file(path: Path | None) -> dict[str, Any]:
    import yaml

    if path is None:
        return {}
    try:
        read = yaml.safe_load(path.read_text())
    except OSError as error:
        fail(f"--config {path}: {error.strerror}; name a YAML file", REFUSED)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        fail(f"--config {path} is no YAML: {error}", REFUSED)
    if not isinstance(read, dict):
        fail(f"--config {path} holds no parameters; write them as `name: value`", REFUSED)
    return cast("dict[str, Any]", read)


def _set(chosen: dict[str, Any], text: str) -> None:
    """Set the field of one `a.b=value`; values are YAML."""
    import yaml

    name, equals, value = text.partition("=")
    if not equals or not name:
        fail(f"--set {text!r} is not NAME=VALUE", REFUSED)
    *path, last = name.split(".")
    place = chosen
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            fail(f"--set {name}: {part} has no parts", REFUSED)
    try:
        place[last] = yaml.safe_load(value)
    except yaml.YAMLError:
        fail(f"--set {name}: {value!r} is no YAML value", REFUSED)


def _merge(under: dict[str, Any], over: Mapping[str, Any]) -> None:
    for name, value in over.items():
        if isinstance(value, dict) and isinstance(under.get(name), dict):
            _merge(under[name], cast("dict[str, Any]", value))
        else:
            under[name] = value


def _sentences(error: ValidationError) -> str:
    """Validation errors, one parameter per line, named as in `--set` and YAML files."""
    return "\n".join(
        str(item["ctx"]["error"])
        if item["type"] == "value_error" and "ctx" in item
        else f"{'.'.join(map(str, item['loc']))}: {item['msg']} (it is {str(item['input'])[:80]!r})"
        for item in error.errors()
    )


def predict(
    checkpoint: Annotated[
        Path, typer.Argument(help="A trained selector: .safetensors, or .ckpt or .pt of Lever-Plus.")
    ],
    query_emb: Annotated[Path, typer.Option(help="File query_embeddings.pt, with its IDs beside it.")],
    cand_emb: Annotated[Path, typer.Option(help="File candidate_embeddings.pt, with its IDs beside it.")],
    ids: Annotated[Path | None, typer.Option(help="IDs of the queries, if not beside their file.")] = None,
    cand_ids: Annotated[Path | None, typer.Option(help="IDs of the candidates, if not beside their file.")] = None,
    shots: Annotated[int, typer.Option("--shots", "--shot-num", min=1, help="Number of demonstrations per query.")] = 2,
    sampler: Annotated[str | None, typer.Option(help=SAMPLER, show_default="that of the checkpoint's training")] = None,
    pool_size: Annotated[
        int | None,
        typer.Option(
            "--pool-size",
            "--candidate-num",
            min=1,
            help="Number of candidates to choose from.",
            show_default="that of the checkpoint's training",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of candidates that are drawn at random.")] = 0,
    heads: Annotated[
        int | None,
        typer.Option(min=1, help="Number of attention heads, for a checkpoint of Lever-Plus that does not record it."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Choose demonstrations for every query of a file; prints {query: {pointer, demonstrations, log_prob}}."""
    with plain_errors(errors.LeverError):
        from tasks.lever.compat.seed_checkpoints import open_selector
        from tasks.lever.data.folder_layout import sampler_of
        from tasks.lever.learning.predicting import predict_files

        opened = open_selector(checkpoint, heads=heads)
        found = predict_files(
            opened,
            checkpoint,
            queries=query_emb,
            candidates=cand_emb,
            ids=ids,
            candidate_ids=cand_ids,
            shots=shots,
            sampler=sampler_of(sampler) if sampler else None,
            pool_size=pool_size,
            seed=seed,
        )
    for warning in found.warnings:
        typer.secho(f"note: {harmless(warning)}", fg="yellow", err=True)
    told = {query: one._asdict() for query, one in found.chosen.items()}
    emit(told, as_json, lambda: _show_prediction(told, opened.notes))


def _show_prediction(told: dict[str, dict[str, Any]], notes: Sequence[str]) -> None:
    screen = Screen()
    for note in notes:
        screen.print(f"[dim]{harmless(note)}[/]", markup=True)
    for query, one in told.items():
        screen.print(f"{query}  {', '.join(one['demonstrations'])}", markup=False)


def vqa_score(
    questions: Annotated[Path, typer.Option(metavar="FILE", help='Official JSON: {"questions": [{question_id, …}]}.')],
    annotations: Annotated[
        Path, typer.Option(metavar="FILE", help='{"annotations": [{question_id, answers: [{answer}], answer_type}]}.')
    ],
    results: Annotated[
        Path, typer.Option(metavar="FILE", help="JSON: [{question_id, answer}], an answer for each question.")
    ],
    stem: Annotated[
        bool, typer.Option("--stem", help="Compare stems of words, as OK-VQA does, with a slightly different stemmer.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Score answers about pictures by VQA accuracy, from 0 to 1: overall and per type of answer.

    With --json also per question: {overall, per_answer_type, per_question}.
    """
    from tasks.lever.data.vqa_files import score_files

    with plain_errors(errors.LeverError):
        scores = score_files(questions, annotations, results, stem=stem)
    emit(scores, as_json, lambda: _show_scores(scores))


def _show_scores(scores: VqaScores) -> None:
    screen = Screen(soft_wrap=True)
    screen.print(f"{scores.overall:.4f}  VQA accuracy over {len(scores.per_question):,} questions", markup=False)
    for name, accuracy in scores.per_answer_type.items():
        screen.print(f"{accuracy:.4f}  {name}", markup=False)


def show(found: LeverReport) -> None:
    """Print accuracies with their intervals, gains, and the files."""
    screen = Screen()
    if found.summary:
        screen.print(_title(found.summary), style="bold", markup=False)
        screen.print(_accuracies(found.summary))
        for line in _gains(found.summary):
            screen.print(line)
    else:
        screen.print(f"done: {', '.join(found.stages)}")
    for note in found.notes:
        screen.print(note, style="yellow", markup=False, soft_wrap=True)
    for path in found.files:
        screen.print(escape(path), style="dim", soft_wrap=True)


def _title(found: Summary) -> str:
    about = found.conditions
    seeds = f"{len(found.seeds)} seed{'s' if len(found.seeds) > 1 else ''}"
    questions = max(figure.accuracy.n for figure in found.figures)
    return f"{about.dataset}, {about.sampler}, pools of {about.pool_size}, {seeds}, {questions:,} questions: accuracy"


def _accuracies(found: Summary) -> Table:
    shots = sorted({one.shots for one in found.figures})
    about = found.conditions
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("demonstrations by")
    for count in shots:
        table.add_column(f"{count} shot{'s' if count != 1 else ''}", justify="right", no_wrap=True)
        if count == about.trained_shots:
            table.add_column("95 % interval", justify="right", no_wrap=True)
    for name in dict.fromkeys(one.selector for one in found.figures):
        cells = [escape(name.replace("_", " "))]
        for count in shots:
            figure = found.figure(name, shots=count)
            bound = "≥ " if figure and figure.is_lower_bound else ""
            cells.append(f"{bound}{figure.accuracy.value:.3f}" if figure else "·")
            if count == about.trained_shots:
                cells.append(_interval(figure.accuracy) if figure else "")
        table.add_row(*cells)
    return table


def _gains(found: Summary) -> list[str]:
    shots = found.conditions.trained_shots
    lines = [
        f"{gain.better} − {gain.worse.replace('_', ' ')}: {gain.accuracy.value:+.3f}  ({_interval(gain.accuracy)})"
        for gain in found.gains
        if gain.shots == shots
    ]
    ways = [
        f"{way.selector} is {way.share:.0%} of the way from similarity to the oracle"
        for way in found.ways
        if way.shots == shots and way.selector == "grpo"
    ]
    return lines + ways


def _interval(estimate: SeedEstimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "—"
    return f"{estimate.low:.3f} … {estimate.high:.3f}"


for _name, _about in STAGES.items():
    command(app, _name, OPTIONS, help=_about)(_command("evaluate" if _name == "run" else _name))
app.command("predict")(predict)
app.command("vqa-score")(vqa_score)
