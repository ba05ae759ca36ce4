"""Formats figures and the state of a night for page and flow run, and writes the report in markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import get_args

from storage.evaluations import Figure
from storage.incidents import Incident
from tasks.measure.page_style import plain_markdown as _plain
from tasks.nightly.night_records import Change, IndexRun, Measure, ModelFactsOfNight, NightReport, Score, State, Verdict

WORDS: dict[State, str] = {
    "Completed": "nothing got worse beyond noise",
    "CompletedWithFailures": "some parts failed, for good",
    "Failed": "some parts are missing; Retry does only these",
    "Regressed": "something got worse beyond noise, and is neither back nor accepted",
}
VERDICTS: dict[str, str] = {verdict: verdict for verdict in get_args(Verdict)} | {"same run": "unchanged"}
MARKS = {"worse": "▼ ", "drifting": "▼ ", "better": "▲ "}
FOUND = {
    "worse": "worse",
    "not back": "not back yet",
    "not comparable": "not comparable any more",
    "back": "back",
}
MINUS = "−"
NONE = "–"
NAMED = 4
MOST_SHOWN = 10
"""Number of nights of an incident in a row of the table."""


def tone(verdict: Verdict) -> str:
    """Class of the page for a verdict; empty without a movement."""
    return {"worse": "worse", "drifting": "worse", "better": "better"}.get(verdict, "")


def figure(value: float | None, *, like: float | None = None) -> str:
    """Three decimals up to 1, two above. like: the figure whose scale counts instead."""
    if value is None:
        return NONE
    decimals = 3 if abs(value if like is None else like) <= 1 else 2
    return f"{value:.{decimals}f}".replace("-", MINUS)


def signed(value: float | None, *, like: float) -> str:
    """A difference, with the decimals of `like`."""
    if value is None:
        return NONE
    decimals = 3 if abs(like) <= 1 else 2
    shown = f"{value:+.{decimals}f}"
    return "±0" if float(shown) == 0 else shown.replace("-", MINUS)


def interval(measure: Measure | Figure) -> str:
    if measure.low is None or measure.high is None:
        return NONE
    return f"{figure(measure.low, like=measure.value)} to {figure(measure.high, like=measure.value)}"


def difference_interval(change: Change) -> str:
    """The 95 % interval of the difference."""
    if change.low is None or change.high is None:
        return NONE
    return f"{signed(change.low, like=change.now.value)} to {signed(change.high, like=change.now.value)}"


def chance(p: float | None) -> str:
    if p is None:
        return NONE
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def money(cost: float | None) -> str:
    """A cost in the currency of the prices."""
    return NONE if cost is None else f"{cost:,.4f}" if cost < 1 else f"{cost:,.2f}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d}"


def count(number: int, what: str) -> str:
    """`1 model`, `2 models`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def caution(report: NightReport) -> str:
    """How far changes can be believed; empty if nothing was compared."""
    tested = sum(change.p is not None for change in report.changes)
    if not tested:
        return ""
    return f"{count(tested, 'comparison')}; of those called better or worse at most 5 % are so by chance, on average."


def sentence(report: NightReport) -> str:
    """Message of the flow run: what got worse, what is missing, what to do."""
    parts: list[str] = []
    if regressions := report.regressions:
        parts.append(f"{count(len(regressions), 'regression')}: {_few([_told(one) for one in regressions])}")
    told = {(one.of, one.task) for one in regressions}
    if others := [one for one in report.open_incidents if one.figure not in told]:
        parts.append(f"{count(len(others), 'open incident')}: {_few(list(map(incident, others)))}")
    passing = [one for one in report.failures if one.may_pass]
    lasting = [one for one in report.failures if not one.may_pass]
    if passing:
        parts.append(f"not finished: {_few([f'{one.what} ({one.why})' for one in passing])}; Retry does only these")
    if lasting:
        parts.append(f"failed for good: {_few([f'{one.what} ({one.why})' for one in lasting])}")
    return ". ".join(parts) or f"{count(len(report.scores), 'score')}, none worse beyond noise"


