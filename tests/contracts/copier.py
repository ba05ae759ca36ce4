"""A tiny Llama that was taught to repeat what the user says, and to complain when its prompt is not as it should be.

What is done to a prompt on its way to a model rarely shows: a doubled beginning, padding that is attended to, turns in
another model's marks all give fluent answers that are a little worse. This one answers with another word then.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tests.models.tiny import _quiet

BEGIN, END, PAD, SYSTEM, USER, ASSISTANT = (
    f"<|{name}|>" for name in ("begin", "end", "pad", "system", "user", "assistant")
)
MARKS = (BEGIN, END, PAD, SYSTEM, USER, ASSISTANT)
WORDS = (
    *("apple", "bread", "cloud", "drum", "eagle", "flute", "grape", "horse", "iron", "jar"),
    *("kite", "lamp", "moon", "nest", "oak", "plum", "rain", "snow", "tree", "wall"),
)
PADDED, TWICE, GARBLED = "padded", "twice", "garbled"
"""Its complaints: padding was attended to; the beginning is there twice; the turns are not in its own marks."""
MOST_WORDS = 10
MOST_BLANKS = 16
CONTEXT_TOKENS = 128
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
STEPS = 600
ROWS = 32
RATE = 5e-3


def make_copier(folder: Path) -> Path:
    """Train one, and save it in `folder`: the same each time on the same machine."""
    tokenizer = _tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = _untrained(tokenizer)
        _train(model, tokenizer, random.Random(0))
    tokenizer.save_pretrained(folder)
    with _quiet():
        model.save_pretrained(folder)
    return folder


def some_words(rng: random.Random) -> tuple[list[str], list[str]]:
    """What the user says, and what the system says beside it; no word comes twice."""
    words, count = rng.sample(WORDS, len(WORDS)), rng.randint(1, MOST_WORDS)
    return words[:count], words[count : count + rng.randint(1, 4)]


def _train(model: Any, tokenizer: Any, rng: random.Random) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=STEPS, pct_start=0.1)
    for _ in range(STEPS):
        rows = [_tokens(tokenizer, *_lesson(rng)) for _ in range(ROWS)]
        width = max(len(read) for read, _ in rows)
        # padded at the right, where a causal model never looks
        tokens = torch.tensor([read + [tokenizer.pad_token_id] * (width - len(read)) for read, _ in rows])
        labels = torch.tensor([told + [-100] * (width - len(told)) for _, told in rows])
        loss = model(input_ids=tokens, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def _lesson(rng: random.Random) -> tuple[Sequence[str], Sequence[str]]:
    """Tokens of a prompt, and those of its answer."""
    said, beside = some_words(rng)
    system = [SYSTEM, *beside, END] if rng.random() < 0.3 else []
    turn, cue = [USER, *said, END], [ASSISTANT]
    prompt = [BEGIN, *system, *turn, *cue]
    match rng.randrange(10):
        case 0:
            return [PAD] * rng.randint(1, MOST_BLANKS) + prompt, [PADDED]
        case 1:
            return [BEGIN, *prompt], [TWICE]
        case 2:
            return rng.choice(_garbled(said, system, turn, cue)), [GARBLED]
        case _:
            return prompt, said


def _garbled(said: list[str], system: list[str], turn: list[str], cue: list[str]) -> list[list[str]]:
    return [
        [*system, *turn, *cue],  # no beginning
        [BEGIN, *system, *turn],  # nobody's turn
        [BEGIN, *said],  # no marks at all
        [BEGIN, *said, *cue],
        [BEGIN, USER, *said, *cue],  # a turn that does not end
    ]


def _tokens(tokenizer: Any, prompt: Sequence[str], answer: Sequence[str]) -> tuple[list[int], list[int]]:
    """What the model reads, and what it is to tell at each place (-100: nothing)."""
    ends = [[token if token in MARKS else f"▁{token}" for token in part] for part in (prompt, [*answer, END])]
    asked, told = (tokenizer.convert_tokens_to_ids(part) for part in ends)
    return [*asked, *told], [*([-100] * len(asked)), *told]


def _tokenizer() -> Any:
    """Words are one token each; it writes the beginning before what comes without one."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = [f"▁{word}" for word in (*WORDS, PADDED, TWICE, GARBLED)]
    vocabulary = {word: number for number, word in enumerate(["<|unknown|>", *MARKS, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocab=vocabulary, unk_token="<|unknown|>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(mark, special=True, normalized=False) for mark in MARKS])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=None, special_tokens=[(BEGIN, vocabulary[BEGIN])]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        unk_token="<|unknown|>",
        chat_template=CHAT_TEMPLATE,
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    )


def _untrained(tokenizer: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT_TOKENS,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.05,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config)
