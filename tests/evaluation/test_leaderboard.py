from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from flows.cli.eval_results_command import show_boards
from storage.evaluated import StoredScore
from tasks.evaluation.results.ranking import (
    as_csv,
    as_markdown,
    describe_settings,
    rank,
    read_scores,
    render_page,
    select_latest,
)
from tests.evaluation.reports import report, task_result
from tests.evaluation.scores import NOON, score

HOSTILE = [
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</style></script><script>document.title='owned'</script>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "&lt;b&gt;",
    "\x00\x1b[31m",
    "‮gnp.exe",
]


def page(scores: Sequence[StoredScore]) -> str:
    return render_page(rank(scores), made_at=NOON, source="the database")


def ranks(*scores: StoredScore) -> list[tuple[int, str]]:
    (board,) = rank(scores)
    return [(row.rank, row.name) for row in board.rows]


def test_the_highest_score_is_first_and_equal_ones_share_a_rank() -> None:
    given_scores = (score("c", 0.5), score("b", 0.7), score("a", 0.5), score("d", 0.1))
    assert ranks(*given_scores) == [(1, "b"), (2, "a"), (2, "c"), (4, "d")]


def test_where_lower_is_better_the_lowest_is_first() -> None:
    given_scores = (score("a", 9.5, higher_is_better=False), score("b", 8.5, higher_is_better=False))
    assert ranks(*given_scores) == [(1, "b"), (2, "a")]


@pytest.mark.parametrize(
    ("changed", "variants"),
    [
        ({"dataset_checksum": "b" * 64}, ["data aaaaaaaa", "data bbbbbbbb"]),
        ({"settings_digest": "6" * 64}, ["settings 55555555", "settings 66666666"]),
        ({"metric": "accuracy"}, ["accuracy_avg", "accuracy"]),
    ],
    ids=["data", "settings", "metric"],
)
def test_figures_that_cannot_be_compared_are_ranked_apart(changed: dict[str, Any], variants: list[str]) -> None:
    boards = rank([score("a", 0.9, **changed), score("a", 0.5), score("b", 0.4)])
    assert [board.variant for board in boards] == variants
    assert [len(board.rows) for board in boards] == [2, 1]  # the way that more models went is first


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ({"judge": None}, {"judge": {"name": "m"}}, ("judge name unset", "judge name m")),
        ({"version": "1-a"}, {"version": "1-b"}, ("version 1-a", "version 1-b")),
        ({"version": "1-a", "limit": 3}, {"version": "1-b", "limit": None}, ("limit 3", "limit unset")),
        ({}, {}, ("settings aaaaaaaa", "settings bbbbbbbb")),
        (dict.fromkeys("pqrs", 1), dict.fromkeys("pqrs", 2), ("p 1, q 1, r 1", "p 2, q 2, r 2")),
    ],
)
def test_words_of_settings(one: dict[str, JsonValue], other: dict[str, JsonValue], words: tuple[str, str]) -> None:
    assert tuple(describe_settings({"a" * 64: one, "b" * 64: other}).values()) == words


@pytest.mark.parametrize(
    ("revisions", "backends", "names"),
    [
        (("", ""), ("hf", "vllm"), ["m (hf)", "m (vllm)"]),
        (("0123456789abcdef", ""), ("hf", "hf"), ["m (0123456789ab)", "m (no revision)"]),
        (("r1", "r2"), ("hf", "vllm"), ["m (hf, r1)", "m (vllm, r2)"]),
    ],
)
def test_models_of_one_name_are_told_apart(
    revisions: tuple[str, str], backends: tuple[str, str], names: list[str]
) -> None:
    both = [
        score("m", value, revision=revision, backend=backend)
        for value, revision, backend in zip((0.6, 0.5), revisions, backends, strict=True)
    ]
    assert [name for _, name in ranks(*both)] == names


def test_of_several_runs_a_cell_shows_the_last() -> None:
    later = score("a", 0.2, ended_at=NOON + timedelta(days=1))
    (board,) = rank([score("a", 0.9), later])
    assert board.latest["a"].score == later


def test_the_latest_run_of_the_same_settings_is_kept() -> None:
    old, new = score("a", 0.9), score("a", 0.2, ended_at=NOON + timedelta(days=1))
    failed = score("a", 0.3, status="failed", ended_at=NOON + timedelta(days=2))
    other = score("a", 0.5, settings_digest="6" * 64)
    assert select_latest([old, new, failed, other]) == [new, other]


def test_a_results_file_gives_what_the_database_gives() -> None:
    first, group = read_scores(report(task_result()))
    assert (first.model, first.task, first.value, first.counts["unscored"], first.ended_at) == (
        "org/tiny", "Sums", 0.5, 1, report().run.ended_at,
    )  # fmt: skip
    assert (group.part, group.headline) == ("group=easy", False)


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e3)), min_size=1, max_size=5))
def test_every_figure_is_on_the_axis(figures: list[tuple[float, float]]) -> None:
    scores = [score(str(at), value, low=value - half, high=value + half) for at, (value, half) in enumerate(figures)]
    (board,) = rank(scores)
    for one in scores:
        assert one.low is not None
        assert one.high is not None
        assert -1e-9 <= board.axis.share(one.low) <= board.axis.share(one.high) <= 1 + 1e-9
    assert len(board.axis.ticks) <= 8


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@x", "\tx"])
def test_a_spreadsheet_calculates_no_cell(name: str) -> None:
    (row,) = csv.DictReader(io.StringIO(as_csv(rank([score(name, 0.25)]))))
    assert row["model"] == f"'{name}"


