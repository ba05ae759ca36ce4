"""The report of a run and what is made of it: the seed's JSON, plots, Prefect artifacts, rows of evaluation tables."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import Field, JsonValue

from storage import evaluated as rows
from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.lever.learning.lever_plots import Training, draw_accuracy, draw_curves
from tasks.lever.learning.selector_comparison import Figure, Gain, SeedEstimate, Summary
from tasks.lever.lever_records import TRAINED, Curve, Dataset, Evaluated, Item, Outcome, TrainedSelector, VqaItem


class SeedReport(Record):
    """Results of one seed."""

    seed: int
    trained: tuple[TrainedSelector, ...] = ()
    evaluated: Ref | None = None
    """Artifact of kind Evaluated."""


class LeverReport(Record):
    """A run from its first stage to its last."""

    run: str
    started_at: datetime
    ended_at: datetime
    version: str
    """Version of Trivet."""
    git_commit: str | None
    environment: dict[str, Any]
    config: dict[str, Any]
    stages: tuple[str, ...]
    """Those that it went through."""
    seeds: tuple[SeedReport, ...] = ()
    summary: Summary | None = None
    """Figures over all seeds, if the run got so far."""
    files: tuple[str, ...] = ()
    """Written for users."""
    notes: tuple[str, ...] = ()
    unfinished: dict[str, str] = Field(default_factory=dict[str, str])
    """Item → why it may succeed another time."""

    def told(self) -> dict[str, Any]:
        """As `--json` has it: `{selector: {accuracy, se}}` at the shots that were trained for, and the rest."""
        figures = self.summary.compared() if self.summary else ()
        at = {one.selector: {"accuracy": one.accuracy.value, "se": one.accuracy.se} for one in figures}
        rest = self.model_dump(mode="json", exclude={"config", "environment", "seeds"})
        return at | rest | {"seeds": [one.model_dump(mode="json") for one in self.seeds]}


def seed_json(summary: Summary) -> dict[str, dict[str, float]]:
    """Means over seeds as Lever-Plus' `icl_inference.py` writes accuracies: `{"<info>": {"shot_num=1": 0.52, …}}`."""
    about = summary.conditions
    seeds = f"seeds={'+'.join(map(str, summary.seeds))}"
    found: dict[str, dict[str, float]] = {}
    for figure in summary.figures:
        shown = figure.selector.upper() if figure.selector in TRAINED else figure.selector
        info = (
            f"{about.dataset}-{shown}-{about.sampler}-candidate_num:{about.pool_size}-{about.judge}-"
            f"test_data_num={figure.accuracy.n}-{seeds}"
        )
        found.setdefault(info, {})[f"shot_num={figure.shots}"] = figure.accuracy.value
    return found


def headline_of(summary: Summary) -> str:
    """The run in a line: `digits, 2 shots: grpo − similarity +0.061 (+0.020 – +0.102); zero_shot 0.004, …`."""
    about, gain = summary.conditions, summary.headline
    found = ", ".join(f"{one.selector} {one.accuracy.value:.3f}" for one in summary.compared())
    first = f"{_named(gain)} {_signed(gain)}; " if gain else ""
    return f"{about.dataset}, {about.trained_shots} shot{'s' if about.trained_shots != 1 else ''}: {first}{found}"


def _named(gain: Gain) -> str:
    return f"{gain.better} − {gain.worse}"


def _signed(gain: Gain) -> str:
    return f"{gain.accuracy.value:+.3f} ({_interval(gain.accuracy, sign='+')})"


def markdown_of(summary: Summary, *, files: Sequence[str] = (), plots: Mapping[str, str] | None = None) -> str:
    """The run in words and tables; `files`: those that it wrote for users; `plots`: their addresses by name."""
    shown = [line for name, url in (plots or {}).items() for line in ("", f"![{name}]({url})")]
    kept = ["", "## Files", *(f"- `{file}`" for file in files)] if files else []
    return "\n".join([*_lines(summary), *shown, *kept])


