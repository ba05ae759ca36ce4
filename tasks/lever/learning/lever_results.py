"""The report of a run and what is made of it: the seed's JSON, plots, Prefect artifacts, rows of evaluation tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from pydantic import Field, JsonValue

from storage import evaluated as rows
from storage.artifacts import Artifacts
from storage.records import Record, Ref
from tasks.lever import lever_records as records
from tasks.lever.learning.lever_plots import draw_accuracy, draw_curves
from tasks.lever.learning.selector_comparison import Gain, SeedEstimate, SelectorScore, Summary


class SeedReport(Record):
    """The trained selectors and the evaluation of one seed."""

    seed: int
    trained: tuple[records.TrainedSelector, ...] = ()
    evaluated: Ref | None = None
    """Artifact with the Evaluated of this seed; None where the run ended before."""


class LeverReport(Record):
    """The report of a run, from its first stage to its last."""

    run: str
    started_at: datetime
    ended_at: datetime
    version: str
    """The version of Trivet that ran."""
    git_commit: str | None
    environment: dict[str, Any]
    config: dict[str, Any]
    stages: tuple[str, ...]
    """The stages that the run went through."""
    seeds: tuple[SeedReport, ...] = ()
    summary: Summary | None = None
    """Scores over all seeds; None where the run ended before."""
    files: tuple[str, ...] = ()
    """Paths of the files that were written for users."""
    notes: tuple[str, ...] = ()
    unfinished: dict[str, str] = Field(default_factory=dict[str, str])
    """Items that may succeed another time, with the reason why they failed."""

    def as_json(self) -> dict[str, Any]:
        """Return the report as `--json` prints it: `{selector: {accuracy, se}}` at the trained shots, and the rest."""
        scores = self.summary.compared() if self.summary else ()
        accuracies = {score.selector: {"accuracy": score.accuracy.value, "se": score.accuracy.se} for score in scores}
        rest = self.model_dump(mode="json", exclude={"config", "environment", "seeds"})
        return accuracies | rest | {"seeds": [seed_report.model_dump(mode="json") for seed_report in self.seeds]}


def lever_plus_json(summary: Summary) -> dict[str, dict[str, float]]:
    """Return means over seeds as Lever-Plus' `icl_inference.py` writes them: `{"<info>": {"shot_num=1": 0.52, …}}`."""
    about = summary.conditions
    seeds = f"seeds={'+'.join(map(str, summary.seeds))}"
    table: dict[str, dict[str, float]] = {}
    for score in summary.figures:
        name = score.selector.upper() if score.selector in records.TRAINED else score.selector
        info = (
            f"{about.dataset}-{name}-{about.sampler}-candidate_num:{about.pool_size}-{about.judge}-"
            f"test_data_num={score.accuracy.n}-{seeds}"
        )
        table.setdefault(info, {})[f"shot_num={score.shots}"] = score.accuracy.value
    return table


def describe_verdicts(summary: Summary) -> list[str]:
    """Describe what the selectors are beside rules, seed by seed where that differs, and how much was not judged."""
    lines = [verdict.description for verdict in summary.verdicts]
    differ = len({*lines}) > 1
    lines = [f"seed {seed}: {line}" for seed, line in zip(summary.seeds, lines, strict=False)] if differ else lines[:1]
    if unscored := sum(score.unscored for score in summary.figures):
        lines.append(f"answers that the judge did not give, and that are in no mean: {unscored:,}")
    return lines


def _describe_gain(gain: Gain) -> str:
    names = f"{gain.better} − {gain.worse}".replace("_", " ")
    return f"{names}: {gain.accuracy.value:+.3f}  ({_format_interval(gain.accuracy)})"


def accuracy_table(summary: Summary) -> list[list[str]]:
    """Return a header and a row for each selector: accuracy by shots, and a column for the trained shots' interval.

    A "·" stands for no score. Rules whose weight was tuned have it in their names.
    """
    tuned = summary.verdicts[0].tuned if summary.verdicts else {}  # the queries are the same in all seeds
    shots, trained = sorted({score.shots for score in summary.figures}), summary.conditions.trained_shots
    header = ["demonstrations by"]
    for count in shots:
        header += [f"{count} shot{'s' if count != 1 else ''}", *(["95 % interval"] if count == trained else [])]
    table = [header]
    for name in dict.fromkeys(score.selector for score in summary.figures):
        row = [name.replace("_", " ") + (f" ({tuned[name]:g})" if name in tuned else "")]
        for count in shots:
            score = summary.score_of(name, shots=count)
            bound = "≥ " if score and score.is_lower_bound else ""
            row.append(f"{bound}{score.accuracy.value:.3f}" if score else "·")
            if count == trained:
                row.append(_format_interval(score.accuracy) if score else "")
        table.append(row)
    return table


def describe_gains(summary: Summary) -> list[str]:
    """Describe the gains at the trained shots, with their intervals, a line each."""
    return [_describe_gain(gain) for gain in summary.gains if gain.shots == summary.conditions.trained_shots]


def _format_interval(estimate: SeedEstimate) -> str:
    return "—" if estimate.low is None or estimate.high is None else f"{estimate.low:.3f} … {estimate.high:.3f}"


