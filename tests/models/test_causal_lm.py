from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from models.causal_lm import CausalLM
from models.model_errors import ModelError, ModelUnavailable, RequestRefused, TransientModelError
from models.protocols import ChatRequest, ChatResponse, Message, Text
from tests.models.tiny import make_tiny_model, memory_for_three

PROMPTS = [f"Count to {number} " + "and on " * (number % 5) for number in range(11)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path) -> CausalLM:
    return CausalLM(str(folder))


@pytest.fixture(scope="module")
def speaker(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    return CausalLM(str(make_tiny_model(tmp_path_factory.mktemp("speaker"), says="one two three four five")))


def request(prompt: str = "Say it", **fields: Any) -> ChatRequest:
    message = Message(role="user", content=(Text(text=prompt),))
    return ChatRequest.model_validate({"messages": (message,), "max_tokens": 10, **fields})


def answers(model: CausalLM, requests: list[ChatRequest]) -> list[ChatResponse | ModelError]:
    found = dict(model.complete_many(requests))
    return [found[number] for number in range(len(requests))]


def texts(model: CausalLM, requests: list[ChatRequest]) -> list[str]:
    return [cast(ChatResponse, answer).text for answer in answers(model, requests)]


def test_greedy_answers_are_those_of_a_bare_generate(model: CausalLM):
    loaded = model._load()
    for prompt, text in zip(PROMPTS[:4], texts(model, [request(prompt) for prompt in PROMPTS[:4]]), strict=True):
        turns = [{"role": "user", "content": prompt}]
        tokens = loaded.tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_tensors="pt")
        whole = loaded.model.generate(**tokens, max_new_tokens=10, do_sample=False)
        bare = whole[0, tokens["input_ids"].shape[1] :]
        assert text == loaded.tokenizer.decode(bare, skip_special_tokens=True)


def test_drawn_answers_differ_by_seed_and_by_draw_and_not_by_time(model: CausalLM):
    asked = [request(temperature=1.0, seed=seed, draw=draw) for seed in (None, 1, 2) for draw in (0, 1)]
    first = texts(model, asked)
    assert len(set(first)) == len(asked)
    assert texts(model, asked) == first


def test_a_small_top_p_is_the_likeliest_word(model: CausalLM):
    drawn, likeliest = texts(model, [request(temperature=1.0, top_p=1e-6, seed=1), request()])
    assert drawn == likeliest


@pytest.mark.parametrize("temperature", [0.0, 0.8], ids=["greedy", "drawn"])
def test_rows_that_are_done_change_no_other(model: CausalLM, temperature: float):
    model.use_batches("auto")
    limits = [1, 60, 2, 3, 9, 2, 33, 1, 5, 17, 2, 4]
    stops = [("e",) if row % 5 == 4 else () for row in range(len(limits))]
    asked = [
        request(f"Name {row}", temperature=temperature, seed=row, max_tokens=limits[row], stop=stops[row])
        for row in range(len(limits))
    ]
    assert answers(model, asked) == [model.complete(one) for one in asked]


def test_an_answer_that_ends_says_so_and_is_counted_with_its_end(speaker: CausalLM):
    answer = speaker.complete(request())
    assert (answer.text, answer.finish_reason, answer.completion_tokens) == ("one two three four five", "stop", 6)


def test_the_longest_come_first(model: CausalLM):
    asked = [request("a" * length, max_tokens=2) for length in (3, 90, 30)]
    assert [number for number, _ in model.complete_many(asked)] == [1, 2, 0]


@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ((" three",), "one two"),
        (("ree fo",), "one two th"),
        (("nowhere",), "one two three four five"),
        (("five", "two"), "one "),
        (("<|end|>",), "one two three four five"),
    ],
    ids=["a word", "across words", "never", "the first of two", "a special token"],
)
def test_a_stop_ends_the_answer_and_is_no_part_of_it(speaker: CausalLM, stop: tuple[str, ...], text: str):
    answer = speaker.complete(request(stop=stop))
    assert (answer.text, answer.finish_reason) == (text, "stop")


