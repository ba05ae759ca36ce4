"""The judge's network: a vision tower, and a causal transformer over items of `question, answer, answer`.

The tokens of an item read their own picture, so that an answer's token knows which digits it may name: attention
from a question to the answers of like pictures is all that in-context learning takes here. First the tower learns to
tell digits, then the transformer to read demonstrations. Every sequence has a lexicon of its own, so that nothing about
words can be learnt by heart.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from models.model_errors import ModelUnavailable
from storage.records import Record
from tasks.lever.digits import scenes

CLASSES = 10
CODE = 2 * CLASSES
"""Width of a picture's code: probabilities of the left digit, then of the right one."""
PER_ITEM = 3
"""Tokens of an item: its question, and two of its answer."""
_CONFIG = "config"


class NetConfig(Record):
    """The sizes of the network, and the language that it was trained on."""

    width: int = 64
    layers: int = 2
    heads: int = 4
    tower_hidden: int = 192
    tower_width: int = 64
    """Width of the features of one digit."""
    language: tuple[str, ...] = scenes.WORDS + scenes.QUESTIONS
    """The words of its tokens, then its questions."""


class Memory(NamedTuple):
    """Keys and values of one layer for the tokens read so far, (B, heads, tokens, width / heads) each."""

    keys: Tensor
    values: Tensor


class Tower(nn.Module):
    """The vision tower: a perceptron that classifies glimpses of single digits."""

    mean: Tensor

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.wide = nn.Linear(64, config.tower_hidden)
        self.narrow = nn.Linear(config.tower_hidden, config.tower_width)
        self.head = nn.Linear(config.tower_width, CLASSES)
        # of the features of the pictures that the tower was trained on
        self.register_buffer("mean", torch.zeros(2 * config.tower_width))

    def features(self, glimpses: Tensor) -> Tensor:
        """Return the features (…, tower_width) of glimpses (…, 8, 8)."""
        return F.gelu(self.narrow(F.gelu(self.wide(glimpses.flatten(-2)))))

    def codes(self, features: Tensor) -> Tensor:
        """Return the probabilities (N, 20) of both digits from features (N, 2, tower_width)."""
        return self.head(features).softmax(-1).flatten(-2)