def incident(one: Incident) -> str:
    """An incident in a sentence."""
    moved = f"{one.of} on {one.task} {figure(one.baseline_value)} → {figure(one.last.value)}"
    since = f"since {day(one.opened.at)}, {count(len(one.events), 'night')}"
    match one.status:
        case "accepted":
            return f"{moved}, {since}, accepted: {one.word}"
        case "back":
            return f"{moved}, {since}, back on {day(one.last.at)}"
        case "open":
            found = "slow fall" if one.kind == "drift" and len(one.events) == 1 else FOUND[one.last.found]
            return f"{moved}, {since}, {found}; incident {one.short_id}"


def _told(change: Change) -> str:
    assert change.before
    p = "" if change.p is None else f", p = {change.p:.3g}"
    return (
        f"{change.of} on {change.task} {change.before.value:.3f} → {change.now.value:.3f} "
        f"({change.difference:+.3f}{p}; run {change.now.run[:8]} after {change.before.run[:8]})"
    )


def _few(parts: Sequence[str]) -> str:
    more = f" … and {len(parts) - NAMED} more" if len(parts) > NAMED else ""
    return "; ".join(parts[:NAMED]) + more


def markdown_of(report: NightReport, *, plots: Mapping[str, str] | None = None) -> str:
    """The report. plots: URLs of the pictures by name."""
    return "\n".join(_lines(report, plots or {})) + "\n"


def _lines(report: NightReport, plots: Mapping[str, str]) -> Iterator[str]:
    night = report.night
    yield f"# Night of {day(night.started_at)}: {_plain(night.suite)}"
    yield ""
    yield f"**{report.state}** — {WORDS[report.state]}"
    yield ""
    commit = f" · commit `{night.git_commit[:12]}`" if night.git_commit else ""
    yield (
        f"run `{night.run}` · {night.started_at:%F %R} UTC · {count(len(night.models), 'model')} · "
        f"{count(report.nights, 'night')} known · Trivet {night.version}{commit}"
    )
    yield from _section("Worse beyond noise", [line for one in report.regressions for line in _regression(one)])
    yield from _incidents(report)
    remedies = {True: "Retry does only this", False: "for good"}
    failures = [f"**{_plain(one.what)}** ({remedies[one.may_pass]}): {_plain(one.why)}" for one in report.failures]
    yield from _section("Failures", failures)
    yield from _scores(report)
    yield from _changes(report)
    if said := caution(report):
        yield from ("", said)
    if plots:
        yield from ("", "## Plots", "")
        yield from (f"![{_plain(name)}]({address})\n" for name, address in plots.items())
    yield from _figures("Index", report.index, report.night.index)
    yield from _figures("Selector", report.selector)
    yield from _costs(report)
    yield from _section("To know", [_plain(note) for note in report.notes])


def _section(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield from ("", f"## {title}", "")
        yield from (line if line.startswith(" ") else f"- {line}" for line in lines)


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Collection[str]
) -> Iterator[str]:
    """A markdown table below its title; nothing without rows. numbers: right-aligned columns."""
    if not rows:
        return
    yield from ("", f"## {title}", "") if title else ()
    yield f"| {' | '.join(columns)} |"
    yield f"|{'|'.join('---:' if column in numbers else ':---' for column in columns)}|"
    yield from (f"| {' | '.join(cells)} |" for cells in rows)


def _regression(change: Change) -> Iterator[str]:
    assert change.before
    yield (
        f"**{_plain(change.of)}** on **{_plain(change.task)}**: {figure(change.before.value)} → "
        f"{figure(change.now.value)} ({signed(change.difference, like=change.now.value)}, 95 % "
        f"{difference_interval(change)}, p {chance(change.p)}), run `{change.now.run[:8]}` after "
        f"`{change.before.run[:8]}`"
    )
    for flip in change.worse:
        answer = "no answer" if flip.answer_after is None else f"“{_plain(flip.answer_after)}”"
        told = f", said {answer} for “{_plain(flip.gold)}”" if flip.gold else ""
        yield f"    - item `{_code(flip.item)}`: {figure(flip.before)} → {figure(flip.after)}{told}"


def _incidents(report: NightReport) -> Iterator[str]:
    columns = ("incident", "figure", "baseline", "opened", "now", "state", "nights")
    yield from _table(
        "Incidents", columns, list(map(_incident, report.incidents)), numbers=("baseline", "opened", "now")
    )
    if report.open_incidents:
        yield ""
        yield "Open until the figure is back, or until `trivet nightly accept INCIDENT --why …`."


