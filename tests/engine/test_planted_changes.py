"""`trivet diff` over real runs in which one thing was changed: that is named first, by its name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tasks.resources import evaluations
from tests.command import run_here
from tests.drills.levering import SMALL

pytestmark = [pytest.mark.engine, pytest.mark.postgres, pytest.mark.drill]

SAMPLES = Path(__file__).parents[1] / "samples"
NOTICES = ("supplier_day.html", "전자조달_자주묻는질문.md")


class Planted(NamedTuple):
    """One change, and how it is to be called."""

    what: str
    name: str
    """Of the parameter or the input; a part of it is enough."""
    options: tuple[object, ...] = ()
    edit: Callable[[Path], object] = lambda folder: None
    """What is done to the inputs before the second run."""

    def __str__(self) -> str:
        return " ".join(map(str, self.options)) or f"{self.what} {self.name}"


def first_cause(one: object, other: object) -> dict[str, Any]:
    done = run_here("diff", one, other, "--json")
    assert done.code == 0, done.stderr
    assert done.json["causes"], "nothing differs"
    return done.json["causes"][0]


def assert_named(planted: Planted, cause: dict[str, Any]) -> None:
    assert cause["what"] == planted.what, cause
    assert planted.name in f"{cause['where']} {cause['name']}", cause


def rewrite(path: Path, old: str, new: str) -> None:
    """Replace the first place."""
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


def index(folder: Path, *options: object) -> Path:
    done = run_here("rag", "index", folder / "docs", "--index", folder / "index", *options)
    assert done.code in (0, 3), done.stderr
    return folder / "index"


def documents(folder: Path) -> Path:
    (folder / "docs").mkdir()
    for name in NOTICES:
        shutil.copy(SAMPLES / "documents" / "notices" / name, folder / "docs")
    return folder


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return index(documents(tmp_path_factory.mktemp("first")))


NOTE = "# Note\n\nThe dredging of the harbour costs 4,100,000 won.\n"


@pytest.mark.parametrize(
    "planted",
    [
        Planted("input", NOTICES[0], edit=lambda folder: rewrite(folder / "docs" / NOTICES[0], "</body>", "One more.")),
        Planted("input", NOTICES[1], edit=lambda folder: (folder / "docs" / NOTICES[1]).write_text(NOTE, "utf-8")),
        Planted("input", "note.md", edit=lambda folder: (folder / "docs" / "note.md").write_text(NOTE, "utf-8")),
        Planted("input", NOTICES[1], edit=lambda folder: (folder / "docs" / NOTICES[1]).unlink()),
        # a scan that finds nothing new is not recorded, so what is left out is named and not the pattern
        Planted("input", NOTICES[0], ("--exclude", "*.html")),
        Planted("parameter", "chunk_chars", ("--chunk-chars", 500)),
        Planted("parameter", "overlap_chars", ("--overlap-chars", 40)),
        Planted("parameter", "tables", ("--no-tables",)),
        Planted("parameter", "layout", ("--layout", "off")),
        Planted("parameter", "ocr", ("--ocr", "off")),
        Planted("parameter", "pdf_reader", ("--pdf-reader", "pymupdf")),
    ],
    ids=str,
)
def test_of_two_indexes(indexed: Path, tmp_path: Path, planted: Planted) -> None:
    planted.edit(documents(tmp_path))
    assert_named(planted, first_cause(indexed, index(tmp_path, *planted.options)))


def evaluate(folder: Path, *options: object) -> str:
    model = ("--model", "replay", "--model_name", "planted", "--model_args", f"path={folder / 'recorded'}")
    places = ("--data_dir", folder / "data", "--output_path", folder / "logs")
    done = run_here("eval", "run", *model, "--tasks", "MATH500", *places, "--overwrite", "--json", *options)
    assert done.code == 0, done.stderr
    return done.json["run"]["id"]


def recorded(folder: Path) -> Path:
    (folder / "recorded").mkdir()
    (folder / "data").mkdir()
    shutil.copy(SAMPLES / "recorded" / "model-b" / "MATH500.jsonl", folder / "recorded")
    shutil.copy(SAMPLES / "benchmarks" / "math500.jsonl", folder / "data")
    return folder


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> str:
    return evaluate(recorded(tmp_path_factory.mktemp("first")))


def without_last_line(path: Path) -> None:
    path.write_text("".join(path.read_text("utf-8").splitlines(keepends=True)[:-1]), "utf-8")


@pytest.mark.parametrize(
    "planted",
    [
        Planted("input", "digest", edit=lambda at: rewrite(at / "recorded" / "MATH500.jsonl", "boxed{", "boxed{7")),
        Planted("input", "digest", edit=lambda at: without_last_line(at / "recorded" / "MATH500.jsonl")),
        Planted(
            "input",
            "checksum",
            edit=lambda at: rewrite(at / "data" / "math500.jsonl", '"problem": "', '"problem": "So: '),
        ),
        Planted("parameter", "limit", ("--limit", 4)),
        Planted("parameter", "limit", ("--limit", 0.5)),
        Planted("parameter", "extract", ("--extract", "flexible")),
        Planted("parameter", "extract", ("--extract", "strict")),
        Planted("parameter", "seed", ("--seed", "7,1,1,1")),
        Planted("parameter", "max_tokens", ("--max_tokens", 512)),
        Planted("parameter", "temperature", ("--gen_kwargs", "temperature=0.2")),
        Planted("parameter", "top_p", ("--gen_kwargs", "top_p=0.9")),
        Planted("parameter", "stop", ("--gen_kwargs", "until=END")),
        Planted("parameter", "system_instruction", ("--system_instruction", "Be brief.")),
        Planted("parameter", "apply_chat_template", ("--apply_chat_template", "False")),
    ],
    ids=str,
)
def test_of_two_evaluations(evaluated: str, tmp_path: Path, planted: Planted) -> None:
    planted.edit(recorded(tmp_path))
    assert_named(planted, first_cause(evaluated, evaluate(tmp_path, *planted.options)))


class Trained(NamedTuple):
    """A run, and the folder of its results, which the next one writes again."""

    run: str
    results: Path


def train(results: Path, *options: object) -> str:
    done = run_here("lever", "run", *SMALL, "--results", results, "--json", *options)
    assert done.code == 0, done.stderr
    return done.json["run"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    results = tmp_path_factory.mktemp("results")
    return Trained(train(results), results)


def setting(name: str, value: object) -> Planted:
    return Planted("parameter", name.rpartition(".")[2], ("--set", f"{name}={json.dumps(value)}"))


@pytest.mark.parametrize(
    "planted",
    [
        Planted("input", "vqa-dataset", ("--set", "digits.seed=4")),  # the scenes of the world are drawn with it
        Planted("input", "vqa-dataset", ("--set", "digits.candidates=91")),
        Planted("parameter", "steps", ("--set", "digits.judge_steps=61")),
        setting("dataset.validation", 21),
        setting("dataset.test", 21),
        setting("beams.queries", 21),
        setting("beams.width", 2),
        setting("sft.epochs", 3),
        setting("sft.lr", 2e-4),
        setting("rce.epochs", 1),
        setting("rce.lr", 2e-4),
        setting("grpo.rounds", 3),
        setting("grpo.draws", 5),
        setting("grpo.lr", 2e-4),
        setting("oracle.most_judgments", 300),
        setting("threshold", 0.4),
        Planted("parameter", "train_queries", ("--train-queries", 81)),
        Planted("parameter", "size", ("--pool-size", 9)),
        Planted("parameter", "recipe", ("--sampler", "RandSampler")),
        Planted("parameter", "others", ("--set", "pool_others=0.5")),
        Planted("parameter", "shots", ("--shots", 1)),
        Planted("parameter", "seed", ("--seed", 3)),
        Planted("parameter", "gate", ("--no-gate",)),
        Planted("parameter", "dropout", ("--dropout-in-ratio",)),
        Planted("parameter", "top_k", ("--top-k", 2)),
    ],
    ids=str,
)
def test_of_two_selectors(trained: Trained, planted: Planted) -> None:
    assert_named(planted, first_cause(trained.run, train(trained.results, *planted.options)))


def test_what_changed_in_a_selector_is_told(trained: Trained) -> None:
    """Other weights from the same pools, and the figures that followed."""
    other = train(trained.results, "--set", "grpo.lr=0.01")
    told = run_here("diff", trained.run, other, "--json").json
    made = {one["kind"]: one for one in told["made"]}
    assert (made["pools"]["one"], made["pools"]["other"]) == (0, 0)
    assert made["pools"]["same"] >= 1
    assert made["selector"]["other"] >= 1
    assert [one["metric"] for one in told["figures"]]
    assert all("grpo" in one["metric"] for one in told["figures"])


def test_each_hop_from_the_figure_of_a_selector(trained: Trained) -> None:
    """Figure ← weights of GRPO ← weights of RCE ← RL data ← weights of SFT ← beams ← pools ← vectors ← the scenes."""
    done = run_here("why", trained.run, "--json")
    assert done.code == 0, done.stderr
    [tree] = done.json["origins"]
    assert (tree["what"], tree["key"]) == ("run", trained.run)
    [found] = [one for row in evaluations().task_results(trained.run) for one in row.results if one.headline]
    assert (found.metric, found.part, found.n) == ("accuracy.grpo", "shots=2", 20)
    assert f"accuracy.grpo, shots=2 = {found.value:.4g} (n = 20)" in tree["name"]
    nodes: dict[str, dict[str, Any]] = {}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if node["step"]:  # where it is told above it has none
            nodes[node["key"]] = node
        waiting += node["sources"]
    chain = ("train_grpo", "train_rce", "merge_rl_data", "generate_rl_data", "train_sft", "search_beams", "build_pools")
    for step in (*chain, "export_embeddings", "train_digits_judge"):
        sources = [nodes[source["key"]] for source in tree["sources"] if source["key"] in nodes]
        tree = next(one for one in sources if one["step"]["step"] == f"tasks.lever.steps.{step}")