class Block(nn.Module):
    """A pre-norm transformer block: causal attention, then a perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, memory: Memory | None = None) -> tuple[Tensor, Memory]:
        """Read tokens x (B, T, width); with a memory of earlier ones T has to be 1. Returns the new memory too."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm_attention(x)).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, keys, values = qkv.unbind()
        if memory is not None:
            keys, values = torch.cat([memory.keys, keys], dim=2), torch.cat([memory.values, values], dim=2)
        read = F.scaled_dot_product_attention(query, keys, values, is_causal=memory is None)
        x = x + self.out(read.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(F.gelu(self.up(self.norm_mlp(x)))), Memory(keys, values)


class DigitsNet(nn.Module):
    """Tower and transformer, without positional encoding, so that a sequence may hold any number of items."""

    def __init__(self, config: NetConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.tower = Tower(config)
        self.questions, self.answers = nn.Embedding(len(scenes.KINDS), width), nn.Embedding(scenes.TOKENS, width)
        self.places = nn.Parameter(torch.empty(PER_ITEM, width))
        self.fuse_in, self.fuse_out = nn.Linear(CODE + width, 4 * width), nn.Linear(4 * width, PER_ITEM * width)
        self.blocks = nn.ModuleList(Block(width, config.heads) for _ in range(config.layers))
        self.norm, self.logits = nn.LayerNorm(width), nn.Linear(width, scenes.END + 1)
        # answers at N(0, 1) would drown the pictures, and induction would not begin
        for weight, std in ((self.questions.weight, 0.1), (self.places, 0.1), (self.answers.weight, 0.3)):
            nn.init.normal_(weight, std=std)
        with torch.no_grad():
            self.fuse_in.weight *= 2
            self.fuse_out.weight *= 4

    def encode_items(self, codes: Tensor, kinds: Tensor) -> Tensor:
        """Return the tokens (…, 3, width) of items without answers, from codes (…, 20) and kinds of question (…)."""
        question = self.questions(kinds)
        fused = self.fuse_out(F.gelu(self.fuse_in(torch.cat([codes, question], dim=-1))))
        encoded = fused.unflatten(-1, (PER_ITEM, -1)) + self.places
        return torch.cat([encoded[..., :1, :] + question[..., None, :], encoded[..., 1:, :]], dim=-2)

    def tokens(self, encoded: Tensor, answers: Tensor) -> Tensor:
        """Return the tokens (…, 3, width) of items with their answers (…, 2) added."""
        return torch.cat([encoded[..., :1, :], encoded[..., 1:, :] + self.answers(answers)], dim=-2)

    def read(self, tokens: Tensor, memories: list[Memory] | None = None) -> tuple[Tensor, list[Memory]]:
        """Return the logits (B, T, 25) of the token behind each of (B, T, width), and the memory of each layer."""
        new_memories: list[Memory] = []
        for number, block in enumerate(self.blocks):
            tokens, memory = block(tokens, memories[number] if memories else None)
            new_memories.append(memory)
        return self.logits(self.norm(tokens)), new_memories

    def forward(self, codes: Tensor, kinds: Tensor, answers: Tensor) -> Tensor:
        """Return logits (B, n, 2, 25) of both answer tokens of n items; codes (B, n, 20), answers (B, n, 2)."""
        logits, _ = self.read(self.tokens(self.encode_items(codes, kinds), answers).flatten(1, 2))
        return logits.unflatten(1, (-1, PER_ITEM))[:, :, :2]


def to_bytes(net: DigitsNet) -> bytes:
    """Serialise the weights as safetensors with the sizes in the header; equal weights give equal bytes."""
    tensors = {name: tensor.contiguous() for name, tensor in net.state_dict().items()}
    return save_tensors(tensors, metadata={_CONFIG: net.config.model_dump_json()})


def from_bytes(data: bytes) -> DigitsNet:
    """Read a network for inference. Raises ModelUnavailable if the bytes are not of one."""
    try:
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        config = NetConfig.model_validate_json(header["__metadata__"][_CONFIG])
        if config.language != NetConfig().language:
            raise ValueError("it was trained on other words or questions")
        with torch.device("meta"):  # the weights that a new network draws are not wanted
            net = DigitsNet(config)
        net.load_state_dict({name: weight.float() for name, weight in load_tensors(data).items()}, assign=True)
    except (SafetensorError, ValidationError, ValueError, KeyError, RuntimeError) as error:
        raise ModelUnavailable(
            f"these {len(data)} bytes are no judge of the digits' world ({type(error).__name__}: {error}); "
            "train one with `tasks.lever.digits.net.train_judge`"
        ) from error
    return net.eval().requires_grad_(False)


STEPS = 800
"""Updates of the transformer; of half as many MMR gets .59 of `crowded` right in place of .80."""
BATCH = 96
"""Sequences of an update."""
ITEMS = 5
"""Items of a sequence: at most four demonstrations and a query; all five answers are learnt."""
FEW_UNTIL = 0.3
"""Share of the steps in which a sequence shows two or three different digits; later up to MOST_DIGITS."""
MOST_DIGITS = 6
UNKNOWN_SHARE = 0.02
"""Share of the words in sequences that are replaced by the unknown token."""
RENDERED = 200
"""Pictures of each of the 100 pairs of digits that sequences are made of."""
TOWER_STEPS = 1500
TOWER_BATCH = 256
"""Pictures of two digits in an update of the tower."""
LR = 2e-3

Tell = Callable[[int], None]
"""Called with the number of the transformer's training steps that are newly done."""


def train_judge(*, steps: int = STEPS, tell: Tell = lambda _: None) -> bytes:
    """Train a judge and return its weights as safetensors; on one CPU thread equal steps give equal bytes."""
    digits = scenes.load_digits()["judge"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # initial weights can only be drawn from the global generator
        net = DigitsNet(NetConfig())

    def tower_loss(step: int) -> Tensor:
        """Return the tower's cross-entropy on pairs of distorted digits that `step` draws."""
        generator = scenes.seeded_generator(0, f"tower {step}")
        pairs = torch.randint(len(digits.ink), (TOWER_BATCH, 2), generator=generator)
        ink = _distort(digits.ink[pairs].flatten(0, 1), generator).unflatten(0, (-1, 2))
        logits = net.tower.head(net.tower.features(scenes.extract_glimpses(scenes.render(ink, generator))))
        # a tower that is sure of the digits it learnt by heart teaches the transformer to trust it on new ones
        return F.cross_entropy(logits.flatten(0, 1), digits.labels[pairs].flatten(), label_smoothing=0.1)

    _train(net.tower, tower_loss, steps=TOWER_STEPS, betas=(0.9, 0.999))
    net.tower.requires_grad_(False)
    generator = scenes.seeded_generator(0, "mean")
    pairs = torch.randint(len(digits.ink), (2000, 2), generator=generator)
    net.tower.mean.copy_(
        net.tower.features(scenes.extract_glimpses(scenes.render(digits.ink[pairs], generator))).flatten(1).mean(0)
    )
    gallery = _render_gallery(net.tower, digits, generator=scenes.seeded_generator(0, "gallery"))

    def reader_loss(step: int) -> Tensor:
        """Return the cross-entropy of all answers in sequences that `step` draws, with fewer digits at first."""
        most_digits = 3 if step < FEW_UNTIL * steps else MOST_DIGITS
        codes, kinds, answers = _draw_sequences(
            gallery, most_digits=most_digits, generator=scenes.seeded_generator(0, f"reader {step}")
        )
        is_unknown = torch.rand(answers.shape, generator=scenes.seeded_generator(0, f"unknown {step}")) < UNKNOWN_SHARE
        logits = net(codes, kinds, answers.masked_fill(is_unknown & (answers != scenes.END), scenes.UNKNOWN))
        return F.cross_entropy(logits.flatten(0, 2), answers.flatten())

    _train(net, reader_loss, steps=steps, betas=(0.9, 0.95), tell=tell)
    return to_bytes(net)


def _train(
    module: nn.Module,
    loss_of: Callable[[int], Tensor],
    *,
    steps: int,
    betas: tuple[float, float],
    tell: Tell = lambda _: None,
) -> None:
    """Train by AdamW with warm-up and cosine decay; each step draws from a generator of its number."""
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, LR, betas=betas, weight_decay=1e-2)
    for step in range(steps):
        decay = 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.02
        optimizer.param_groups[0]["lr"] = LR * (min(1.0, (step + 1) / 100) * decay)
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        tell(1)


def _distort(ink: Tensor, generator: torch.Generator) -> Tensor:
    """Return digits (N, 8, 8) turned by up to 12°, scaled by up to 9 % and shifted by up to half a pixel."""
    turn, scale, across, down = (torch.rand(4, len(ink), generator=generator) * 2 - 1) * torch.tensor(
        [[0.21], [0.09], [0.12], [0.12]]  # radians; share; of half a picture, twice
    )
    cosine, sine = turn.cos() * (1 + scale), turn.sin() * (1 + scale)
    maps = torch.stack([cosine, -sine, across, sine, cosine, down], dim=-1).view(-1, 2, 3)
    grid = F.affine_grid(maps, [len(ink), 1, 8, 8], align_corners=False)
    return F.grid_sample(ink[:, None], grid, align_corners=False)[:, 0]


@torch.no_grad()
def _render_gallery(tower: Tower, digits: scenes.Digits, *, generator: torch.Generator) -> Tensor:
    """Return the tower's codes (100, 200, 20) of pictures of each pair of digits, pair (l, r) in row 10 l + r."""
    pairs = torch.arange(CLASSES * CLASSES).repeat_interleave(RENDERED)  # (20000,)
    labels = torch.stack([pairs // CLASSES, pairs % CLASSES], dim=-1)  # (20000, 2)
    rows = [torch.nonzero(digits.labels == label)[:, 0] for label in range(CLASSES)]
    counts = torch.tensor([len(row) for row in rows])
    table = nn.utils.rnn.pad_sequence(rows, batch_first=True)  # (10, most)
    picks = (torch.rand(labels.shape, generator=generator) * counts[labels]).long()
    features = tower.features(scenes.extract_glimpses(scenes.render(digits.ink[table[labels, picks]], generator)))
    return tower.codes(features).unflatten(0, (CLASSES * CLASSES, RENDERED))


def _draw_sequences(gallery: Tensor, *, most_digits: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw training sequences: codes (B, 5, 20), kinds of question (B, 5) and answers (B, 5, 2).

    Each shows few different digits, so that demonstrations often hold the word that is asked for.
    """
    count = torch.randint(2, most_digits + 1, (BATCH, 1), generator=generator)
    digit_order = torch.rand(BATCH, CLASSES, generator=generator).argsort(-1)  # the first `count` of each row occur
    slots = (torch.rand(BATCH, ITEMS * 2, generator=generator) * count).long()
    digits = digit_order.gather(1, slots).view(BATCH, ITEMS, 2)
    kinds = torch.randint(len(scenes.KINDS), (BATCH, ITEMS), generator=generator)
    lexicon = torch.rand(BATCH, len(scenes.WORDS), generator=generator).argsort(-1)[:, :CLASSES]
    words = lexicon.gather(1, digits.flatten(1)).view(BATCH, ITEMS, 2)
    first = torch.where(kinds == scenes.RIGHT, words[..., 1], words[..., 0])
    second = torch.where(kinds == scenes.BOTH, words[..., 1], scenes.END)
    picture = torch.randint(RENDERED, (BATCH, ITEMS), generator=generator)
    codes = gallery[digits[..., 0] * CLASSES + digits[..., 1], picture]
    return codes, kinds, torch.stack([first, second], dim=-1)
