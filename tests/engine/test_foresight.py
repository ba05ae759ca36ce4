"""A plan and the run after it agree, whatever was edited before: documents, parameters, versions, what is kept."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from flows.running.configuring import configure_steps
from flows.running.settings import settings
from tasks import step as running
from tasks.evaluation import steps as evaluation
from tasks.lever import steps as lever
from tasks.rag import steps as rag
from tasks.resources import artifacts, forget, results
from tests.command import run_here
from tests.drills.levering import SMALL

if TYPE_CHECKING:
    from prefect import Task

pytestmark = pytest.mark.engine

SAMPLES = Path(__file__).parents[1] / "samples"
NOTICES = SAMPLES / "documents" / "notices"
WORLD, OWN = "looks at the world each time", "a report of its own for each run"


class Ran:
    """What one run did."""

    def __init__(self) -> None:
        self.bodies: Counter[str] = Counter()
        """Bodies of steps that were executed, by step."""
        self.keys: list[str] = []
        """Records that were looked for."""

    def of(self, act: Callable[[], Any]) -> dict[str, int]:
        """The bodies of one act."""
        self.bodies.clear()
        self.keys.clear()
        act()
        return dict(self.bodies)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    counted, note, compute = Ran(), running._note, running.StepKey.compute_key

    def counting(key: running.StepKey, *told: Any) -> None:
        counted.bodies[key.name.rpartition(".")[2]] += 1
        note(key, *told)

    def computing(key: running.StepKey, *given: Any, **named: Any) -> str:
        counted.keys.append(found := compute(key, *given, **named))
        return found

    monkeypatch.setattr(running, "_note", counting)
    monkeypatch.setattr(running.StepKey, "compute_key", computing)
    return counted


def surprises(plan: dict[str, Any], ran: dict[str, int]) -> dict[str, str]:
    """Steps that ran less often than was sure, or more often than was possible."""
    steps = {step["step"]: step for step in plan["steps"]}
    found = {name: f"ran {count}, not planned" for name, count in ran.items() if name not in steps}
    for name, step in steps.items():
        low, high, count = step["runs"], step["runs"] + step["unknown"], ran.get(name, 0)
        if not low <= count <= high:
            found[name] = f"ran {count}, planned {low} … {high}: {step['reasons']}"
    return found


def pick(rng: random.Random, folder: Path) -> Path:
    """Any file below a folder."""
    return rng.choice(sorted(path for path in folder.rglob("*") if path.is_file()))


class Leg:
    """A flow whose inputs are edited at random."""

    KINDS: tuple[str, ...]
    """Of edits, beside those of what is kept."""
    command: tuple[str, ...]
    STEPS: tuple[Task[..., Any], ...]
    """Those whose version may be raised."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.options: dict[str, object] = {}
        self._patch = patch

    def edit(self, what: str, rng: random.Random) -> None:
        """Change something."""
        raise NotImplementedError

    def run(self, *more: str) -> dict[str, Any]:
        options = [word for option in self.options.items() for word in option]
        done = run_here(*self.command, *options, *more, "--json")
        assert done.code == 0, done
        return done.json

    def lose(self, what: str, rng: random.Random, keys: list[str]) -> None:
        """Raise a version, or let go what the last run looked for under these keys."""
        folder = results().folder
        assert folder
        if what == "version raised":
            key: Any = rng.choice(self.STEPS).cache_policy
            self._patch.setattr(key, "version", key.version + 1)
            return
        record = rng.choice(sorted(folder / key for key in keys if (folder / key).exists()))
        if what == "record truncated":
            record.write_bytes(record.read_bytes()[: record.stat().st_size // 2])
        elif what == "record deleted":
            record.unlink()
        else:
            told = "".join((folder / key).read_text("utf-8") for key in keys if (folder / key).exists())
            named = sorted(one.ref.digest for one in artifacts().objects() if one.ref.digest in told)
            chosen = rng.choice(named)
            artifacts().path(next(one.ref for one in artifacts().objects() if one.ref.digest == chosen)).unlink()


LOST = ("artifact deleted", "record truncated", "record deleted", "version raised")


def deck(rng: random.Random, kinds: tuple[str, ...]) -> Iterator[str]:
    """All kinds of edits in random order, again and again."""
    while True:
        yield from rng.sample(kinds, len(kinds))


class Documents(Leg):
    KINDS = (
        "changed",
        "added",
        "copied",
        "renamed",
        "removed",
        "excluded",
        "metadata",
        "parameter",
        "index",
        "nothing",
    )
    STEPS = (rag.parse, rag.find_figures, rag.mark_duplicates, rag.extract_figures, rag.chunk, rag.embed)

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, patch)
        self.documents, self.index = folder / "docs", folder / "index"
        self.command = ("rag", "index", str(self.documents), "--index", str(self.index))
        self.documents.mkdir()
        for path in NOTICES.iterdir():
            if path.suffix in (".txt", ".md", ".html"):
                shutil.copy(path, self.documents)

    def edit(self, what: str, rng: random.Random) -> None:
        there = sorted(self.documents.iterdir())
        chosen, other = rng.choice(there), self.documents / f"{rng.randrange(999)} {rng.choice(there).name[-20:]}"
        match what:
            case "changed":
                chosen.write_bytes(chosen.read_bytes() + f"\n\nAdded {rng.random()}.".encode())
            case "added":
                other.with_suffix(".md").write_text(f"# Note\n\nThe budget is {rng.randrange(10**6):,} won.")
            case "copied":
                shutil.copy(chosen, other.with_suffix(chosen.suffix))
            case "renamed":
                chosen.rename(other.with_suffix(chosen.suffix))
            case "removed" if len(there) > 2:
                chosen.unlink()
            case "excluded":
                self.options["--exclude"] = f"*{chosen.suffix}" if len({path.suffix for path in there}) > 1 else "*.x"
            case "metadata":
                table = self.index.parent / "metadata.csv"
                table.write_text(f"사업명,발주 기관,파일명\nHarbour {rng.random()},Raon County,{chosen.name}\n")
                self.options["--metadata"] = table
            case "parameter":
                sizes = {"--chunk-chars": rng.choice([300, 500]), "--overlap-chars": rng.choice([40, 80])}
                self.options |= {**sizes, "--figure": f"qwen3_vl_min_variance={rng.choice([20, 30])}"}
            case "index":
                shutil.rmtree(self.index)
            case _:
                pass


class Answers(Leg):
    KINDS = ("changed", "removed", "data", "renamed", "parameter", "tasks", "nothing")
    STEPS = (evaluation.recall, evaluation.score, evaluation.aggregate)
    TASKS: ClassVar = {"MATH500": "math500.jsonl", "AIME24": "aime24.jsonl"}

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, patch)
        self.recorded, self.data = folder / "recorded", folder / "data"
        self.command = ("eval", "run", "--model", "replay", "--model_name", f"planned-{folder.name}")
        self.command += ("--output_path", str(folder / "logs"), "--data_dir", str(self.data), "--overwrite")
        for place in (self.recorded, self.data):
            place.mkdir()
        for task, data in self.TASKS.items():
            shutil.copy(SAMPLES / "recorded" / "model-b" / f"{task}.jsonl", self.recorded)
            shutil.copy(SAMPLES / "benchmarks" / data, self.data)
        self.options = {"--tasks": "MATH500,AIME24", "--model_args": f"path={self.recorded}"}

    def edit(self, what: str, rng: random.Random) -> None:
        task = rng.choice(sorted(self.TASKS))
        match what:
            case "changed":
                self._rewrite(self.recorded / f"{task}.jsonl", rng, "\\\\boxed{", f"\\\\boxed{{{rng.randrange(9)}")
            case "removed" if len((self.recorded / f"{task}.jsonl").read_text().splitlines()) > 3:
                self._rewrite(self.recorded / f"{task}.jsonl", rng)
            case "data":
                file = self.data / self.TASKS[task]
                file.write_text(file.read_text("utf-8").replace('"problem": "', '"problem": "Well. ', 1), "utf-8")
            case "renamed":
                self.recorded = self.recorded.rename(self.folder / f"recorded {rng.randrange(999)}")
                self.options["--model_args"] = f"path={self.recorded}"
            case "parameter":
                self.options |= {"--extract": rng.choice(["published", "flexible"]), "--limit": rng.choice([4, 6])}
            case "tasks":
                self.options["--tasks"] = rng.choice(["MATH500,AIME24", "AIME24,MATH500", "MATH500"])
            case _:
                pass

    @staticmethod
    def _rewrite(file: Path, rng: random.Random, old: str = "", new: str = "") -> None:
        """Change a line, or leave it out."""
        lines = file.read_text("utf-8").splitlines(keepends=True)
        at = rng.randrange(len(lines))
        lines[at] = lines[at].replace(old, new) if old else ""
        file.write_text("".join(lines), "utf-8")