def test_markdown_has_a_table_per_ranking() -> None:
    assert as_markdown(rank([score("한국어 모델", 0.25, run="12345678" * 4)])) == (
        "### AIME24 — accuracy_avg\n\n"
        "| # | model | score | 95 % | n | unscored | refused | too long | differing "
        "| tokens | cost | backend | date | run |\n"
        "| ---: | :--- | ---: | :---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | :--- | :--- | :--- |\n"
        "| 1 | 한국어 모델 | 0.250 | 0.150–0.350 | 30 | 0 | 0 | 0 | 0 | 0 | – | replay | 2026-03-01 | 12345678 |\n"
    )


@pytest.mark.parametrize("name", [*HOSTILE, "a | b", "[x](javascript:y)", "`x`", "a\nb"])
def test_no_name_breaks_a_markdown_table(name: str) -> None:
    line = as_markdown(rank([score(name, 0.25)])).splitlines()[-1]
    assert len(re.findall(r"(?<!\\)\|", line)) == 15
    assert "<" not in line
    assert not re.search(r"(?<!\\)[\[`]", line)


class Reader(HTMLParser):
    """Elements, and the attributes that could run or fetch something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend(attrs)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("field", ["model", "task", "metric", "backend", "revision", "run"])
def test_a_page_shows_any_value_and_runs_none(field: str, name: str) -> None:
    plain = Reader(page([score("a", 0.5), score("b", 0.4)]))
    hostile = Reader(page([score("a", 0.5).model_copy(update={field: name}), score("b", 0.4)]))
    assert set(hostile.tags) <= set(plain.tags) | {"small"}  # a revision stands in one
    assert hostile.tags.count("script") == plain.tags.count("script") == 1
    assert not [attribute for attribute, _ in hostile.attributes if attribute.startswith("on")]
    assert name[:8] in "".join(hostile.words).replace("�", "\x00")


def test_a_page_fetches_nothing_and_allows_only_its_own_script() -> None:
    made = Reader(page([score("a", 0.5), score("b", 0.4)]))
    assert not {"link", "img", "iframe", "object", "a"} & set(made.tags)
    assert not [name for name, _ in made.attributes if name in ("src", "href", "style", "action")]
    policy = next(value for name, value in made.attributes if name == "content" and "default-src" in (value or ""))
    assert re.fullmatch(r"default-src 'none'; style-src 'sha256-\S+'; script-src 'sha256-\S+'", policy or "")


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FOUR = [score("ten", 0.1), score("two", 0.2), score("best <b>", 0.9), score("m10", 0.3), score("m9", 0.3, n=7)]


@pytest.fixture
def browse(tmp_path: Path) -> Any:
    """Opens the page in headless Chromium at an address with a fragment, and gives the document as it is then."""
    chromium = CHROMIUM
    if chromium is None:
        pytest.skip("no Chromium on this machine")

    def open_page(scores: Sequence[StoredScore], fragment: str = "") -> str:
        file = tmp_path / "page.html"
        file.write_text(page(scores), "utf-8")
        options = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={tmp_path / 'chrome'}",
            "--dump-dom",
        )
        command = [chromium, *options, f"{file.as_uri()}{fragment}"]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=True)
        return done.stdout

    return open_page


def shown_models(document: str) -> list[str]:
    """The models of the first ranking, from the top."""
    body = document.split('<table id="b1"')[1].split("</table>")[0]
    return re.findall(r'<th scope="row" data-value="([^"]*)"', body)


@pytest.mark.browser
@pytest.mark.parametrize(
    ("fragment", "models"),
    [
        ("", ["best <b>", "m10", "m9", "two", "ten"]),
        ("#sort=b1.score.up", ["ten", "two", "m10", "m9", "best <b>"]),
        ("#sort=b1.model.up", ["best <b>", "m9", "m10", "ten", "two"]),
        ("#sort=script.model.up", ["best <b>", "m10", "m9", "two", "ten"]),
    ],
    ids=["as ranked", "numbers", "words, numbers in them as numbers", "no such table"],
)
def test_a_page_sorts_as_its_address_says(browse: Any, fragment: str, models: list[str]) -> None:
    assert [name.replace("&lt;", "<").replace("&gt;", ">") for name in shown_models(browse(FOUR, fragment))] == models


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_heading_of_a_table_is_cut(width: int, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    told: dict[str, Any] = {"usage": {"calls": 9, "prompt_tokens": 1_234_567, "completion_tokens": 9, "cost": 12.25}}
    told |= {"counts": {"unscored": 3, "refused": 4, "too_long": 5, "differing": 2}}
    tasks = ["AIME24", "GPQADiamond", "LiveCodeBenchOnePointTwo", "MATH500"]
    show_boards(rank(score(name, 0.5, task=task, **told) for name in ("org/" + "long" * 10, "b") for task in tasks))
    said = capsys.readouterr().out
    assert "…" not in said
    assert {"tokens", "cost", "unscored", *tasks} <= set(said.split())
    assert ("date" in said.split()) == (width > 100)
    assert max(len(line) for line in said.splitlines() if line.startswith("#")) <= width