@pytest.mark.parametrize(
    ("fields", "sent"),
    [
        ({}, {"max_new_tokens": 10, "do_sample": False}),
        ({"seed": 4}, {"max_new_tokens": 10, "do_sample": False}),
        (
            {"temperature": 0.7, "top_p": 0.9, "stop": ("x",)},
            {"max_new_tokens": 10, "do_sample": True, "temperature": 0.7, "top_p": 0.9, "stop_strings": ["x"]},
        ),
        ({"max_tokens": 99_999}, {"max_new_tokens": 4086, "do_sample": False}),
    ],
    ids=["greedy", "a seed is of no use", "drawn", "as far as the context has room"],
)
def test_what_the_model_got_is_recorded(speaker: CausalLM, fields: dict[str, Any], sent: dict[str, Any]):
    got = dict(speaker.complete(request(**fields)).sent)
    assert (got.pop("generator_seed", None) is not None) == sent["do_sample"]
    assert got == sent


def test_the_models_own_top_k_and_top_p_hold_unless_another_is_asked_for(tmp_path: Path):
    folder = make_tiny_model(tmp_path, generation={"do_sample": True, "top_k": 3, "top_p": 0.8, "temperature": 0.6})
    sent = CausalLM(str(folder)).complete(request(temperature=1.0, max_tokens=2)).sent
    assert (sent["temperature"], sent["top_k"], sent["top_p"]) == (1.0, 3, 0.8)


def test_a_raw_prompt_goes_as_it_stands(model: CausalLM):
    assert model.complete(request("abc", template=False)).prompt_tokens == 3
    assert model.complete(request("abc")).prompt_tokens == 7


def test_a_model_without_a_template_says_how_to_go_on(tmp_path: Path):
    bare = CausalLM(str(make_tiny_model(tmp_path, chat_template=None)))
    with pytest.raises(ModelUnavailable, match="--apply_chat_template False"):
        list(bare.complete_many([request()]))
    assert bare.complete(request(template=False, max_tokens=2)).completion_tokens == 2


def test_a_template_is_found_by_its_name(tmp_path: Path):
    named = {"default": "{{ messages[0].content }}", "loud": "LOUD {{ messages[0].content }}"}
    model = CausalLM(str(make_tiny_model(tmp_path, chat_template=named)))
    found = [model.complete(request("abc", template=name, max_tokens=1)).prompt_tokens for name in (True, "loud")]
    assert found == [3, 8]
    with pytest.raises(ModelUnavailable, match="it has default, loud"):
        model.complete(request(template="quiet"))


STRICT = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{{ message['content'] }}|{% endfor %}"
)


def test_a_template_without_a_system_gets_its_words_in_the_question(tmp_path: Path):
    model = CausalLM(str(make_tiny_model(tmp_path, chat_template=STRICT)))
    system = Message(role="system", content=(Text(text="ab"),))
    user = Message(role="user", content=(Text(text="cd"),))
    answer = model.complete(ChatRequest(messages=(system, user), max_tokens=1))
    assert answer.prompt_tokens == len("ab\n\ncd|")


def test_a_template_that_refuses_all_refuses_the_request(tmp_path: Path):
    model = CausalLM(str(make_tiny_model(tmp_path, chat_template="{{ raise_exception('never') }}")))
    with pytest.raises(RequestRefused, match="never"):
        model.complete(request())


def test_labels_of_several_lengths_are_as_likely_together_as_alone(model: CausalLM):
    labels = (" a", " a b", " a b c d", " z")
    pairs = [(context, label) for context in ("Say it", "Say it and go on", " word1" * 700) for label in labels]
    together = dict(model.loglikelihood(pairs))
    alone = [dict(model.loglikelihood([pair]))[0] for pair in pairs]
    assert [together[number].total for number in range(len(pairs))] == pytest.approx(
        [one.total for one in alone], abs=1e-4
    )
    assert [together[number].greedy for number in range(len(pairs))] == [one.greedy for one in alone]


