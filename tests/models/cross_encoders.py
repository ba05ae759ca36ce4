"""Tiny cross-encoders that tests make for themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "price", "of", "the", "red", "door", "is", "high", "low", "what", "colour"]
POSITIONS = 64
ASKED = {"what is the price": "the price is high", "what colour is the door": "the door is red"}
"""Question → the answer that the trained one prefers over the other."""


def write_random(folder: Path, *, labels: int = 1, seed: int = 0) -> Path:
    """A BERT of two layers with random weights, in the form of plain transformers."""
    _bert(labels, seed).save_pretrained(folder)
    _tokenizer().save_pretrained(folder)
    return folder


def write_trained(folder: Path, *, labels: int = 1) -> Path:
    """One that was trained until it tells right answers from wrong ones."""
    model, tokenizer = _bert(labels, seed=0), _tokenizer()
    pairs = [(question, answer) for question in ASKED for answer in ASKED.values()]
    right = torch.tensor([ASKED[question] == answer for question, answer in pairs])
    tokens = tokenizer([pair[0] for pair in pairs], [pair[1] for pair in pairs], padding=True, return_tensors="pt")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        logits = model(**tokens).logits  # (pairs, labels)
        score = logits[:, -1] - (logits[:, 0] if labels == 2 else 0)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(score, right.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _bert(labels: int, seed: int) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=POSITIONS,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.2,  # scores of random weights that differ by more than rounding
    )
    config.num_labels = labels
    return BertForSequenceClassification(config)


def _tokenizer() -> Any:
    from transformers import BertTokenizer

    return BertTokenizer(vocab={word: number for number, word in enumerate(WORDS)}, model_max_length=POSITIONS)
