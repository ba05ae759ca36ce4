"""Three queries with the demonstrations that each selector chose, as a picture. Equal values give equal bytes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tasks.lever.lever_records import SIMILARITY, TRAINED, Evaluated, Item, Outcome, VqaItem
from tasks.measure.plot_style import COLOURS, INK, SOFT, TITLE_IN, Format, new_figure, printable, save, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

RIGHT, WRONG = COLOURS[2], COLOURS[1]
CELL_IN, WORDS_IN = 1.25, 0.85
"""Width of a picture, and height of the words above and below it."""
LEAST, MOST = 0.45, 1.3
"""Height of a picture to its width."""
WORDS, LINES = 24, 4
"""Characters of a line below a picture, and lines."""
HOW = {1: "better", -1: "worse", 0: "no better"}
"""Sign of the difference to similarity → in words."""
SIDE_PX = 320
"""Larger pictures are reduced to this."""


class Shown(NamedTuple):
    """A query, and what each selector made of it."""

    why: str
    query: str
    outcomes: Mapping[str, Outcome]


def shown_queries(evaluated: Evaluated) -> list[Shown]:
    """The first test query on which the last trained stage is better than similarity, the first on which it is worse,
    and the first on which both are alike with other demonstrations; fewer where there are none."""
    shots = evaluated.conditions.trained_shots
    of = {one.selector: {each.query: each for each in one.outcomes} for one in evaluated.results if one.shots == shots}
    stages = [stage for stage in TRAINED if stage in of]
    if not stages or SIMILARITY not in of:
        return []
    last, found = stages[-1], dict[int, Shown]()
    for query, mine in of[last].items():
        theirs = of[SIMILARITY].get(query)
        if theirs is None or mine.accuracy is None or theirs.accuracy is None or mine.shown == theirs.shown:
            continue
        sign = (mine.accuracy > theirs.accuracy) - (mine.accuracy < theirs.accuracy)
        chosen = {name: of[name][query] for name in (SIMILARITY, *stages)}
        found.setdefault(sign, Shown(f"{last} does {HOW[sign]}", query, chosen))
    return [found[sign] for sign in HOW if sign in found]


def draw_choices(evaluated: Evaluated, items: Mapping[str, Item], *, format: Format = "png") -> bytes | None:
    """The queries of `shown_queries`, a row each; None where there are none."""
    if not (queries := shown_queries(evaluated)):
        return None
    return save(lambda: _figure(queries, items, evaluated), format)


def _figure(queries: Sequence[Shown], items: Mapping[str, Item], evaluated: Evaluated) -> Drawing:
    names, shots = list(queries[0].outcomes), evaluated.conditions.trained_shots
    columns = 1 + len(names) * shots
    pictures = {name: _picture(items[name]) for one in queries for name in _named(one)}
    height = max((one.shape[0] / one.shape[1] for one in pictures.values() if one is not None), default=LEAST)
    row_in = CELL_IN * min(max(height, LEAST), MOST) + WORDS_IN
    drawing = new_figure(CELL_IN * columns, row_in * len(queries) + TITLE_IN, title_in=TITLE_IN)
    cells: Any = drawing.subplots(len(queries), columns, squeeze=False)
    for row, one in zip(cells, queries, strict=True):
        query = items[one.query]
        _draw_item(row[0], query, pictures[one.query], below=f"right: {query.shown_answer}", colour=INK, above=one.why)
        for number, name in enumerate(names):
            outcome = one.outcomes[name]
            right = (outcome.accuracy or 0) >= evaluated.conditions.threshold
            for place, shown in enumerate(outcome.shown):
                above = f"{name} → {outcome.answer or '—'}" if place == 0 else ""
                cell, below = row[1 + number * shots + place], f"→ {items[shown].shown_answer}"
                colour = RIGHT if right else WRONG
                _draw_item(cell, items[shown], pictures[shown], below=below, colour=colour, above=above)
    about = evaluated.conditions
    named = "the first test queries on which the last stage is better, worse and alike; green: the answer is right"
    title(drawing, "Demonstrations that each selector chose", f"{about.dataset}, seed {evaluated.seed} · {named}")
    return drawing


def _named(one: Shown) -> set[str]:
    """Ids of the query and of all that it is shown."""
    return {one.query, *(name for outcome in one.outcomes.values() for name in outcome.shown)}


def _draw_item(axes: Axes, item: Item, picture: Any, *, below: str, colour: str, above: str) -> None:
    """above: what stands over the picture, in colour."""
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_color(colour if colour != INK else SOFT)
    words = item.question if isinstance(item, VqaItem) else item.text
    lines = textwrap.wrap(printable(words, WORDS * LINES), WORDS)[:LINES]
    if picture is not None:
        axes.imshow(picture, interpolation="nearest", cmap="gray")
        axes.set_xlabel("\n".join([*lines, printable(below, WORDS)]), fontsize=6.5, labelpad=3)
    else:
        axes.text(0.5, 0.5, "\n".join(lines), ha="center", va="center", fontsize=6.5, transform=axes.transAxes)
        axes.set_xlabel(printable(below, WORDS), fontsize=6.5, labelpad=3)
    axes.set_title(printable(above, WORDS + 4), fontsize=7.5, color=colour, loc="left", pad=3)


def _picture(item: Item) -> Any:
    """Pixels; None for a text, and where the file is away."""
    import numpy as np
    from PIL import Image

    if not isinstance(item, VqaItem):
        return None
    try:
        with Image.open(item.image) as file:
            file.thumbnail((SIDE_PX, SIDE_PX))
            return np.asarray(file)
    except OSError:
        return None