class Selectors(Leg):
    KINDS = ("parameter", "stage", "begin", "seeds", "file changed", "file removed", "nothing")
    STEPS = (lever.build_pools, lever.merge_beams, lever.train_rce, lever.evaluate_selector, lever.summarise)

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(folder, patch)
        self.results = folder / "results"
        self._set_command("run")
        self.options = {"--set": "rce.epochs=2"}

    def _set_command(self, stage: str) -> None:
        self.command = ("lever", stage, *map(str, SMALL), "--results", str(self.results))

    def edit(self, what: str, rng: random.Random) -> None:
        self.options.pop("--from", None)
        match what:
            case "parameter":
                name, value = rng.choice([("rce.epochs", 1), ("grpo.rounds", 3), ("oracle.most_judgments", 300)])
                self.options["--set"] = f"{name}={value}"
            case "stage":
                self._set_command(rng.choice(["pools", "sft", "rl-data", "evaluate"]))
            case "begin":
                self._set_command("run")
                self.run()  # what it begins with has to be there
                self.options["--from"] = rng.choice(["sft", "rl-data", "rce", "grpo"])
            case "seeds":
                self.options["--seeds"] = rng.choice([1, 2])
            case "file changed":
                with pick(rng, self.results).open("ab") as file:
                    file.write(b" ")
            case "file removed":
                pick(rng, self.results).unlink()
            case _:
                pass


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A store of its own, from which things may go."""
    monkeypatch.setenv("TRIVET_STORE", str(tmp_path / "store"))
    settings.cache_clear()
    configure_steps()
    yield
    monkeypatch.undo()
    settings.cache_clear()
    configure_steps()


POSTGRES = pytest.mark.postgres
DRILL = [pytest.mark.postgres, pytest.mark.drill, pytest.mark.timeout(3600)]


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("leg", "count"),
    [
        pytest.param(Documents, 12, id="documents, 12 edits"),
        pytest.param(Answers, 11, id="answers, 11 edits", marks=POSTGRES),
        pytest.param(Selectors, 2, id="selectors, 2 edits", marks=[POSTGRES, pytest.mark.slow]),
        pytest.param(Documents, 45, id="documents, 45 edits", marks=DRILL),
        pytest.param(Answers, 35, id="answers, 35 edits", marks=DRILL),
        pytest.param(Selectors, 20, id="selectors, 20 edits", marks=DRILL),
    ],
)
def test_a_run_does_what_was_planned(
    leg: type[Leg], count: int, tmp_path: Path, ran: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, flow = random.Random(count), leg(tmp_path, monkeypatch)
    ran.of(flow.run)
    wrong, exact = list[str](), 0
    for number, edit in zip(range(count), deck(rng, (*flow.KINDS, *LOST)), strict=False):
        if edit in LOST:
            flow.lose(edit, rng, ran.keys)
        else:
            flow.edit(edit, rng)
        forget()  # what another process would not know
        plan = flow.run("--plan")
        done = ran.of(flow.run)
        exact += not any(step["unknown"] for step in plan["steps"])
        wrong += [f"{number} {edit}: {name} {said}" for name, said in surprises(plan, done).items()]
    print(f"{leg.__name__}: {count} edits, {exact} planned exactly, {len(wrong)} wrong")
    assert wrong == []
    left = [step for step in flow.run("--plan")["steps"] if step["unknown"] or step["runs"]]
    assert {reason for step in left for reason in step["reasons"]} <= {WORLD, OWN}