def rows_of(report: LeverReport, dataset: Dataset, evaluated: Callable[[], Iterable[Evaluated]]) -> rows.Evaluated:
    """A run as rows of the evaluation tables. evaluated: reads the results of all seeds, anew at each call."""
    summary = report.summary
    assert summary
    about: dict[str, JsonValue] = summary.conditions.model_dump(exclude={"dataset"})
    changing = {name: value for name, value in report.config.items() if name not in ("results", "device", "save")}
    return rows.Evaluated(
        run=rows.Run(
            id=report.run,
            kind="lever",
            started_at=report.started_at,
            ended_at=report.ended_at,
            status="failed" if report.unfinished else "completed",
            version=report.version,
            git_commit=report.git_commit,
            environment=report.environment,
            config=report.config,
        ),
        dataset=rows.Dataset(
            name=f"{dataset.name}/test",
            source="official VQA files" if isinstance(dataset.test[0], VqaItem) else "files of its authors",
            checksum=_checksum(dataset.test),
            count=len(dataset.test),
        ),
        settings=rows.EvalSettings(name="lever", parameters={**changing, **about, "seeds": list(summary.seeds)}),
        results=tuple(_results(summary)),
        more_samples=lambda: _samples(summary, dataset, evaluated()),
    )


def _lines(summary: Summary) -> Iterator[str]:
    about, shots = summary.conditions, summary.conditions.trained_shots
    yield f"# {about.dataset}: {shots} of {about.pool_size} candidates are shown"
    yield (
        f"judge `{about.judge}` · encoder `{about.encoder}` · {about.sampler} · "
        f"{len(summary.seeds)} seed{'s' if len(summary.seeds) != 1 else ''}"
    )
    if gain := summary.headline:
        yield from ("", f"**{_named(gain)}: {_signed(gain)}**, paired by query and seed.")
    ways = {way.selector: way for way in summary.ways if way.shots == shots}
    yield from (
        "",
        "| selector | accuracy | se | 95 % interval | from similarity to oracle |",
        "|---|---:|---:|---|---:|",
    )
    for figure in summary.compared():
        one = figure.accuracy
        way = f"{ways[figure.selector].share:.0%}" if figure.selector in ways else ""
        bound = " (at least)" if figure.is_lower_bound else ""
        se = f"{one.se:.3f}" if one.se is not None else "—"
        yield f"| {figure.selector}{bound} | {one.value:.3f} | {se} | {_interval(one)} | {way} |"
    if gains := [gain for gain in summary.gains if gain.shots == shots]:
        yield from ("", "| gain | difference | 95 % interval, paired |", "|---|---:|---|")
        for gain in gains:
            difference = f"{gain.accuracy.value:+.3f} | {_interval(gain.accuracy, sign='+')}"
            yield f"| {gain.better} over {gain.worse} | {difference} |"
    yield from _by_shots(summary)
    if unscored := sum(figure.unscored for figure in summary.figures):
        yield from ("", f"{unscored:,} answers could not be given, and are in no mean.")


def _by_shots(summary: Summary) -> Iterator[str]:
    counts = list(dict.fromkeys(figure.shots for figure in summary.figures))
    if len(counts) < 2:
        return
    header = " | ".join(f"{count} shot{'s' if count != 1 else ''}" for count in counts)
    yield from ("", f"| selector | {header} |", "|---|" + "---:|" * len(counts))
    for selector in dict.fromkeys(figure.selector for figure in summary.figures):
        found = [summary.figure(selector, shots=count) for count in counts]
        yield f"| {selector} | " + " | ".join(f"{one.accuracy.value:.3f}" if one else "—" for one in found) + " |"


def _interval(one: SeedEstimate, *, sign: str = "") -> str:
    return "—" if one.low is None or one.high is None else f"{one.low:{sign}.3f} – {one.high:{sign}.3f}"