def _incident(one: Incident) -> tuple[str, ...]:
    state = f"accepted: {_plain(one.word)}" if one.status == "accepted" else one.status
    return (
        f"`{one.short_id}`",
        f"{_plain(one.of)} on {_plain(one.task)}",
        f"{figure(one.baseline_value)} `{one.baseline_run[:8]}`",
        f"{figure(one.opened.value)} on {day(one.opened.at)}",
        f"{figure(one.last.value)} on {day(one.last.at)}",
        f"{state} ({one.kind})",
        " ".join(figure(event.value) for event in one.events[-MOST_SHOWN:]),
    )


def _scores(report: NightReport) -> Iterator[str]:
    changes = {(change.of, change.task): change for change in report.changes}
    yield from _table(
        "Scores",
        ("model", "benchmark", "metric", "score", "95 % interval", "change", "items", "unscored", "run"),
        [_score(score, changes.get((score.model, score.task))) for score in report.scores],
        numbers=("score", "change", "items", "unscored"),
    )


def _score(score: Score, change: Change | None) -> tuple[str, ...]:
    one = score.measure
    moved = NONE
    if change and change.difference is not None:
        moved = f"{MARKS.get(change.verdict, '')}{signed(change.difference, like=change.now.value)}"
    return (
        _plain(score.model),
        _plain(score.task),
        one.metric if one else "none scored",
        figure(one.value) if one else NONE,
        interval(one) if one else NONE,
        moved,
        f"{score.counts.items:,}",
        f"{score.counts.unscored:,}",
        f"`{score.run[:8]}`{' (earlier)' if score.earlier else ''}",
    )


def _changes(report: NightReport) -> Iterator[str]:
    yield from _table(
        "Change against the baseline",
        ("what", "figure", "before", "now", "difference", "95 % interval", "p", "won / lost", "verdict"),
        list(map(_change, report.changes)),
        numbers=("before", "now", "difference", "p", "won / lost"),
    )


def _change(change: Change) -> tuple[str, ...]:
    before = f"{figure(change.before.value)} `{change.before.run[:8]}`" if change.before else NONE
    why = f": {_plain('; '.join(change.why))}" if change.why else ""
    return (
        _plain(change.of),
        _plain(change.task),
        before,
        f"{figure(change.now.value)} `{change.now.run[:8]}`",
        signed(change.difference, like=change.now.value),
        difference_interval(change),
        chance(change.p),
        NONE if change.wins is None else f"{change.wins} / {change.losses}",
        f"{MARKS.get(change.verdict, '')}{VERDICTS[change.verdict]}{why}",
    )


def _figures(title: str, measures: Sequence[Measure], built: IndexRun | None = None) -> Iterator[str]:
    if not (measures or built):
        return
    yield from ("", f"## {title}", "")
    if built:
        failed = f", {built.failed} could not be read" if built.failed else ""
        yield (
            f"generation `{built.generation}` · {count(built.documents, 'document')}{failed} · "
            f"{count(built.chunks, 'chunk')} · refreshed by run `{built.run[:8]}`"
        )
        yield ""
    columns = ("figure", "value", "95 % interval", "n", "run")
    yield from _table("", columns, list(map(_figure, measures)), numbers=("value", "n"))


def _figure(one: Measure) -> tuple[str, ...]:
    name = f"{one.metric} ({one.part})" if one.part else one.metric
    return _plain(name), figure(one.value), interval(one), f"{one.n:,}", f"`{one.run[:8]}`"


def _costs(report: NightReport) -> Iterator[str]:
    yield from _table(
        "Cost",
        ("model", "backend", "revision", "answers", "asked this night", "tokens", "cost", "took", "run"),
        list(map(_cost, report.models)),
        numbers=("answers", "asked this night", "tokens", "cost", "took"),
    )


def _cost(one: ModelFactsOfNight) -> tuple[str, ...]:
    return (
        _plain(one.label if one.label == one.name else f"{one.label} ({one.name})"),
        _plain(one.backend),
        f"`{_plain(one.revision[:12])}`" if one.revision else NONE,
        f"{one.answers:,}",
        f"{one.calls:,}",
        f"{one.tokens:,}",
        money(one.cost),
        duration(one.seconds),
        f"`{one.run}`",
    )


def _code(text: str) -> str:
    """`text` escaped for use between backticks."""
    return " ".join(text.split()).replace("`", "'").replace("|", "/").replace("<", "‹").replace(">", "›")
