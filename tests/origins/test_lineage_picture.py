"""The picture of a run: a box per step, an arrow per use, and the commands that ask further."""

from __future__ import annotations

import re
from base64 import b64decode
from datetime import UTC, datetime
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.lineage import EVERY, Edge, Ran, StepRun
from tasks.origins.lineage_picture import WIDTH, markdown_of, results_of, svg_of, unknown_in

AT = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
SVG = "{http://www.w3.org/2000/svg}"


def ran(name: str, *edges: Edge, key: str = "", run: str = "r1", seconds: float = 0.5, version: int = 2) -> Ran:
    step = StepRun(
        key=key or name,
        step=f"tasks.rag.steps.{name}",
        version=version,
        run=run,
        code="0.1.0",
        at=AT,
        seconds=seconds,
        parameters={},
    )
    return Ran(step, edges)


def used(sign: str, kind: str = "text") -> Edge:
    return Edge(EVERY, False, kind, sign * 64, "content")


def made(sign: str, kind: str = "text") -> Edge:
    return Edge(EVERY, True, kind, sign * 64, "content")


SCAN = ran("scan", made("a", "document"), made("b", "document"), seconds=0.1)
PARSE = ran("parse", used("a", "document"), used("b", "document"), made("1", "blocks"), made("2", "blocks"))
CHUNK = ran("chunk", used("a", "document"), used("1", "blocks"), used("2", "blocks"), made("c", "chunks"))


def texts(*steps: Ran) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(svg_of(steps, run="r1")).iter(f"{SVG}text")]


def boxes(*steps: Ran) -> list[dict[str, str]]:
    drawn = ElementTree.fromstring(svg_of(steps, run="r1")).iter(f"{SVG}rect")
    return [one.attrib for one in drawn if one.attrib["class"].startswith("box")]


def test_boxes_lead_from_what_was_used_to_what_was_made() -> None:
    assert texts(PARSE, CHUNK) == [
        *("2 × blocks",),
        *("parse", "version 2 · 1 ran in 0.5 s"),
        *("chunk", "version 2 · 1 ran in 0.5 s"),
        *("2 × document", "used"),
        *("1 × chunks", "made"),
    ]


def test_arrows_come_from_the_nearest_alone() -> None:
    told = texts(SCAN, PARSE, CHUNK)  # a chunk names its document too
    assert [one for one in told if "×" in one] == ["2 × document", "2 × blocks", "1 × chunks"]


def test_steps_of_a_name_are_one_box() -> None:
    first = ran("parse", made("1"), key="k1", seconds=1.25)
    second = ran("parse", made("2"), key="k2", seconds=2.5)
    third = ran("parse", made("3"), key="k3", run="r0", version=1)
    assert "version 1, 2 · 2 ran in 3.8 s · 1 before" in texts(first, second, third)
    assert [one["class"] for one in boxes(first, second, third)] == ["box"]


def test_what_was_made_by_an_earlier_run_is_dashed() -> None:
    assert [one["class"] for one in boxes(SCAN._replace(step=SCAN.step.model_copy(update={"run": "r0"})), PARSE)] == [
        "box before",
        "box",
    ]


def test_a_circle_is_drawn_and_ends() -> None:
    there, back = ran("there", used("1"), made("2")), ran("back", used("2"), made("1"))
    assert [one for one in texts(there, back) if one in ("there", "back")] == ["there", "back"]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.sets(st.sampled_from("012345")), st.sets(st.sampled_from("012345"))),
        min_size=1,
        max_size=8,
    )
)
def test_whatever_steps_used_and_made_no_boxes_overlap(steps: list[tuple[str, set[str], set[str]]]) -> None:
    listed = [
        ran(name, *map(used, sorted(taken)), *map(made, sorted(given)), key=f"k{number}")
        for number, (name, taken, given) in enumerate(steps)
    ]
    places = [(float(one["y"]), float(one["x"])) for one in boxes(*listed)]
    assert len(places) == len({name for name, _, _ in steps})
    for row in {y for y, _ in places}:
        across = sorted(x for y, x in places if y == row)
        assert all(right - left >= WIDTH for left, right in pairwise(across))


def test_a_name_is_text() -> None:
    assert "<b>&amp;" in texts(ran("<b>&amp;", made("1")))


def test_results_are_what_no_step_used_the_last_first() -> None:
    assert [one.kind for one in results_of([SCAN, PARSE, CHUNK, ran("draw", made("e", "plot"))])] == ["plot", "chunks"]


def test_what_no_step_made_is_unknown() -> None:
    assert unknown_in([PARSE, CHUNK]) == ["a" * 64, "b" * 64]
    assert unknown_in([SCAN, PARSE, CHUNK]) == []


def test_the_markdown_shows_the_picture_and_asks_further() -> None:
    run = ran("write_database", used("c", "chunks"), Edge(EVERY, True, "run", "0a1b2c3d" * 4, ""))
    told = markdown_of([PARSE, CHUNK, run, ran("draw", made("e", "plot"))], run="r1")
    [picture] = re.findall(r"^!\[.*\]\(data:image/svg\+xml;base64,(\S+)\)$", told, re.M)
    assert ElementTree.fromstring(b64decode(picture)).tag == f"{SVG}svg"
    assert "4 steps made something new, 0 had made it before (dashed)." in told
    assert f"- `trivet why {'e' * 12}` — plot\n- `trivet why {'0a1b2c3d' * 4}` — run\n" in told


@pytest.mark.parametrize(("results", "said"), [(5, False), (8, True)])
def test_of_many_results_the_first_are_named(results: int, said: bool) -> None:
    told = markdown_of([ran("draw", *(made(str(number)) for number in range(results)))], run="r1")
    assert told.count("trivet why") == 5
    assert ("- and 3 more" in told) == said