def _results(summary: Summary) -> Iterator[rows.Result]:
    headline = _headline(summary)
    for figure in summary.figures:
        is_headline = headline is not None and figure == headline
        yield _result(f"accuracy.{figure.selector}", figure.shots, figure.accuracy, headline=is_headline)
        yield _result(f"correct.{figure.selector}", figure.shots, figure.correct)
    for gain in summary.gains:
        yield _result(f"gain.{gain.better}-{gain.worse}", gain.shots, gain.accuracy)


def _headline(summary: Summary) -> Figure | None:
    """The figure of the last stage that was trained, with the shots that it was trained for."""
    return next((found for name in reversed(TRAINED) if (found := summary.figure(name))), None)


def _result(metric: str, shots: int, one: SeedEstimate, *, headline: bool = False) -> rows.Result:
    found = one.model_dump(include={"value", "low", "high", "n"})
    return rows.Result(metric=metric, part=f"shots={shots}", std_err=one.se, headline=headline, **found)


def _samples(summary: Summary, dataset: Dataset, evaluated: Iterable[Evaluated]) -> Iterator[rows.Sample]:
    """Question by question, a seed after the other; `repeat` counts the seeds."""
    items = {item.id: item for item in dataset.test}
    headline = _headline(summary)
    shown = (headline.selector, headline.shots) if headline else None
    for repeat, one in enumerate(evaluated):
        chosen: dict[str, dict[tuple[str, int], Outcome]] = {}
        for result in one.results:
            for outcome in result.outcomes:
                chosen.setdefault(outcome.query, {})[result.selector, result.shots] = outcome
        for query, outcomes in chosen.items():
            yield _sample(items[query], outcomes, shown=shown, repeat=repeat, seed=one.seed)


def _sample(
    item: Item, outcomes: Mapping[tuple[str, int], Outcome], *, shown: tuple[str, int] | None, repeat: int, seed: int
) -> rows.Sample:
    """shown: the selector and shots whose answer stands for the question."""
    first = outcomes.get(shown) if shown else None
    named = {f"{selector}@{shots}": one for (selector, shots), one in outcomes.items()}
    kept = {"pointer", "shown", "answer", "accuracy", "failed"}
    choices: dict[str, JsonValue] = {name: one.model_dump(mode="json", include=kept) for name, one in named.items()}
    asked: dict[str, JsonValue] = {**item.described, "answers": list(item.answers)}
    return rows.Sample(
        item=item.id,
        repeat=repeat,
        detail={"seed": seed, **asked, "choices": choices},
        status="scored" if first and first.accuracy is not None else "unscored",
        score=first.accuracy if first else None,
        extracted=first.answer if first else None,
        gold=item.shown_answer,
        reason=(first.failed or "") if first else "no selector was trained",
        group=item.group,
        values={name: one.accuracy for name, one in named.items() if one.accuracy is not None},
        keys=tuple(dict.fromkeys(one.key for one in outcomes.values() if one.key is not None)),
    )


def _checksum(items: Sequence[Item]) -> str:
    """SHA-256 of the items with their answers and the content of their pictures, wherever these lie."""
    digest = hashlib.sha256()
    for item in items:
        digest.update(json.dumps(item.model_dump(exclude={"image"}), sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def plots_of(summary: Summary, seeds: Sequence[SeedReport], artifacts: Artifacts) -> dict[str, bytes]:
    """PNGs by file name."""
    trainings = [
        Training(one.stage, seed.seed, artifacts.load(Curve, one.curve).points, one.validation, one.chosen_epoch)
        for seed in seeds
        for one in seed.trained
    ]
    return {"accuracy.png": draw_accuracy(summary)} | (
        {"curves.png": draw_curves(trainings, about=summary.conditions.dataset)} if trainings else {}
    )


def figures_of(summary: Summary) -> dict[str, bytes]:
    """Accuracies in the seed's JSON, and all figures with their intervals, by file name."""
    return {"accuracy.json": _json(seed_json(summary)), "figures.json": _json(summary.model_dump(mode="json"))}


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"
