"""Print and speak answers: the text, the source of each claim, and how it was found."""

from __future__ import annotations

import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.cli.output import Screen
from tasks.language.sentences import language_of, without_marks
from tasks.rag.answers import cited_place, place_of

if TYPE_CHECKING:
    from tasks.rag.answering.evidence import Evidence
    from tasks.rag.answering.graph import Event
    from tasks.rag.answers import Answered
    from tasks.rag.batching import BatchReport

console = Screen()
QUOTE_CHARS = 160
STAGES = {
    "analyze_query": "reading the question",
    "retrieve": "looking it up",
    "compute": "working out",
    "generate": "answering",
    "rewrite": "polishing",
}
_MARK = re.compile(r"(\[\d+\])")


def answer(answered: Answered) -> None:
    """Print the answer, its sources and its notes."""
    console.print(_with_marks(answered.answer), soft_wrap=not console.is_terminal)
    if answered.citations:
        console.print()
    for citation in answered.citations:
        headings = f" · {' › '.join(citation.place.heading_path)}" if citation.place.heading_path else ""
        where = cited_place(citation)
        line(f"[cyan]\\[{citation.n}][/cyan] {escape(where + headings)}")
        line(f"    [dim]“{escape(textwrap.shorten(citation.quote, QUOTE_CHARS, placeholder=' …'))}”[/dim]")
    for sentence in answered.unsupported:
        line(f"[yellow]not supported[/yellow] {escape(sentence)}")
    if answered.plan.filters.ambiguous:
        names = "; ".join(answered.plan.filters.ambiguous)
        line(f"[yellow]several documents fit[/yellow] {escape(names)}")
    for note in answered.notes:
        line(f"[yellow]note[/yellow] {escape(note)}")


def explain(answered: Answered) -> None:
    """Print plan, filters, rank per retriever, what the token budget left out, and timings."""
    plan, filters = answered.plan, answered.plan.filters
    why = f", {plan.decided_by}" + (f": {', '.join(plan.words)}" if plan.words else "")
    console.rule("how it was found", style="dim")
    line(f"plan      {plan.query_type} ({escape(why.removeprefix(', '))}) → {plan.strategy}, top {plan.top_k}")
    for match in filters.matches:
        line(f"filter    {match.field} {escape(match.value)} ← “{escape(match.said)}” ({match.confidence:.2f})")
    if filters.mode != "all":
        line(f"          {filters.mode} {len(filters.documents)} of the documents")
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("", "score", "ranks", "place"):
        table.add_column(name, overflow="fold")
    for number, hit in enumerate(answered.retrieved, start=1):
        ranks = ", ".join(f"{name} {rank}" for name, rank in hit.ranks.items())
        left_out = "" if hit.used else " (left out: token budget)"
        where = place_of(hit.document, hit.page, hit.page_source)
        table.add_row(str(number), f"{hit.score:.4f}", ranks, escape(where + left_out))
    console.print(table)
    if not any("rerank" in hit.ranks for hit in answered.retrieved):
        line("rerank    off: no cross-encoder is named (--rerank NAME, TRIVET_RERANKER)")
    if answered.reason:
        line(f"answer    {escape(answered.reason)}")
    for call in answered.calls:
        said = "from the response store" if call.cached else "asked"
        line(f"call      {call.role}: {escape(call.model)}, {said}, key {call.key[:12]}")
    line("seconds   " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in answered.timings.items()))


def evidence(pictures: Evidence) -> None:
    """Print the files of the cited pages."""
    for file in pictures.files:
        line(f"[green]evidence[/green] {escape(str(file))}")
    for note in pictures.notes:
        line(f"[yellow]note[/yellow] {escape(note)}")


def batch(report: BatchReport) -> None:
    """Print the counts of a batch."""
    console.print(f"[bold]{escape(report.out)}[/bold] holds {report.questions:,} answers")
    console.print(
        f"  answered   {report.answered:,}, {report.unsupported:,} of them with a sentence that is not supported"
    )
    console.print(f"  abstained  {report.abstained:,}: the documents do not tell")
    if report.failed:
        console.print(f"  [red]failed[/red]     {report.failed:,}: empty, too long, or refused by the model")


@contextmanager
def live(*, quiet: bool = False) -> Generator[Callable[[Event], None] | None]:
    """Show the draft while it is generated, and remove it afterwards; only on a terminal."""
    if quiet or not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=12, transient=True) as shown:

        def on_event(event: Event) -> None:
            # the console escapes nothing in a Text, so that a draft cannot draw
            said = f"{STAGES.get(event.text, event.text)} …" if event.kind == "stage" else event.text
            lines = Text(said, style="dim").wrap(console, console.width)
            shown.update(Text("\n").join(lines[-max(1, console.height - 2) :]))  # more would flood the scrollback

        yield on_event


def _with_marks(text: str) -> Text:
    """The answer with coloured citation marks, and no markup of its own."""
    shown = Text()
    for part in _MARK.split(text):
        shown.append(part, style="cyan" if _MARK.fullmatch(part) else None)
    return shown


def line(markup: str) -> None:
    """Print a line, wrapped between words on a terminal only."""
    console.print(markup, soft_wrap=not console.is_terminal)


VOICES = {"ko": "ko", "en": "en-us"}
MISSING = "not read aloud: espeak-ng is not installed; install it with `apt-get install espeak-ng`"
LONGEST_S = 600.0


def say(text: str) -> None:
    """Read `text` aloud, or print on stderr why that is not possible."""
    if reason := speak(text):
        typer.secho(reason, dim=True, err=True)


def speak(text: str, *, wav: Path | None = None) -> str | None:
    """Read `text` aloud, or into the file `wav`; returns a sentence if that is not possible."""
    program = shutil.which("espeak-ng")
    if program is None:
        return MISSING
    plain = without_marks(text).strip()
    if not plain:
        return None
    target = ["-w", str(wav)] if wav else []
    try:
        done = subprocess.run(
            [program, "-v", VOICES[language_of(plain)], "-b", "1", *target, "--stdin"],
            input=plain.encode(),
            capture_output=True,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"stopped reading after {LONGEST_S:g} s"
    if wav and done.returncode == 0 and not wav.exists():  # espeak-ng reports no error for this
        return f"not read aloud: {wav} cannot be written"
    return _reason(done)


def _reason(done: subprocess.CompletedProcess[bytes]) -> str | None:
    said = done.stderr.decode(errors="replace").strip().splitlines()
    # without a sound card espeak-ng still exits with 0
    if done.returncode == 0 and not any(one.lower().startswith("error") for one in said):
        return None
    if any(one.startswith("ALSA") for one in said):
        return "not read aloud: there is no sound device that espeak-ng can use"
    return f"not read aloud: espeak-ng failed: {said[-1] if said else f'exit code {done.returncode}'}"
