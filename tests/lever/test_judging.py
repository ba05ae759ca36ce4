"""Questions go to the judge once each, in the order of their prompts; what fails is a failure and no wrong answer."""

from __future__ import annotations

import hashlib
import io
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from PIL import Image as Decoder

from models.errors import ContextOverflow, ModelUnavailable, RequestRefused, TransientModelError
from models.protocols import ChatRequest, ChatResponse, Message, Text
from storage import database
from storage.embedded import Cluster
from storage.responses import Responses, StoredResponse
from tasks.budget import Budget, BudgetSpent
from tasks.calls import CallSettings, Limits
from tasks.lever.errors import DatasetUnusable, JudgeUnusable
from tasks.lever.judging import TOGETHER, Asked, Judging, Judgment
from tasks.lever.prompting import PromptSettings
from tasks.lever.records import VqaItem
from tests.storage.conftest import open_home

ANSWERS = ("ferry", "ferry", "a boat", *["ship"] * 7)
NAMES = "qabcd"


class Kept:
    """A response store in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredResponse] = {}

    def get(self, key: str) -> StoredResponse | None:
        return self.rows.get(key)

    def put(self, key: str, response: StoredResponse) -> None:
        self.put_many({key: response})

    def many(self, keys: list[str]) -> dict[str, StoredResponse]:
        return {key: self.rows[key] for key in keys if key in self.rows}

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        self.rows = dict(rows) | self.rows


class Endpoint:
    """Answers as `say` does, which gets the questions in the prompt, the last one being asked."""

    id = "endpoint:1"

    def __init__(self, say: Callable[[str], str] = lambda names: "ferry") -> None:
        self.say = say
        self.asked: list[str] = []

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        self.asked.append(names_in(request))
        return ChatResponse(text=self.say(names_in(request)), finish_reason="stop")


class Engine(Endpoint):
    """The same in this process, many at once; the longer an answer, the less likely."""

    id = "engine:1"

    def __init__(self, say: Callable[[str], str] = lambda names: "ferry") -> None:
        super().__init__(say)
        self.weighed: list[tuple[str, str]] = []
        self.batches: list[int] = []
        self.dies_after = math.inf

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse]]:
        for number, request in enumerate(requests):
            yield number, self.complete(request)

    def answer_log_probs(self, asked: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        self.batches.append(len(asked))
        for number in reversed(range(len(asked))):
            if len(self.weighed) >= self.dies_after:
                raise RuntimeError("out of memory")
            request, answer = asked[number]
            self.weighed.append((names_in(request), answer))
            yield number, self.log_prob(answer)

    def log_prob(self, answer: str) -> float:
        return -math.log(2) * len(answer)


def names_in(request: ChatRequest) -> str:
    """The letters of the questions in a prompt."""
    texts = [part.text for turn in request.messages for part in turn.content if isinstance(part, Text)]
    return "".join(text.removeprefix("Question:What is ")[0] for text in texts if text.startswith("Question:"))


@pytest.fixture
def items(tmp_path: Path) -> dict[str, VqaItem]:
    """Five questions, each with a picture of its own."""
    found: dict[str, VqaItem] = {}
    for number, name in enumerate(NAMES):
        file = io.BytesIO()
        Decoder.new("RGB", (4, 4), (number, 0, 0)).save(file, "PNG")
        path = tmp_path / f"{name}.png"
        path.write_bytes(file.getvalue())
        found[name] = VqaItem(
            id=name,
            image_id=name,
            image=str(path),
            image_sha256=hashlib.sha256(file.getvalue()).hexdigest(),
            question=f"What is {name}?",
            answers=ANSWERS,
        )
    return found


def judging(
    chat: Endpoint,
    items: Mapping[str, VqaItem],
    responses: Kept | Responses | None = None,
    *,
    threshold: float = 0.5,
    prompts: PromptSettings | None = None,
    budget: Budget | None = None,
    stem: bool = False,
) -> Judging:
    limits = Limits(CallSettings(concurrency=1, tries=1), rng=random.Random(0))
    return Judging(
        chat,
        items,
        prompts=prompts or PromptSettings(),
        threshold=threshold,
        responses=responses or Kept(),
        limits=limits,
        budget=budget,
        stem=stem,
    )


def asked(*words: str) -> list[Asked]:
    """`abq`: question q after a and b."""
    return [Asked(word[-1], tuple(word[:-1])) for word in words]


def forget(item: VqaItem) -> None:
    """Its picture is gone."""
    Path(item.image).unlink()


@pytest.mark.parametrize(
    ("said", "threshold", "judgment"),
    # "ferry" is what 2 of 10 say, "a boat" one, "ship" seven
    [
        ("ferry", 0.5, Judgment("ferry", 1, 0.6, None)),
        ("ferry", 0.6, Judgment("ferry", 1, 0.6, None)),
        ("ferry", 0.61, Judgment("ferry", 0, 0.6, None)),
        ("The boat.", 0.5, Judgment("The boat.", 0, 0.3, None)),
        ("ship Question:What", 0.5, Judgment("ship", 1, 1.0, None)),
        ("ship, ferry", 1.0, Judgment("ship", 1, 1.0, None)),
        ("ships", 0.5, Judgment("ships", 0, 0.0, None)),
        ("Answer: ship", 0.5, Judgment("", 0, 0.0, None)),
    ],
)
def test_an_answer_gets_its_accuracy_and_is_right_from_the_threshold_on(
    items: dict[str, VqaItem], said: str, threshold: float, judgment: Judgment
) -> None:
    assert judging(Endpoint(lambda _: said), items, threshold=threshold).judge(asked("abq")) == [judgment]


def test_stems_are_compared_on_demand(items: dict[str, VqaItem]) -> None:
    [judgment] = judging(Endpoint(lambda _: "ships"), items, stem=True).judge(asked("abq"))
    assert judgment.accuracy == 1.0


def test_judgments_come_in_the_order_of_what_was_asked(items: dict[str, VqaItem]) -> None:
    judged = judging(Endpoint(lambda names: names), items).judge(asked("dq", "abq", "q", "cq"))
    assert [one.answer for one in judged] == ["dq", "abq", "q", "cq"]


@pytest.mark.parametrize("chat", [Endpoint, Engine])
def test_the_same_question_is_asked_once_and_another_order_is_another_question(
    items: dict[str, VqaItem], chat: type[Endpoint]
) -> None:
    one = chat()
    judge = judging(one, items)
    first = judge.judge(asked("abq", "baq", "abq"))
    assert judge.judge(asked("baq", "abq")) == [first[1], first[0]]
    assert sorted(one.asked) == ["abq", "baq"]


def test_another_run_asks_nothing(items: dict[str, VqaItem]) -> None:
    store, words = Kept(), asked("abq", "baq", "q")
    first = judging(Endpoint(), items, store).judge(words)
    later = Endpoint()
    assert judging(later, items, store).judge(words) == first
    assert later.asked == []


@pytest.mark.parametrize(
    ("latest_pick", "order"),
    # equal beginnings of prompts are neighbours, whichever end the picks were made from
    [("last", ["abc", "abq", "acq", "bq", "cbq"]), ("first", ["bq", "bac", "baq", "bcq", "caq"])],
)
def test_equal_beginnings_of_prompts_are_neighbours(
    items: dict[str, VqaItem], latest_pick: str, order: list[str]
) -> None:
    chat = Endpoint()
    prompts = PromptSettings.model_validate({"latest_pick": latest_pick})
    judging(chat, items, prompts=prompts).judge(asked("cbq", "abq", "bq", "acq", "abc"))
    assert chat.asked == order


@pytest.mark.parametrize("style", ["completion", "chat"])
def test_other_prompts_are_other_questions(items: dict[str, VqaItem], style: str) -> None:
    store, chat = Kept(), Endpoint()
    judging(chat, items, store, prompts=PromptSettings(max_new_tokens=6)).judge(asked("abq"))
    judging(chat, items, store, prompts=PromptSettings.model_validate({"style": style})).judge(asked("abq"))
    assert chat.asked == ["abq", "abq"]


def test_a_picture_that_is_gone_fails_what_shows_it_and_nothing_else(items: dict[str, VqaItem]) -> None:
    forget(items["a"])
    judged = judging(Endpoint(), items).judge(asked("abq", "bq", "a"))
    assert [one.correct for one in judged] == [None, 1, None]
    assert judged[0].failed is not None
    assert "question a: its picture" in judged[0].failed
    assert (judged[0].answer, judged[0].accuracy, judged[0].retryable) == (None, None, False)


@pytest.mark.parametrize(
    ("error", "retryable"), [(TransientModelError("busy"), True), (ContextOverflow("too long"), False)]
)
def test_a_judge_that_fails_is_no_wrong_answer(items: dict[str, VqaItem], error: Exception, retryable: bool) -> None:
    def say(names: str) -> str:
        if names == "abq" and not healed:
            raise error
        return "ship"

    healed: list[bool] = []
    chat = Endpoint(say)
    judge = judging(chat, items)
    assert judge.judge(asked("abq", "bq")) == [
        Judgment(None, None, None, str(error), retryable),
        Judgment("ship", 1, 1.0, None),
    ]
    healed.append(True)
    [again] = judge.judge(asked("abq"))
    assert (again.correct, chat.asked.count("abq")) == ((1, 2) if retryable else (None, 1))


@pytest.mark.parametrize("error", [ModelUnavailable("no such model"), RequestRefused("no pictures")])
def test_what_concerns_all_questions_is_raised_and_the_answers_are_kept(
    items: dict[str, VqaItem], error: Exception
) -> None:
    def say(names: str) -> str:
        if names == "cq":
            raise error
        return "ship"

    store, words = Kept(), asked("abq", "bq", "cq")
    with pytest.raises(type(error)):
        judging(Endpoint(say), items, store).judge(words)
    later = Endpoint()
    judging(later, items, store).judge(words)
    assert later.asked == ["cq"]


def test_a_spent_budget_is_raised_and_the_answers_are_kept(items: dict[str, VqaItem]) -> None:
    store, chat = Kept(), Endpoint()
    judge = judging(chat, items, store, budget=Budget(max_calls=2))
    with pytest.raises(BudgetSpent):
        judge.judge(asked("abq", "bq", "cq"))
    assert [one.failed for one in judge.judge(asked("abq", "bq"))] == [None, None]
    assert chat.asked == ["abq", "bq"]


def test_a_question_of_another_dataset_is_refused_before_anything_is_asked(items: dict[str, VqaItem]) -> None:
    chat = Engine()
    judge = judging(chat, items)
    with pytest.raises(DatasetUnusable, match="there is no question z in this dataset"):
        judge.judge(asked("abq", "zq"))
    with pytest.raises(DatasetUnusable, match="there is no question z in this dataset"):
        judge.log_probs([(one, "ferry") for one in asked("abq", "az")])
    assert (chat.asked, chat.weighed) == ([], [])


def test_log_probabilities_come_in_order_and_each_is_asked_for_once(items: dict[str, VqaItem]) -> None:
    chat = Engine()
    judge = judging(chat, items)
    pairs = [(one, answer) for one in asked("bq", "abq", "bq") for answer in ("ship", "ferry")]
    expected = [chat.log_prob(answer) for _, answer in pairs]
    assert judge.log_probs(pairs) == expected
    assert judge.log_probs(pairs[::-1]) == expected[::-1]
    assert sorted(chat.weighed) == sorted([("abq", "ferry"), ("abq", "ship"), ("bq", "ferry"), ("bq", "ship")])


def test_log_probabilities_are_found_again_whatever_the_answer_may_be_long(items: dict[str, VqaItem]) -> None:
    store, pairs = Kept(), [(one, "ship") for one in asked("abq", "bq")]
    first = judging(Engine(), items, store).log_probs(pairs)
    later = Engine()
    assert judging(later, items, store, prompts=PromptSettings(max_new_tokens=9)).log_probs(pairs) == first
    assert later.weighed == []


@pytest.mark.parametrize("changed", [{"style": "chat"}, {"template": False}, {"instruction": "Be brief."}])
def test_log_probabilities_depend_on_the_prompt(items: dict[str, VqaItem], changed: dict[str, object]) -> None:
    store, chat, pairs = Kept(), Engine(), [(one, "ship") for one in asked("abq")]
    judging(chat, items, store).log_probs(pairs)
    judging(chat, items, store, prompts=PromptSettings.model_validate(changed)).log_probs(pairs)
    assert len(chat.weighed) == 2


def test_an_answer_and_its_log_probability_do_not_meet_in_the_store(items: dict[str, VqaItem]) -> None:
    store, chat = Kept(), Engine()
    judge = judging(chat, items, store)
    judge.judge(asked("abq"))
    assert judge.log_probs([(asked("abq")[0], "ship")]) == [chat.log_prob("ship")]
    assert len(store.rows) == 2


def test_an_impossible_answer_has_minus_infinity_in_the_store_too(items: dict[str, VqaItem]) -> None:
    class Sure(Engine):
        def log_prob(self, answer: str) -> float:
            return -math.inf

    store, pairs = Kept(), [(asked("abq")[0], "ship")]
    assert judging(Sure(), items, store).log_probs(pairs) == [-math.inf]
    assert judging(Engine(), items, store).log_probs(pairs) == [-math.inf]
    assert judging(Sure(), items, store).gt_prob(asked("abq")) == [0.0]


def test_nan_from_a_judge_is_refused_and_not_stored(items: dict[str, VqaItem]) -> None:
    class Broken(Engine):
        def log_prob(self, answer: str) -> float:
            return math.nan

    store = Kept()
    with pytest.raises(JudgeUnusable, match="engine:1 gave NaN"):
        judging(Broken(), items, store).log_probs([(asked("abq")[0], "ship")])
    assert store.rows == {}


def test_a_judge_without_log_probabilities_is_refused(items: dict[str, VqaItem]) -> None:
    with pytest.raises(JudgeUnusable, match="endpoint:1 gives no log-probabilities"):
        judging(Endpoint(), items).gt_prob(asked("abq"))


def test_log_probabilities_that_came_before_a_failure_are_kept(items: dict[str, VqaItem]) -> None:
    store, chat = Kept(), Engine()
    pairs = [(one, "ship") for one in asked("abq", "bq", "cq", "dq")]
    chat.dies_after = 3
    with pytest.raises(RuntimeError, match="out of memory"):
        judging(chat, items, store).log_probs(pairs)
    later = Engine()
    judging(later, items, store).log_probs(pairs)
    assert len(later.weighed) == 1


def test_many_log_probabilities_are_asked_for_in_batches(items: dict[str, VqaItem]) -> None:
    chat = Engine()
    judging(chat, items).log_probs([(asked("abq")[0], f"{number}") for number in range(TOGETHER + 3)])
    assert chat.batches == [TOGETHER, 3]


def test_a_picture_that_is_gone_has_no_log_probability(items: dict[str, VqaItem]) -> None:
    forget(items["a"])
    judge = judging(Engine(), items)
    assert [math.isnan(one) for one in judge.log_probs([(one, "ship") for one in asked("abq", "bq")])] == [True, False]
    assert [math.isnan(one) for one in judge.gt_prob(asked("abq", "bq"))] == [True, False]


def test_the_probability_of_a_right_answer_weighs_answers_by_people(items: dict[str, VqaItem]) -> None:
    # 2 of 10 say "ferry", one "a boat", seven "ship"; the engine halves for each letter
    expected = 2 / 3 * 2**-5 + 1 / 3 * 2**-6 + 1 * 2**-4
    assert judging(Engine(), items).gt_prob(asked("abq", "q")) == pytest.approx([expected, expected])


@pytest.mark.parametrize("method", ["judge", "log_probs", "gt_prob"])
def test_nothing_asked_is_nothing_answered(items: dict[str, VqaItem], method: str) -> None:
    assert getattr(judging(Engine(), items), method)([]) == []


def test_questions_that_look_alike_share_their_answer(items: dict[str, VqaItem]) -> None:
    """Two ids may stand for one picture and question."""
    twin = items["q"].model_copy(update={"id": "r", "answers": ("boat",) * 10})
    chat = Engine()
    judge = judging(chat, items | {"r": twin})
    assert [one.accuracy for one in judge.judge(asked("aq", "ar"))] == [0.6, 0.0]
    assert judge.log_probs([(one, "ship") for one in asked("aq", "ar")]) == [chat.log_prob("ship")] * 2
    assert (chat.asked, chat.weighed) == (["aq"], [("aq", "ship")])


def test_requests_hold_the_pictures_of_all_questions_in_them(items: dict[str, VqaItem]) -> None:
    seen: list[tuple[Message, ...]] = []

    class Looking(Endpoint):
        def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
            seen.append(request.messages)
            return super().complete(request)

    judging(Looking(), items).judge(asked("abq"))
    pngs = [part.png for [message] in seen for part in message.content if part.type == "image"]
    assert pngs == [Path(items[name].image).read_bytes() for name in "abq"]


@pytest.mark.postgres
def test_judgments_and_log_probabilities_outlive_the_process_in_the_database(items: dict[str, VqaItem]) -> None:
    words = asked("abq", "baq", "q")
    pairs = [(one, "ship") for one in words]
    first, later = Engine(), Engine()
    with open_home() as home:
        url = Cluster(home).start()
        judge, again = (judging(chat, items, Responses(lambda: url)) for chat in (first, later))
        expected = (judge.judge(words), judge.log_probs(pairs))
        assert (again.judge(words), again.log_probs(pairs)) == expected
        database.engine(url).dispose()
    assert (len(first.asked), len(first.weighed)) == (3, 3)
    assert (later.asked, later.weighed) == ([], [])
