"""A run as a picture: what it used ─► its steps ─► what came of it, from the edges that they recorded."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from statistics import fmean
from typing import NamedTuple

from storage.lineage import Lineage, Ran
from tasks.origins.told import MOST, Told

WIDTH, HEIGHT, GAP, ROW = 260, 44, 28, 92
"""Of a box, between two of them, and from one row to the next, in pixels."""
NAME_CHARS, TEXT_CHARS, KINDS = 30, 44, 3
"""Most characters of the two lines of a box, and most kinds that are named beside an arrow."""
MOST_RESULTS = 5
STYLE = """
  .paper { fill: #ffffff } text { fill: #1b1f24; font: 12px system-ui, "Segoe UI", Roboto, sans-serif }
  .name { font-weight: 650; font-size: 13px } .soft { fill: #5d6570; font-size: 11px }
  .box { fill: #ffffff; stroke: #0072b2; stroke-width: 1.5 } .before { stroke: #8a9099; stroke-dasharray: 5 4 }
  .arrow { stroke: #8a9099; fill: none } .head { fill: #8a9099 } .halo { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    .paper, .box, .halo { fill: #14171b } text { fill: #e8eaed } .soft { fill: #9aa3ad } .box { stroke: #56b4e9 }
    .before { stroke: #8a9099 }
  }
"""
"""Colours of `measure/page/look.css`, light and dark; the paper is drawn, since the page around may be either."""


class Result(NamedTuple):
    """What a run made and none of its steps used."""

    kind: str
    digest: str


@dataclass
class _Node:
    """A box: all that a step did, what it used that no step here made, or what came of it."""

    name: str
    text: str
    look: str
    rank: int = 0
    sources: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    """Kinds of what it used, counted, by the box that they come from."""
    x: float = 0.0


def steps_of_run(run: str, lineage: Lineage, *, found: Iterable[str] = ()) -> list[Ran]:
    """The steps that ran for a flow run, those of these keys, and those that had made before what these used.

    Raises StoreUnreachable, DatabaseUnavailable.
    """
    keys = set(found)
    steps = lineage.of_run(run, found=keys)
    unknown = unknown_in(steps)[:MOST]
    makers = {one.step.key for one in lineage.origins(unknown, most=len(unknown)).values() if one.step}
    return lineage.of_run(run, found=keys | makers) if makers else steps


def steps_told(trees: Iterable[Told], lineage: Lineage) -> list[Ran]:
    """The steps that made what these trees tell. Raises StoreUnreachable, DatabaseUnavailable."""
    keys, waiting = set[str](), list(trees)
    while waiting:
        told = waiting.pop()
        waiting += told.sources
        keys |= {told.step.key} if told.step else set()
    return lineage.of_run("", found=keys) if keys else []


def results_of(steps: Iterable[Ran]) -> list[Result]:
    """What these steps made and none of them used, the last first."""
    listed = list(steps)
    used = {edge.digest for one in listed for edge in one.edges if not edge.made}
    made = (edge for one in reversed(listed) for edge in one.edges if edge.made)
    return list(dict.fromkeys(Result(edge.kind, edge.digest) for edge in made if edge.digest not in used))


def unknown_in(steps: Iterable[Ran]) -> list[str]:
    """Digests that these steps used and none of them made."""
    listed = list(steps)
    made = {edge.digest for one in listed for edge in one.edges if edge.made}
    return list(dict.fromkeys(edge.digest for one in listed for edge in one.edges if edge.digest not in made))


def markdown_of(steps: Sequence[Ran], *, run: str) -> str:
    """The picture of a flow run, and how to ask where its results come from."""
    picture = b64encode(svg_of(steps, run=run).encode()).decode()
    ran = sum(one.step.run == run for one in steps)
    told = f"{ran:,} steps made something new, {len(steps) - ran:,} had made it before (dashed)."
    results = results_of(steps)
    asked = [f"trivet why {one.digest[:12] if len(one.digest) == 64 else one.digest}" for one in results[:MOST_RESULTS]]
    lines = [f"- `{command}` — {one.kind or 'digest'}" for command, one in zip(asked, results, strict=False)]
    more = [f"- and {len(results) - MOST_RESULTS:,} more"] if len(results) > MOST_RESULTS else []
    where = ["", "Where each result comes from, down to the files:", "", *lines, *more] if lines else []
    return "\n".join([f"![{told}](data:image/svg+xml;base64,{picture})", "", told, *where, ""])


def svg_of(steps: Sequence[Ran], *, run: str) -> str:
    """An SVG that is its own page: steps of a name are one box, and an arrow tells what one used of another."""
    nodes = _nodes(steps, run)
    rows: dict[int, list[_Node]] = {}
    for node in nodes.values():
        rows.setdefault(node.rank, []).append(node)
    width = max(map(len, rows.values())) * (WIDTH + GAP) + GAP
    height = (len(rows) - 1) * ROW + HEIGHT + 2 * GAP
    top = {rank: GAP + at * ROW for at, rank in enumerate(sorted(rows))}
    for rank in sorted(rows):
        row = sorted(rows[rank], key=lambda node: fmean([nodes[one].x for one in node.sources] or [width]))
        for at, node in enumerate(row):
            node.x = width / 2 + (at - (len(row) - 1) / 2) * (WIDTH + GAP)
    arrows = [
        _arrow(nodes[source], top[nodes[source].rank] + HEIGHT, node, top[node.rank], kinds)
        for node in nodes.values()
        for source, kinds in node.sources.items()
    ]
    boxes = [_box(node, top[node.rank]) for node in nodes.values()]
    drawn = [*(line for line, _ in arrows), *(words for _, words in arrows), *boxes]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f'<style>{STYLE}</style><rect class="paper" width="{width}" height="{height}" rx="6"/>{"".join(drawn)}</svg>'
    )


def _nodes(steps: Sequence[Ran], run: str) -> dict[str, _Node]:
    """Boxes by name of their step; `<` and `>` before a name are those of what it used, and of what came of it."""
    groups: dict[str, list[Ran]] = {}
    for one in steps:
        groups.setdefault(one.step.step, []).append(one)
    nodes = {name: _step(group, run) for name, group in groups.items()}
    maker = {edge.digest: one.step.step for one in reversed(steps) for edge in one.edges if edge.made}
    used = {name: {edge.digest: edge for one in group for edge in one.edges} for name, group in groups.items()}
    for name, edges in used.items():
        for edge in edges.values():
            if (source := maker.get(edge.digest, name)) != name:
                nodes[name].sources.setdefault(source, Counter())[edge.kind] += 1
    _reduce(nodes)
    seen = set(maker)
    for name in sorted(used, key=lambda one: nodes[one].rank):  # what several steps used leads to the first of them
        if fresh := {digest: edge.kind or edge.name for digest, edge in used[name].items() if digest not in seen}:
            seen |= set(fresh)
            nodes[f"<{name}"] = _Node(_counted(Counter(fresh.values())), "used", "", nodes[name].rank - 1)
            nodes[name].sources[f"<{name}"] = Counter()
    results = dict[str, Counter[str]]()
    for one in results_of(steps):
        results.setdefault(maker[one.digest], Counter())[one.kind or "digest"] += 1
    for name, kinds in results.items():
        nodes[f">{name}"] = _Node(_counted(kinds), "made", "", nodes[name].rank + 1, {name: Counter()})
    return nodes


def _step(group: Sequence[Ran], run: str) -> _Node:
    ran = [one.step for one in group if one.step.run == run]
    versions = ", ".join(str(one) for one in sorted({one.step.version for one in group}))
    parts = [f"version {versions}"]
    if ran:
        parts.append(f"{len(ran):,} ran in {sum(step.seconds for step in ran):,.1f} s")
    if len(ran) < len(group):
        parts.append(f"{len(group) - len(ran):,} before")
    name = group[0].step.step.rpartition(".")[2]
    return _Node(name, " · ".join(parts), "box" if ran else "box before")


def _reduce(nodes: Mapping[str, _Node]) -> None:
    """Give each step its rank, and leave only arrows from the nearest of those that lead to it."""
    above: dict[str, set[str]] = {}

    def climb(name: str, below: frozenset[str]) -> set[str]:
        if name not in above:
            node = nodes[name]
            for source in below | {name}:
                node.sources.pop(source, None)  # a step that used what came of it: a circle is not drawn
            further = {source: climb(source, below | {name}) for source in node.sources}
            above[name] = set(further).union(*further.values())
            node.rank = 1 + max((nodes[source].rank for source in further), default=0)
            node.sources = {
                one: kinds
                for one, kinds in node.sources.items()
                if not any(one in further[other] for other in further if other != one)
            }
        return above[name]

    for name in nodes:
        climb(name, frozenset())


def _counted(kinds: Mapping[str, int]) -> str:
    """`3 × document, 1 × checksum`, and how many kinds more."""
    listed = sorted(kinds.items(), key=lambda one: (-one[1], one[0]))
    more = f" +{len(listed) - KINDS}" if len(listed) > KINDS else ""
    return ", ".join(f"{count:,} × {kind}" for kind, count in listed[:KINDS]) + more


def _box(node: _Node, top: float) -> str:
    frame = f'<rect class="{node.look}" x="{node.x - WIDTH / 2}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
    name = f'<text class="name" x="{node.x}" y="{top + 18}" text-anchor="middle">{_short(node.name, NAME_CHARS)}</text>'
    text = f'<text class="soft" x="{node.x}" y="{top + 35}" text-anchor="middle">{_short(node.text, TEXT_CHARS)}</text>'
    return (frame if node.look else "") + name + text


def _arrow(source: _Node, begin: float, node: _Node, end: float, kinds: Mapping[str, int]) -> tuple[str, str]:
    """The line, and its words, which stand on all lines."""
    line = f'<path class="arrow" d="M{source.x} {begin}L{node.x} {end - 5}"/>'
    head = f'<path class="head" d="M{node.x - 4} {end - 7}h8l-4 7z"/>'
    if not kinds:
        return line + head, ""
    x, y, words = (source.x + node.x) / 2, (begin + end) / 2, _short(_counted(kinds), TEXT_CHARS)
    halo = f'<rect class="halo" x="{x - 3.2 * len(words)}" y="{y - 9}" width="{6.4 * len(words)}" height="15"/>'
    return line + head, f'{halo}<text class="soft" x="{x}" y="{y + 3}" text-anchor="middle">{words}</text>'


def _short(text: str, most: int) -> str:
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")
