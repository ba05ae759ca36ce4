"""CruxEval: 800 short Python functions; what does one give for an input, and which input gives an output?

Data as in facebookresearch/cruxeval (data/cruxeval.jsonl): id, code, input, output. The two parts, temperature, length
and metric keys as in mlfoundations/evalchemy (eval/chat_benchmarks/CruxEval/eval_instruct.py); prompts of the authors
(prompts.py, MIT), to think first (CruxEval) or to answer at once (CruxEvalDirect).

The answer is the text between the first [ANSWER] and [/ANSWER], else a block of code, else the whole text. The authors
execute `assert output == answer` (evaluation/utils_general.py); here cruxeval_answers.py in the sandbox is stricter:
- an output is a literal, without calls and operators;
- an input is one call of f; its arguments may be computed, but without f.
An output is right only if `f(input) == output` of the data holds too, which detects an unsuitable sandbox.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import CodeBenchmark, Summary
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Row, published_files
from tasks.grading.code.code_extraction import extract_code
from tasks.grading.code.code_grading import Verdict, verdict_of
from tasks.sandbox import Limits, Program, Sandbox

PROMPTS = tomllib.loads(Path(__file__).with_name("cruxeval_prompts.toml").read_text("utf-8"))
"""Prompts by part (`input`, `output`) and manner (`thinking`, `direct`), to fill: {code}, and {input} or {output}."""
PARTS = ("input", "output")
ANSWERS = Path(__file__).with_name("cruxeval_answers.py").read_text("utf-8")
ANSWER_CHARS = 4_000
"""Number of characters beyond which an answer is graded as wrong unread; the longest input of the data has 128."""
LIMITS = Limits(cpu_s=10, wall_s=30)
OPEN, CLOSE = "[ANSWER]", "[/ANSWER]"


class CruxEval(CodeBenchmark):
    """CruxEval, which lets the model think before it answers; groups are the two parts, `input` and `output`."""

    name = "CruxEval"
    summary = "800 Python functions: which input gives an output, what output does an input give; thinking first"
    files = published_files("CruxEval")
    sampling = Sampling(temperature=0.2, max_tokens=2048)
    manner = "thinking"
    """Key of the prompts in PROMPTS: `thinking` or `direct`."""

    def read_row(self, row: Row) -> Iterator[Item]:
        """Yield two items: f's input is asked for, given its output, and its output, given its input."""
        arguments = row.get("input")
        if not isinstance(arguments, str):  # empty where f takes nothing
            row.unusable(f"`input` must be the arguments of f as text, found {arguments!r:.80}")
        fields = {"code": row.text("code"), "input": arguments, "output": row.text("output")}
        for part in PARTS:
            yield Item(
                id=f"{row.id}/{part}",
                prompts=(PROMPTS[part][self.manner].format(**fields),),
                gold=f"f({fields['input']})" if part == "input" else fields["output"],
                group=part,
                detail=dict[str, JsonValue](fields),
            )

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        extracted = extract_answer(answer)
        if len(extracted) > ANSWER_CHARS:
            return Verdict(0.0, f"{len(extracted)} characters are no answer", extracted)
        return verdict_of(sandbox.run(build_program(item, extracted)), extracted)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return pass@k of all items, and that of each part under evalchemy's keys input_pass@1 and output_pass@1."""
        summary = super().summarise(samples)
        parts = {f"group={part}": part for part in PARTS}
        part_metrics = {
            f"{parts[estimate.part]}_{estimate.metric}": estimate.value
            for estimate in summary.estimates
            if estimate.part in parts
        }
        return summary._replace(metrics=summary.metrics | {f"{part}_pass@1": None for part in PARTS} | part_metrics)

    def gold_response(self, item: Item) -> str | None:
        return f"{OPEN}\nassert f({item.detail['input']}) == {item.detail['output']}\n{CLOSE}"


class CruxEvalDirect(CruxEval):
    """CruxEval with prompts that ask for the answer at once, without thinking."""

    name = "CruxEvalDirect"
    summary = "CruxEval with the authors' prompts for an answer at once"
    manner = "direct"


def extract_answer(response: str) -> str:
    """Return the text between the tags, or beside the only one, else the response; of a fenced block only the code."""
    before, closed, _ = response.partition(CLOSE)
    _, opened, tagged = before.partition(OPEN)
    if opened or closed:
        inner = tagged if opened else before
        return extract_code(inner, "python") if "```" in inner else inner.strip()
    _, opened, tagged = response.partition(OPEN)
    return extract_code(tagged if opened else response, "python").strip()


def build_program(item: Item, answer: str) -> Program:
    """Return the item's program with a test that passes only if the answer is right."""
    code, arguments, output = (str(item.detail[name]) for name in ("code", "input", "output"))
    if item.group == "input":
        test = f"assert output_of({answer!r}, globals()) == ({output})"
    else:
        holds = f"assert f({arguments}) == ({output}), 'the data does not hold here'"
        test = f"{holds}\nassert ({output}) == output_in({answer!r})"
    return Program(code, tests=f"{ANSWERS}\n{test}\n", limits=LIMITS)


BENCHMARKS = (CruxEval(), CruxEvalDirect())
