"""How questions are asked after demonstrations, and what of the model's words counts as the answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import pytest

from models.protocols import ChatRequest, Image, LogProb, Text
from tasks.lever.judge.demonstration_task import WORDINGS, PromptSettings, TextClassification, VqaTask
from tasks.lever.judge.judging import Judging, PromptedQuery
from tasks.lever.lever_records import TextItem, VqaItem
from tests.kept_responses import Kept
from tests.lever.small_judges import Endpoint, limits


def item(name: str, *answers: str) -> VqaItem:
    return VqaItem(
        id=name,
        image_id=name,
        image=f"{name}.png",
        image_sha256="0" * 64,
        question=f"What is {name}?",
        answers=answers or (f"a {name}",),
    )


def picture(of: VqaItem) -> Image:
    return Image(png=of.id.encode())


DOG, CAT, COW = item("dog", "dog", "puppy", "puppy"), item("cat"), item("cow")


def prompt(query: VqaItem, demonstrations: Sequence[VqaItem], settings: PromptSettings) -> ChatRequest:
    return VqaTask(settings, pictures=picture).request(query, demonstrations)


def answer_in(text: str) -> str:
    return VqaTask(PromptSettings()).answer_in(text)


def shown(request: ChatRequest) -> list[tuple[str, str]]:
    """Role and content of each part; a picture as <name>."""
    return [
        (turn.role, part.text if isinstance(part, Text) else f"<{part.png.decode()}>")
        for turn in request.messages
        for part in turn.content
    ]


def test_a_completion_is_one_message_of_pictures_and_texts_in_turn() -> None:
    request = prompt(COW, (DOG, CAT), PromptSettings(style="completion"))
    assert len(request.messages) == 1
    assert shown(request) == [
        ("user", "<dog>"),
        ("user", "Question:What is dog? Short answer:puppy"),
        ("user", "<cat>"),
        ("user", "Question:What is cat? Short answer:a cat"),
        ("user", "<cow>"),
        ("user", "Question:What is cow? Short answer:"),
    ]


def test_in_a_chat_the_model_itself_has_answered_the_demonstrations() -> None:
    request = prompt(COW, (DOG, CAT), PromptSettings(style="chat"))
    assert shown(request) == [
        ("user", "<dog>"),
        ("user", "Question:What is dog? Short answer:"),
        ("assistant", "puppy"),
        ("user", "<cat>"),
        ("user", "Question:What is cat? Short answer:"),
        ("assistant", "a cat"),
        ("user", "<cow>"),
        ("user", "Question:What is cow? Short answer:"),
    ]
    assert [turn.role for turn in request.messages] == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize("style", ["completion", "chat"])
def test_the_latest_pick_stands_first_on_demand(style: str) -> None:
    settings = PromptSettings.model_validate({"style": style, "latest_pick": "first"})
    usual = settings.model_copy(update={"latest_pick": "last"})
    assert prompt(COW, (DOG, CAT), settings) == prompt(COW, (CAT, DOG), usual)
    assert prompt(COW, (DOG, CAT), settings) != prompt(COW, (DOG, CAT), usual)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("red", "red"),
        (" red\n", "red"),
        ("red Question:What", "red"),
        ("red Short answer:", "red"),
        ("red\n\nAnswer: blue", "red"),
        ("red, blue", "red"),
        ("1,000", "1,000"),
        ("red, Question", "red"),
        ("Question: red", ""),
        ("short question", "short question"),
        ("", ""),
    ],
)
def test_the_answer_ends_at_a_cue_or_at_a_comma(text: str, answer: str) -> None:
    assert answer_in(text) == answer


WHO = TextItem(id="q", text="Who was Galileo ?", label="Person")
WHEN = TextItem(id="a", text="When is it ?", label="Number")
WHERE = TextItem(id="b", text="Where is it ?", label="Location")
ITEMS = {item.id: item for item in (WHO, WHEN, WHERE)}
INSTRUCTION = WORDINGS["trec"].instruction


class Reader(Endpoint):
    """Gives each label the weight that `weigh` has for what stands last in the prompt."""

    id = "reader:1"

    def __init__(self, weigh: Callable[[str, str], float]) -> None:
        super().__init__()
        self.weigh = weigh
        self.read: list[tuple[str, str]] = []

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, LogProb]]:
        self.read += pairs
        for number in reversed(range(len(pairs))):
            yield number, LogProb(math.log(self.weigh(*pairs[number])), greedy=False)

    def loglikelihood_rolling(self, texts: Sequence[str]) -> Iterator[tuple[int, float]]:
        raise NotImplementedError


def half_a_person(context: str, label: str) -> float:
    """Of all six labels .1 + .1 + .5 + .1 + .1 + .1 after no demonstration; a number is sure after one."""
    sure = "Number\n\n" in context
    return {" Number": 0.8 if sure else 0.1, " Person": 0.1 if sure else 0.5}.get(label, 0.025 if sure else 0.1)


def judging(judge: Endpoint, store: Kept | None = None, prompts: PromptSettings | None = None) -> Judging:
    task = TextClassification(WORDINGS["trec"], prompts or PromptSettings())
    return Judging(judge, ITEMS, task, threshold=0.5, responses=store or Kept(), limits=limits())


def text_of(prompts: PromptSettings, *shown: TextItem, dataset: str = "trec") -> str:
    request = TextClassification(WORDINGS[dataset], prompts).request(WHO, shown)
    [message] = request.messages
    [part] = message.content
    assert isinstance(part, Text)
    assert request.template is False
    return part.text


def test_a_prompt_ends_where_the_label_of_the_query_follows() -> None:
    assert text_of(PromptSettings(), WHEN, WHERE) == (
        f"{INSTRUCTION}\n\n"
        "Question: When is it ?\nAnswer Type: Number\n\n"
        "Question: Where is it ?\nAnswer Type: Location\n\n"
        "Question: Who was Galileo ?\nAnswer Type:"
    )


def test_the_likeliest_label_is_the_answer() -> None:
    found = judging(Reader(half_a_person)).judge([PromptedQuery("q", ()), PromptedQuery("q", ("a",))])
    assert [(one.answer, one.accuracy, one.correct) for one in found] == [("Person", 1.0, 1), ("Number", 0.0, 0)]


def test_likelihoods_are_shares_among_the_labels() -> None:
    judge = judging(Reader(half_a_person))
    asked = [PromptedQuery("q", ()), PromptedQuery("q", ("a",))]
    assert judge.gt_prob(asked) == pytest.approx([0.5 / 1.0, 0.1 / 1.0])
    assert judge.answer_log_probs(asked) == pytest.approx([math.log(0.5), math.log(0.1)])


def test_a_prompt_is_weighed_once_whatever_is_asked_of_it_and_a_second_run_weighs_nothing() -> None:
    store, first = Kept(), Reader(half_a_person)
    judge = judging(first, store)
    [answer] = judge.judge([PromptedQuery("q", ("a",))])
    judge.gt_prob([PromptedQuery("q", ("a",))])
    assert [label for _, label in first.read] == [" Number", " Location", " Person"] + [
        f" {label}" for label in ("Description", "Entity", "Abbreviation")
    ]
    assert list(store.rows) == [answer.key]
    later = Reader(half_a_person)
    assert judging(later, store).judge([PromptedQuery("q", ("a",))]) == [answer]
    assert later.read == []
