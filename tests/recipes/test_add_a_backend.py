"""The recipe `add_a_backend.md`, followed outside the repository: a package adds a model for every command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recipes.packages import Package

OPENED = """
import json, sys
from models.backends import open_backend
from models.backends import is_in_process, open_chat, revision_of
from models.protocols import ChatRequest, Message, Text

request = ChatRequest(messages=(Message(role="user", content=(Text(text="Polly?"),)),))
named = open_chat("parrot:loud")
print(json.dumps([
    named.id, named.complete(request).text, open_chat("parrot").complete(request).text,
    open_backend("parrot", args={"voice": "loud"}).id, is_in_process("parrot:loud"), revision_of("parrot:loud"),
]))
"""


def test_the_backend_opens_by_its_name_and_by_its_arguments(package: Package) -> None:
    environment = {"PYTHONPATH": f"{Path(__file__).parents[2]}:{package.site}"}
    done = subprocess.run([sys.executable, "-c", OPENED], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == ["parrot:loud", "POLLY?", "Polly?", "parrot:loud", False, ""]


@pytest.mark.engine
@pytest.mark.postgres
def test_a_benchmark_is_measured_with_it(package: Package, tmp_path: Path) -> None:
    samples = Path(__file__).parents[1] / "samples" / "benchmarks"
    asked = ("--tasks", "MATH500", "--data_dir", samples, "--limit", 1, "--output_path", tmp_path / "out", "--json")
    done = package.run("eval", "run", "--model", "parrot", "--model_args", "voice=loud", *asked)
    assert (done.code, done.json["run"]["model"]["backend"]) == (0, "parrot")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--model", "parot"), "--model parot: no backend"),
        (("--model", "parrot", "--model_args", "pitch=high"), "parrot has no argument pitch"),
    ],
    ids=["its name", "its arguments"],
)
def test_a_misspelt_name_is_refused_beside_the_known_ones(
    package: Package, arguments: tuple[str, ...], said: str
) -> None:
    done = package.run("eval", "run", *arguments, "--tasks", "MATH500")
    assert done.code == 2
    assert said in done.stderr
    assert "parrot" in done.stderr or "voice" in done.stderr


@pytest.mark.parametrize(
    ("module", "point", "said"),
    [
        ("import no_such_module", {"owl": "owl:BACKEND"}, "'owl' of trivet-owl cannot be used (ModuleNotFoundError"),
        ("BACKEND = 'x'", {"owl": "owl:BACKEND"}, "owl:BACKEND is a str, and no models.backends.Backend"),
        ("", {"openai": "owl:BACKEND"}, "there is a backend of that name"),
    ],
    ids=["broken", "no backend", "clash"],
)
def test_an_unusable_package_is_named(package: Package, module: str, point: dict[str, str], said: str) -> None:
    (package.site / "owl.py").write_text(module)
    package.install("trivet-owl", "0.1", {"trivet.backends": point})

    done = package.run("eval", "run", "--model", "parrot", "--tasks", "MATH500")

    assert done.code == 2
    assert said in " ".join(done.stderr.split())
