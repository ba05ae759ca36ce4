"""The pages of selectors: runs, figures and curves of one, and each query with the demonstrations that were chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, cast
from urllib.parse import urlencode

from fastapi.responses import Response

from flows.service.web.line_plots import Plot, plot_of
from flows.service.web.rendering import HEADERS
from flows.service.web.visits import ROOT, Page, Problem, Visit
from storage.evaluated import Evaluated, Result, Run, Sample
from storage.sample_pages import After, SampleKind
from storage.storage_errors import StorageError
from tasks.lever.lever_errors import DatasetUnusable
from tasks.lever.lever_records import SELECTORS, SIMILARITY, TRAINED, Item, TextItem, VqaItem
from tasks.measure.page_style import axis_around
from tasks.origins.of_selectors import Learnt, dataset_of, trainings_of

MOST_RUNS, PAGE, MOST_LINES = 100, 50, 7
PICTURE_PX = 384
"""Longest side of a picture of a page."""
TICKS = 4
DRAWN = (SIMILARITY, *TRAINED, "random", "similarity_pool", "oracle")
"""Selectors that have a line in the plot over shots, as far as there are so many."""
LISTED = ("zero_shot", "random", SIMILARITY, *TRAINED, "oracle")
"""Selectors that have a column in the list of queries."""
MOVED = ("better", "worse")
"""Queries on which what was trained last does better, or worse, than nearest neighbours."""
KINDS = ("all", *MOVED, "wrong", "unscored")
LEARNT = {"loss": "loss", "reward_mean": "mean reward"}
"""Figures of trainings that are drawn, with their names."""
ACCURACY, GAIN, SHOTS = "accuracy.", "gain.", "shots="


def _runs(visit: Visit) -> Response:
    evaluations = visit.workplace.evaluations()
    runs = evaluations.runs(kind="lever", limit=MOST_RUNS)
    found = evaluations.results_of([run.id for run in runs])
    return visit.page("selectors.html", rows=[(run, _Measured(found[run.id])) for run in runs if found[run.id]])


class _Measured:
    """The figures of a run, as its pages show them."""

    def __init__(self, found: Sequence[Evaluated]) -> None:
        [self.evaluated] = found[:1]
        self.results = self.evaluated.results
        self.settings = self.evaluated.settings.parameters
        self.headline = next((one for one in self.results if one.headline), None)
        self.shots = sorted({_shots(one) for one in self.results})
        self.trained = _shots(self.headline) if self.headline else max(self.shots, default=0)

    @property
    def name(self) -> str:
        """Of the dataset."""
        return self.evaluated.dataset.name

    @property
    def selectors(self) -> list[str]:
        """In the order of tables."""
        named = list(dict.fromkeys(one.metric.removeprefix(ACCURACY) for one in self._of(ACCURACY)))
        known = [one for one in SELECTORS[:-1] if one in named]
        return [*known, *(one for one in named if one not in SELECTORS), *(["oracle"] if "oracle" in named else [])]

    def accuracy(self, selector: str, shots: int) -> Result | None:
        return next((one for one in self._of(ACCURACY + selector, exactly=True) if _shots(one) == shots), None)

    def shown(self, selector: str) -> Result | None:
        """The figure that counts: at the shots that were trained for, or without any."""
        return self.accuracy(selector, self.trained) or self.accuracy(selector, 0)

    @property
    def gains(self) -> list[tuple[str, str, Result]]:
        """Better, worse, difference, at the shots that were trained for; the headline first."""
        at = [one for one in self._of(GAIN) if _shots(one) == self.trained]
        return [(*_pair(one.metric), one) for one in at]

    @property
    def gain(self) -> tuple[str, str, Result] | None:
        """What was trained last less nearest neighbours."""
        last = self.headline.metric.removeprefix(ACCURACY) if self.headline else ""
        return next((one for one in self.gains if one[:2] == (last, SIMILARITY)), None)

    def moved(self, *, better: bool) -> tuple[str, str]:
        """Names of the figures of samples of which the first is below the second where training did better, or not."""
        last = self.headline.metric.removeprefix(ACCURACY) if self.headline else ""
        pair = f"{SIMILARITY}@{self.trained}", f"{last}@{self.trained}"
        return pair if better else (pair[1], pair[0])

    def _of(self, metric: str, *, exactly: bool = False) -> Iterator[Result]:
        return (one for one in self.results if (one.metric == metric if exactly else one.metric.startswith(metric)))


def _shots(one: Result) -> int:
    return int(one.part.removeprefix(SHOTS))


def _pair(metric: str) -> tuple[str, str]:
    better, _, worse = metric.removeprefix(GAIN).partition("-")
    return better, worse


def _found(visit: Visit) -> tuple[Run, _Measured]:
    """The run of the address. Raises Problem, UnknownRun."""
    evaluations = visit.workplace.evaluations()
    run = evaluations.run(visit.path["run"])
    found = evaluations.task_results(run.id)
    if run.kind != "lever" or not found:
        raise Problem(404, f"run {run.id} measured no selectors; `trivet lever run` does")
    return run, _Measured(found)


def _run(visit: Visit) -> Response:
    run, measured = _found(visit)
    figures = [one for name in measured.selectors if (one := measured.shown(name))]
    ends = [end for one in figures for end in (one.low, one.value, one.high) if end is not None]
    axis = axis_around(min(ends), max(ends), step_at_least=max(max(ends) - min(ends), 1e-3) / TICKS)
    trainings, untold = _trainings(run.id)
    return visit.page(
        "selector.html",
        run=run,
        measured=measured,
        axis=axis,
        headline=measured.headline.metric.removeprefix(ACCURACY) if measured.headline else "",
        by_shots=_by_shots(measured),
        trainings=trainings,
        untold=untold,
        queries=f"{ROOT}/selectors/{run.id}/queries",
    )


def _by_shots(measured: _Measured) -> Plot | None:
    """Accuracy by number of demonstrations; None where only one was measured."""
    drawn = [name for name in DRAWN if name in measured.selectors][:MOST_LINES]
    lines = {
        name: [(float(n), one.value) for n in measured.shots if (one := measured.accuracy(name, n))] for name in drawn
    }
    return plot_of("", {name: line for name, line in lines.items() if len(line) > 1}, whole=True)


def _trainings(run: str) -> tuple[list[tuple[str, list[Plot]]], str]:
    """Stage and its plots, a line for each seed; and why they cannot be told."""
    from tasks.resources import artifacts, lineage

    try:
        found = trainings_of(run, artifacts(), lineage())
    except StorageError as error:
        return [], str(error)
    by_stage: dict[str, list[Learnt]] = {}
    for one in found:
        by_stage.setdefault(one.stage, []).append(one)
    drawn = [
        (stage, [plot for figure, name in LEARNT.items() if (plot := _learning(seeds, figure, name))])
        for stage, seeds in by_stage.items()
    ]
    return [(stage, plots) for stage, plots in drawn if plots], ""


def _learning(seeds: Sequence[Learnt], figure: str, name: str) -> Plot | None:
    """A figure by update, a line for each seed."""
    lines = {
        f"#{number}": [(float(at.step), at.figures[figure]) for at in one.points if figure in at.figures]
        for number, one in enumerate(seeds, start=1)
    }
    return plot_of(name, {number: line for number, line in lines.items() if len(line) > 1})


def _queries(visit: Visit) -> Response:
    from tasks.resources import sample_pages

    run, measured = _found(visit)
    kind = visit.query.get("kind", "all")
    if kind not in KINDS:
        raise Problem(404, f"there are no queries of the kind {kind[:40]}; choose one of {', '.join(KINDS)}")
    item, repeat = visit.query.get("item"), visit.query.get("repeat", "0")
    if not repeat.isdecimal():
        raise Problem(404, f"{repeat[:20]} is no seed; seeds count from 0")
    after = After(item, int(repeat)) if item else None
    of_all: SampleKind = "all" if kind in MOVED else cast("SampleKind", kind)
    page = sample_pages().page(
        run.id,
        "",
        kind=of_all,
        after=after,
        most=PAGE + 1,
        below=measured.moved(better=kind == "better") if kind in MOVED else None,
    )

    def link(**more: Any) -> str:
        return f"{ROOT}/selectors/{run.id}/queries?{urlencode({'kind': kind} | more)}"

    last = page[PAGE - 1] if len(page) > PAGE else None
    return visit.page(
        "selector_queries.html",
        run=run,
        measured=measured,
        kinds=[(name, link(kind=name)) for name in KINDS if name not in MOVED or measured.gain],
        kind=kind,
        shown=[name for name in LISTED if measured.shown(name)],
        rows=[(one, _link(run.id, one.item)) for one in page[:PAGE]],
        figure=lambda one, name: one.values.get(f"{name}@{measured.trained}", one.values.get(f"{name}@0")),
        asked=_asked,
        more=link(item=last.item, repeat=last.repeat) if last else "",
        first=link() if after else "",
    )


def _link(run: str, item: str) -> str:
    return f"{ROOT}/selectors/{run}/query?{urlencode({'item': item})}"


def _asked(one: Sample) -> str:
    """The text of a query."""
    return str(one.detail.get("question") or one.detail.get("text") or one.item)


class Shown(NamedTuple):
    """An item on a page."""

    id: str
    text: str
    answer: str
    picture: str
    """Address; empty where it has none."""


def _query(visit: Visit) -> Response:
    run, measured = _found(visit)
    item = visit.query.get("item", "")
    rows = visit.workplace.evaluations().sample(run.id, "", item)
    if not rows:
        raise Problem(404, f"run {run.id} has no query {item[:80]}")
    known, untold = _items(run.id)
    said = visit.query.get("shots", str(measured.trained))
    shots = int(said) if said.isdecimal() and int(said) in measured.shots else measured.trained
    return visit.page(
        "selector_query.html",
        run=run,
        measured=measured,
        query=_shown(run.id, item, known) or Shown(item, _asked(rows[0]), "", ""),
        answers=rows[0].detail.get("answers", []),
        shots=shots,
        others=[(n, f"{_link(run.id, item)}&shots={n}") for n in measured.shots if n],
        seeds=[(one.detail.get("seed"), _choices(run.id, one, measured, shots, known)) for one in rows],
        untold=untold,
    )


def _choices(
    run: str, one: Sample, measured: _Measured, shots: int, known: Mapping[str, Item]
) -> list[tuple[str, dict[str, Any], list[Shown]]]:
    """Selector, what the judge made of its choice, and the demonstrations that it chose, in order."""
    choices = cast("dict[str, dict[str, Any]]", one.detail.get("choices", {}))
    found = [(name, choices.get(f"{name}@{shots}", choices.get(f"{name}@0"))) for name in measured.selectors]
    return [
        (name, choice, [_shown(run, each, known) or Shown(each, each, "", "") for each in choice["shown"]])
        for name, choice in found
        if choice
    ]


def _shown(run: str, item: str, known: Mapping[str, Item]) -> Shown | None:
    match known.get(item):
        case VqaItem(question=text, shown_answer=answer):
            return Shown(item, text, answer, f"{ROOT}/selectors/{run}/picture?{urlencode({'item': item})}")
        case TextItem(text=text, label=label):
            return Shown(item, text, label, "")
        case None:
            return None


def _items(run: str) -> tuple[Mapping[str, Item], str]:
    """The items of a run's dataset by id; none, and why, where they are not known any more."""
    try:
        found = _items_of(run)
    except StorageError as error:
        return {}, str(error)
    return found, "" if found else "the dataset of this run is not in the store of this home: only ids are known"


@lru_cache(maxsize=2)
def _items_of(run: str) -> Mapping[str, Item]:
    from tasks.resources import artifacts, lineage

    dataset = dataset_of(run, artifacts(), lineage())
    return {one.id: one for one in dataset.items} if dataset else {}


def _picture(visit: Visit) -> Response:
    """The picture of an item of the run's dataset; never of another file."""
    from tasks.lever.data.dataset_pictures import Pictures

    run, _ = _found(visit)
    item = _items(run.id)[0].get(visit.query.get("item", ""))
    if not isinstance(item, VqaItem):
        raise Problem(404, "this item has no picture")
    try:
        return Response(Pictures(longest_side_px=PICTURE_PX)(item).png, media_type="image/png", headers=HEADERS)
    except DatasetUnusable as error:
        raise Problem(404, str(error)) from error


PAGES = (
    Page("GET", "/selectors", _runs),
    Page("GET", "/selectors/{run}", _run),
    Page("GET", "/selectors/{run}/queries", _queries),
    Page("GET", "/selectors/{run}/query", _query),
    Page("GET", "/selectors/{run}/picture", _picture),
)
