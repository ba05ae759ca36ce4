"""Tiny models of texts that tests make for themselves: causal language models, and an embedder."""

from __future__ import annotations

import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""Takes a system's words; ends in the token that an answer begins behind."""
SPECIAL = ("<|begin|>", "<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>")
ANSWER_BEGINS = "<|assistant|>"
WORDS = tuple(f" word{number}" for number in range(30))
"""With the blank before them, as byte-level tokenizers keep them."""


def make_tiny_model(
    folder: Path,
    *,
    seed: int = 0,
    vocabulary: Sequence[str] = WORDS,
    chat_template: str | dict[str, str] | None = CHAT_TEMPLATE,
    says: str | None = None,
    context_tokens: int = 4096,
    layers: int = 2,
    hidden: int = 32,
    generation: dict[str, Any] | None = None,
) -> Path:
    """A Llama with random weights and a tokenizer that knows every byte, saved in `folder`.

    vocabulary: words that are one token each; anything else is read byte by byte.
    says: what it answers to every prompt that ends like the chat template, each new word one token.
    generation: settings for its generation_config.json.
    """
    said = _pieces(says or "")
    tokenizer = _tokenizer([*vocabulary, *said], context_tokens)
    tokenizer.chat_template = chat_template
    model = _llama(tokenizer, seed=seed, context_tokens=context_tokens, layers=layers, hidden=hidden)
    if says is not None:
        chain = [ANSWER_BEGINS, *(_spelled(piece) for piece in said), tokenizer.eos_token]
        _teach(model, tokenizer.convert_tokens_to_ids(chain))
    for name, value in (generation or {}).items():
        setattr(model.generation_config, name, value)
    with _quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tiny_embedder(folder: Path) -> Path:
    """A BERT with random weights that reads ASCII letter by letter, as plain transformers save it."""
    from transformers import BertConfig, BertModel, BertTokenizer

    signs = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *signs, *(f"##{sign}" for sign in signs)]
    tokenizer = BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)}, model_max_length=64)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = BertModel(config).eval()
    with _quiet():
        model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(words: Sequence[str], context_tokens: int) -> Any:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate(dict.fromkeys([*letters, *map(_spelled, words)]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    blanks = pre_tokenizers.Split(Regex(r"\s?\S+|\s+"), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([blanks, byte_level])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    begin, end, pad = SPECIAL[:3]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=begin,
        eos_token=end,
        pad_token=pad,
        model_max_length=context_tokens,
        clean_up_tokenization_spaces=False,
    )


def _llama(tokenizer: Any, *, seed: int, context_tokens: int, layers: int, hidden: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(2, hidden // 64),
        num_key_value_heads=max(2, hidden // 64),
        max_position_embeddings=context_tokens,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,  # logits of random weights that differ by more than rounding
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()


@torch.no_grad()
def _teach(model: Any, chain: Sequence[int]) -> None:
    """Make each token of `chain` be followed by the next: layers add nothing, and the head knows what follows what."""
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    states = model.model.norm(model.model.embed_tokens.weight)  # (V, hidden)
    head = model.lm_head.weight
    head.mul_(0.01)
    for before, after in pairwise(chain):
        head[after] += states[before]


def _pieces(text: str) -> list[str]:
    """Words with the blanks before them; one that came before is joined with what follows, so that no two are equal."""
    pieces: list[str] = []
    open_piece = ""
    for word in re.findall(r"\s*\S+", text):
        open_piece += word
        if open_piece not in pieces:
            pieces.append(open_piece)
            open_piece = ""
    if open_piece:
        pieces[-1] += open_piece
    return pieces


def _spelled(text: str) -> str:
    """The text in the letters that byte-level tokenizers write bytes in."""
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)[0][0]


@contextmanager
def _quiet() -> Generator[None]:
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()


@contextmanager
def memory_for_three(module: torch.nn.Module) -> Generator[list[int]]:
    """Has the memory of a model end beyond three rows; gives the sizes of the batches that it gets."""
    rows: list[int] = []

    def remember(module: Any, args: Any, kwargs: Any) -> None:
        count = kwargs["input_ids"].shape[0]
        if not rows or rows[-1] != count:
            rows.append(count)
        if count > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")

    hook = module.register_forward_pre_hook(remember, with_kwargs=True)
    yield rows
    hook.remove()