def render_markdown(summary: Summary, *, files: Sequence[str] = (), plots: Mapping[str, str] | None = None) -> str:
    """Return the report of a run as Markdown: gains, a table of accuracies, plots and files.

    files: paths that the run wrote for users. plots: addresses of the plots, by name.
    """
    about, seeds = summary.conditions, f"{len(summary.seeds)} seed{'s' if len(summary.seeds) != 1 else ''}"
    header, *table = accuracy_table(summary)
    lines = [
        f"# {about.dataset}: {about.trained_shots} of {about.pool_size} candidates are shown",
        f"judge `{about.judge}` · encoder `{about.encoder}` · {about.sampler} · {seeds}",
    ]
    if summary.headline:
        lines += ["", f"**{_describe_gain(summary.headline)}**, paired by query and seed."]
    lines += [line for verdict in describe_verdicts(summary) for line in ("", verdict)]
    lines += ["", f"| {' | '.join(header)} |", "|---|" + "---:|" * (len(header) - 1)]
    lines += [f"| {' | '.join(row)} |" for row in table]
    lines += ["", *(f"- {line}" for line in describe_gains(summary))]
    lines += [line for name, url in (plots or {}).items() for line in ("", f"![{name}]({url})")]
    if files:
        lines += ["", "## Files", *(f"- `{file}`" for file in files)]
    return "\n".join(lines)


def database_rows(
    report: LeverReport, dataset: records.Dataset, evaluated: Callable[[], Iterable[records.Evaluated]]
) -> rows.Evaluated:
    """Return a run with a summary as rows of tables. evaluated: reads the results of all seeds, anew at each call."""
    summary = report.summary
    assert summary
    about: dict[str, JsonValue] = summary.conditions.model_dump(exclude={"dataset"})
    # without what changes no score: runs are compared where all of these are equal
    settings = {name: value for name, value in report.config.items() if name not in ("results", "device", "save")}
    # the headline is the last stage that was trained, with the shots that it was trained for
    headline = next((score for score in map(summary.score_of, reversed(records.TRAINED)) if score), None)
    results: list[rows.Result] = []
    for score in summary.figures:
        is_headline = headline is not None and score == headline
        results.append(_make_result(f"accuracy.{score.selector}", score.shots, score.accuracy, headline=is_headline))
    results += [_make_result(f"gain.{gain.better}-{gain.worse}", gain.shots, gain.accuracy) for gain in summary.gains]
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
            source="official VQA files" if isinstance(dataset.test[0], records.VqaItem) else "files of its authors",
            checksum=records.digest_items(dataset.test),
            count=len(dataset.test),
        ),
        settings=rows.EvalSettings(name="lever", parameters={**settings, **about, "seeds": list(summary.seeds)}),
        results=tuple(results),
        more_samples=lambda: _make_samples(headline, dataset, evaluated()),
    )


def _make_result(metric: str, shots: int, estimate: SeedEstimate, *, headline: bool = False) -> rows.Result:
    values = estimate.model_dump(include={"value", "low", "high", "n"})
    return rows.Result(metric=metric, part=f"shots={shots}", std_err=estimate.se, headline=headline, **values)


def _make_samples(
    headline: SelectorScore | None, dataset: records.Dataset, evaluated: Iterable[records.Evaluated]
) -> Iterator[rows.Sample]:
    """Yield a sample for each question of each seed; `repeat` counts the seeds.

    headline: the selector and shots whose answer stands for the question; None: all samples are `unscored`.
    """
    items = {item.id: item for item in dataset.test}
    headline_key = f"{headline.selector}@{headline.shots}" if headline else ""
    fields = {"pointer", "shown", "answer", "accuracy", "failed"}
    for repeat, seed_results in enumerate(evaluated):
        of_query: dict[str, dict[str, records.Outcome]] = {}
        for result in seed_results.results:
            for outcome in result.outcomes:
                of_query.setdefault(outcome.query, {})[f"{result.selector}@{result.shots}"] = outcome
        for query, outcomes in of_query.items():
            item, headline_outcome = items[query], outcomes.get(headline_key)
            item_fields: dict[str, JsonValue] = {**item.public_fields, "answers": list(item.answers)}
            choices = {name: choice.model_dump(mode="json", include=fields) for name, choice in outcomes.items()}
            yield rows.Sample(
                item=item.id,
                repeat=repeat,
                detail={"seed": seed_results.seed, **item_fields, "choices": cast(JsonValue, choices)},
                status="scored" if headline_outcome and headline_outcome.accuracy is not None else "unscored",
                score=headline_outcome.accuracy if headline_outcome else None,
                extracted=headline_outcome.answer if headline_outcome else None,
                gold=item.shown_answer,
                reason=(headline_outcome.failed or "") if headline_outcome else "no selector was trained",
                group=item.group,
                values={name: choice.accuracy for name, choice in outcomes.items() if choice.accuracy is not None},
                keys=tuple(dict.fromkeys(choice.key for choice in outcomes.values() if choice.key is not None)),
            )


def result_files(summary: Summary, seeds: Sequence[SeedReport], artifacts: Artifacts) -> dict[str, bytes]:
    """Return Lever-Plus' JSON, all scores, and plots as PNGs, of curves where something was trained, by file name."""
    trainings = [
        (selector, artifacts.load(records.Curve, selector.curve)) for seed in seeds for selector in seed.trained
    ]
    tables = {"accuracy.json": lever_plus_json(summary), "figures.json": summary.model_dump(mode="json")}
    files = {name: json.dumps(table, indent=2, ensure_ascii=False).encode() + b"\n" for name, table in tables.items()}
    files["accuracy.png"] = draw_accuracy(summary)
    return files | ({"curves.png": draw_curves(trainings, about=summary.conditions.dataset)} if trainings else {})
