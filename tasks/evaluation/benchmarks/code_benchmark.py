"""What every benchmark of programs has in common: answers are executed in the sandbox, figures are pass@k."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tasks.evaluation.benchmarks.base import BaseBenchmark, Summary, Tools
from tasks.evaluation.evaluation_records import Family, Item, Response, Sample
from tasks.grading.code.code_grading import Verdict, grade_program
from tasks.sandbox import Sandbox, shared_sandbox


class CodeBenchmark(BaseBenchmark):
    """A benchmark whose answers are programs; a subclass writes `items`, `try_out` and `gold_response`.

    Figures are pass@k over the samples of an item, see `passing`; `ks` are the k of them.
    """

    family: Family = "code"
    metric = "pass@1"

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Execute the code in an answer, which is without reasoning already and not empty."""
        raise NotImplementedError

    def empty_response(self, item: Item) -> str | None:
        """An answer with an empty body, which must be graded as wrong; None where there is no such thing."""
        del item
        return None

    def gold_response(self, item: Item) -> str | None:
        raise NotImplementedError

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """A sample for each response, in order; as many at once as the sandbox has workers."""
        sandbox = tools.sandbox or shared_sandbox()
        return sandbox.map(lambda pair: self.sample(*pair, sandbox), answered)

    def sample(self, item: Item, response: Response, sandbox: Sandbox) -> Sample:
        """The graded sample of one response."""
        return grade_program(item, response, self.try_out, sandbox)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        from tasks.grading.code.code_grading import summarise_code

        return summarise_code(samples, ks=self.ks)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As every benchmark: canonical solutions pass; and empty bodies do not."""
        from tasks.evaluation.benchmarks.checking import passing_answers

        yield from super().check(items, tools)
        empty = ((item, answer) for item in items if (answer := self.empty_response(item)) is not None)
        yield from (f"item {item}: an empty body passes its tests" for item in passing_answers(self, empty, tools))
