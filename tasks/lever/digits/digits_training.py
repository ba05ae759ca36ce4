"""Trains the digits' judge: first its tower to tell digits, then its transformer to read demonstrations.

Every sequence has a lexicon of its own, so that nothing about words can be learnt by heart.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from storage.files import write
from tasks.lever.digits import scenes
from tasks.lever.digits.net import CLASSES, DigitsNet, NetConfig, Tower, to_bytes
from tasks.lever.digits.scenes import END, KINDS, UNKNOWN, WORDS, Digits, extract_glimpses, render, seeded_generator
from tasks.lever.learning.training_loop import optimizer_moments, restore_moments

STEPS = 800
"""Updates of the transformer; half as many are nearly as good."""
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
SAVE_EVERY = 100
"""Steps between two saves of the state."""

Tell = Callable[[int], None]
"""Called with the number of the transformer's training steps that are newly done."""


def train_judge(*, steps: int = STEPS, folder: Path | None = None, tell: Tell | None = None) -> bytes:
    """Train a judge and return its weights as safetensors; on one CPU thread equal steps give equal bytes.

    folder: of these steps alone; an interrupted training goes on there, to the same end.
    """
    digits = scenes.load_digits()["judge"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # initial weights can only be drawn from the global generator
        net = DigitsNet(NetConfig())

    def tower_loss(step: int) -> Tensor:
        generator = seeded_generator(0, f"tower {step}")
        pairs = torch.randint(len(digits.ink), (TOWER_BATCH, 2), generator=generator)
        ink = _distort(digits.ink[pairs].flatten(0, 1), generator).unflatten(0, (-1, 2))
        logits = net.tower.head(net.tower.features(extract_glimpses(render(ink, generator))))
        # a tower that is sure of the digits it learnt by heart teaches the transformer to trust it on new ones
        return F.cross_entropy(logits.flatten(0, 1), digits.labels[pairs].flatten(), label_smoothing=0.1)

    tower_file, reader_file = (folder and folder / f"{name}.safetensors" for name in ("tower", "reader"))
    _train(net.tower, tower_loss, steps=TOWER_STEPS, betas=(0.9, 0.999), path=tower_file)
    net.tower.requires_grad_(False)
    generator = seeded_generator(0, "mean")
    pairs = torch.randint(len(digits.ink), (2000, 2), generator=generator)
    net.tower.mean.copy_(net.tower.features(extract_glimpses(render(digits.ink[pairs], generator))).flatten(1).mean(0))
    gallery = _render_gallery(net.tower, digits, generator=seeded_generator(0, "gallery"))

    def reader_loss(step: int) -> Tensor:
        most_digits = 3 if step < FEW_UNTIL * steps else MOST_DIGITS
        codes, kinds, answers = _draw_sequences(
            gallery, most_digits=most_digits, generator=seeded_generator(0, f"reader {step}")
        )
        is_unknown = torch.rand(answers.shape, generator=seeded_generator(0, f"unknown {step}")) < UNKNOWN_SHARE
        logits = net(codes, kinds, answers.masked_fill(is_unknown & (answers != END), UNKNOWN))
        return F.cross_entropy(logits.flatten(0, 2), answers.flatten())

    _train(net, reader_loss, steps=steps, betas=(0.9, 0.95), path=reader_file, tell=tell)
    return to_bytes(net)


def _train(
    module: nn.Module,
    loss_of: Callable[[int], Tensor],
    *,
    steps: int,
    betas: tuple[float, float],
    path: Path | None,
    tell: Tell | None = None,
) -> None:
    """Train by AdamW with warm-up and cosine decay, and resume from `path`.

    Each step draws from a generator of its number, so that weights and moments are the whole state.
    """
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, LR, betas=betas, weight_decay=1e-2)
    reported = 0
    if path and path.exists():
        tensors = load_tensors(path.read_bytes())
        reported, prefix = int(tensors.pop("done")), "weights."
        module.load_state_dict(
            {name: tensors.pop(prefix + name) for name in module.state_dict() if prefix + name in tensors}
        )
        restore_moments(optimizer, tensors)
    if tell and reported:
        tell(reported)
    for step in range(reported, steps):
        decay = 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.02
        optimizer.param_groups[0]["lr"] = LR * (min(1.0, (step + 1) / 100) * decay)
        loss = loss_of(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        steps_done = step + 1
        if steps_done % SAVE_EVERY == 0 or steps_done == steps:
            if path:
                state = {f"weights.{name}": value for name, value in module.state_dict().items()}
                write(path, save_tensors(state | optimizer_moments(optimizer) | {"done": torch.tensor(steps_done)}))
            if tell:
                tell(steps_done - reported)
            reported = steps_done


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
def _render_gallery(tower: Tower, digits: Digits, *, generator: torch.Generator) -> Tensor:
    """Return the tower's codes (100, 200, 20) of pictures of each pair of digits, pair (l, r) in row 10 l + r."""
    pairs = torch.arange(CLASSES * CLASSES).repeat_interleave(RENDERED)  # (20000,)
    labels = torch.stack([pairs // CLASSES, pairs % CLASSES], dim=-1)  # (20000, 2)
    rows = [torch.nonzero(digits.labels == label)[:, 0] for label in range(CLASSES)]
    counts = torch.tensor([len(row) for row in rows])
    table = nn.utils.rnn.pad_sequence(rows, batch_first=True)  # (10, most)
    picks = (torch.rand(labels.shape, generator=generator) * counts[labels]).long()
    features = tower.features(extract_glimpses(render(digits.ink[table[labels, picks]], generator)))
    return tower.codes(features).unflatten(0, (CLASSES * CLASSES, RENDERED))


def _draw_sequences(gallery: Tensor, *, most_digits: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw training sequences: codes (B, 5, 20), kinds of question (B, 5) and answers (B, 5, 2).

    Each shows few different digits, so that demonstrations often hold the word that is asked for.
    """
    count = torch.randint(2, most_digits + 1, (BATCH, 1), generator=generator)
    digit_order = torch.rand(BATCH, CLASSES, generator=generator).argsort(-1)  # the first `count` of each row occur
    slots = (torch.rand(BATCH, ITEMS * 2, generator=generator) * count).long()
    digits = digit_order.gather(1, slots).view(BATCH, ITEMS, 2)
    kinds = torch.randint(len(KINDS), (BATCH, ITEMS), generator=generator)
    lexicon = torch.rand(BATCH, len(WORDS), generator=generator).argsort(-1)[:, :CLASSES]
    words = lexicon.gather(1, digits.flatten(1)).view(BATCH, ITEMS, 2)
    first = torch.where(kinds == scenes.RIGHT, words[..., 1], words[..., 0])
    second = torch.where(kinds == scenes.BOTH, words[..., 1], END)
    picture = torch.randint(RENDERED, (BATCH, ITEMS), generator=generator)
    codes = gallery[digits[..., 0] * CLASSES + digits[..., 1], picture]
    return codes, kinds, torch.stack([first, second], dim=-1)