def test_an_answer_is_as_likely_as_its_words_and_its_end(model: CausalLM):
    [(_, told)] = model.answer_log_probs([(request("Count to", template=False), " and on")])
    [(_, expected)] = model.loglikelihood([("Count to", f" and on{model._load().tokenizer.eos_token}")])
    assert told == pytest.approx(expected.total, abs=1e-4)


@pytest.fixture
def crowded(folder: Path) -> Iterator[tuple[CausalLM, list[int]]]:
    """A model whose memory ends beyond three rows, and the sizes of the batches that it was given."""
    model = CausalLM(str(folder), batch_size="auto")
    with memory_for_three(model._load().model) as rows:
        yield model, rows


def test_an_automatic_batch_is_halved_until_it_fits(crowded: tuple[CausalLM, list[int]], model: CausalLM):
    subject, rows = crowded
    asked = [request(prompt, max_tokens=3) for prompt in PROMPTS]
    assert texts(subject, asked) == texts(model, asked)
    assert rows[:3] == [11, 5, 2]
    assert subject.batch_size == 2


def test_likelihoods_survive_the_end_of_memory_too(crowded: tuple[CausalLM, list[int]], model: CausalLM):
    pairs = [(prompt, " word1") for prompt in PROMPTS]
    found, expected = (dict(subject.loglikelihood(pairs)) for subject in (crowded[0], model))
    assert {number: value.total for number, value in found.items()} == pytest.approx(
        {number: value.total for number, value in expected.items()}, abs=1e-4
    )


def test_a_batch_of_a_given_size_that_does_not_fit_ends_the_run_with_the_remedy(crowded: tuple[CausalLM, list[int]]):
    subject, _ = crowded
    subject._is_auto = False
    with pytest.raises(TransientModelError, match="smaller batch_size"):
        list(subject.complete_many([request(prompt) for prompt in PROMPTS]))


def test_the_id_names_model_weights_and_precision(folder: Path, model: CausalLM):
    assert model.id.startswith(f"hf:{folder.name}@")
    assert model.id.endswith(":float32")
    assert CausalLM(str(folder)).id == model.id
    assert CausalLM(str(folder), dtype="bfloat16").id.endswith(":bfloat16")
    assert CausalLM(str(folder), max_length=100).id == f"{model.id}:100"


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("/nowhere/model", {}, "no folder"),
        ("nobody/nothing-of-the-kind", {}, "neither a folder nor"),
        ("not a name", {}, "neither a folder nor"),
        ("FOLDER", {"device": "abacus"}, "device=abacus: there is none here"),
        ("FOLDER", {"device": "cuda:99"}, "device=cuda:99: there is none here"),
        ("EMPTY", {}, "no config.json"),
        ("FOLDER", {"max_length": 4097}, r"max_length=4097 is more than the 4096 tokens that .* has positions for"),
    ],
)
def test_what_cannot_be_opened_says_why(folder: Path, tmp_path: Path, name: str, options: dict[str, Any], says: str):
    place = {"FOLDER": str(folder), "EMPTY": str(tmp_path)}.get(name, name)
    with pytest.raises(ModelUnavailable, match=says):
        CausalLM(place, **options).complete(request())


def test_a_context_that_is_stretched_reaches_as_far(folder: Path, tmp_path: Path):
    stretched = shutil.copytree(folder, tmp_path / "stretched")
    config = json.loads((stretched / "config.json").read_text())
    config["rope_scaling"] = {"rope_type": "linear", "factor": 2.0}
    (stretched / "config.json").write_text(json.dumps(config))
    assert CausalLM(str(stretched), max_length=8192).id.endswith(":8192")
