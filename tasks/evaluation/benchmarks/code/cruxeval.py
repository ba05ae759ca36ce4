"""CruxEval: 800 short Python functions; what does one give for an input, and which input gives an output?

Data as in facebookresearch/cruxeval (data/cruxeval.jsonl): id, code, input, output. The two parts, temperature, length
and metric keys as in mlfoundations/evalchemy (eval/chat_benchmarks/CruxEval/eval_instruct.py); prompts of the authors
(prompts.py, MIT), to think first (CruxEval) or to answer at once (CruxEvalDirect).

The answer is the text between the first [ANSWER] and [/ANSWER], else a block of code, else the whole text. The authors
execute `assert output == answer` (evaluation/utils_general.py); here cruxeval_answers.py in the sandbox is stricter:
- an output is a literal, without calls and operators;
- an input is one call of f; its arguments may be computed, but without f and without objects that equal everything.
An output is right only if `f(input) == output` of the data holds too, which detects an unsuitable sandbox.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary, Tools, passing_answers
from tasks.evaluation.benchmarks.code.mbpp import emptied
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, distinct
from tasks.grading.code.code_extraction import code_in
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox

PROMPTS = tomllib.loads(Path(__file__).with_name("cruxeval_prompts.toml").read_text("utf-8"))
"""By what is asked for and how; with {code} and {input} or {output} to fill in."""
PARTS = ("input", "output")
ANSWERS = Path(__file__).with_name("cruxeval_answers.py").read_text("utf-8")
ANSWER_CHARS = 4_000
"""Longer texts are wrong; the longest input of the data has 128."""
LIMITS = Limits(cpu_s=10, wall_s=30)
OPEN, CLOSE = "[ANSWER]", "[/ANSWER]"


class CruxEval(CodeBenchmark):
    """Groups are the two parts, `input` and `output`."""

    name = "CruxEval"
    summary = "800 Python functions: which input gives an output, what output does an input give; thinking first"
    files = (
        DataFile(
            file="cruxeval.jsonl",
            hub="cruxeval-org/cruxeval",
            hub_split="test",
            get="It is data/cruxeval.jsonl of facebookresearch/cruxeval.",
        ),
    )
    sampling = Sampling(temperature=0.2, max_tokens=2048)
    manner = "thinking"
    """Which of the two prompts."""

    def items(self, data: Data) -> Iterator[Item]:
        for row in distinct(data.rows(self.files[0])):
            given = row.get("input")
            if not isinstance(given, str):  # empty where f takes nothing
                row.unusable(f"`input` must be the arguments of f as text, found {given!r:.80}")
            fields = {"code": row.text("code"), "input": given, "output": row.text("output")}
            for part in PARTS:
                yield Item(
                    id=f"{row.id}/{part}",
                    prompts=(PROMPTS[part][self.manner].format(**fields),),
                    gold=f"f({fields['input']})" if part == "input" else fields["output"],
                    group=part,
                    detail=dict[str, JsonValue](fields),
                )

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        found = answer_in(answer)
        if len(found) > ANSWER_CHARS:
            return Verdict(0.0, f"{len(found)} characters are no answer", found)
        return verdict_of(sandbox.run(program(item, found)), found)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """With evalchemy's keys input_pass@1 and output_pass@1."""
        found = super().summarise(samples)
        parts = {f"group={part}": part for part in PARTS}
        of_parts = {f"{parts[one.part]}_{one.metric}": one.value for one in found.estimates if one.part in parts}
        return found._replace(metrics=found.metrics | {f"{part}_pass@1": None for part in PARTS} | of_parts)

    def gold_response(self, item: Item) -> str | None:
        return f"{OPEN}\nassert f({item.detail['input']}) == {item.detail['output']}\n{CLOSE}"

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class; and with an emptied function no item's own answer is right."""
        yield from super().check(items, tools)
        hollow = [(empty, str(self.gold_response(item))) for item in items if (empty := emptied_item(item)) is not None]
        yield from (
            f"item {item}: its answer is right for an empty f too" for item in passing_answers(self, hollow, tools)
        )


class CruxEvalDirect(CruxEval):
    """The same, answered at once."""

    name = "CruxEvalDirect"
    summary = "CruxEval with the authors' prompts for an answer at once"
    manner = "direct"


def answer_in(response: str) -> str:
    """The text between the tags; without tags, the code."""
    before, closed, _ = response.partition(CLOSE)
    _, opened, tagged = before.partition(OPEN)
    if opened or closed:
        found = tagged if opened else before
        return code_in(found, "python") if "```" in found else found.strip()
    _, opened, tagged = response.partition(OPEN)
    return code_in(tagged if opened else response, "python").strip()


def program(item: Item, answer: str) -> Program:
    """The item's program, with a test that the answer is right."""
    code, given, output = (str(item.detail[name]) for name in ("code", "input", "output"))
    if item.group == "input":
        test = f"assert output_of({answer!r}, globals()) == ({output})"
    else:
        holds = f"assert f({given}) == ({output}), 'the data does not hold here'"
        test = f"{holds}\nassert ({output}) == output_in({answer!r})"
    return Program(code, tests=f"{ANSWERS}\n{test}\n", limits=LIMITS)


def emptied_item(item: Item) -> Item | None:
    """The item with an empty function; None if that would pass."""
    code = emptied(str(item.detail["code"]))
    if code is None or item.detail["output"] == "None":
        return None
    return item.model_copy(update={"detail": {**item.detail, "code": code}})


BENCHMARKS = (CruxEval(), CruxEvalDirect())
