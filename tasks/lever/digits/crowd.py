"""The world `crowded`: digit pairs whose nearest candidates are many photos of one scene, and say one word.

Candidates were photographed in bursts: PHOTOS pictures of each scene that differ by a grey level here and there, all
with the scene's question, for the left digit or for the right one. Nobody has labelled both digits of a picture.
Queries are other scenes, and a third of them ask for both: they need a demonstration of the left digit and one of the
right, and the nearest are copies of each other.
"""

from __future__ import annotations

from pathlib import Path

from tasks.lever.digits.scenes import BOTH, Split, draw_scenes, lexicon, load_digits, stream, write_split

CROWDED = "crowded"
PHOTOS = 4
"""Pictures of a scene: as many as the judge reads, so that no number of nearest neighbours reaches a second scene."""


def write_crowded(folder: Path, *, seed: int, candidates: int, queries: int, validation: int, test: int) -> None:
    """Write the world in the official format: `crowded_train_…` may be shown, `crowded_queries_…` are learnt from.

    The lexicon and the digits of each split are those of the world `digits` of this seed. `candidates` is rounded up to
    whole scenes. Raises storage.storage_errors.StoreUnreachable.
    """
    names, parts = lexicon(seed), load_digits()
    burst = draw_scenes(
        parts["train"],
        -(-candidates // PHOTOS),
        generator=stream(seed, "crowded candidates"),
        kinds=BOTH,  # left and right alone
        photos=PHOTOS,
    )
    write_split(folder, CROWDED, "train", burst, names, seed=seed)
    sizes: dict[Split, int] = {"queries": queries, "validation": validation, "test": test}
    for split, count in sizes.items():
        digits = parts["train" if split == "queries" else split]
        drawn = draw_scenes(digits, count, generator=stream(seed, f"crowded {split}"))
        write_split(folder, CROWDED, split, drawn, names, seed=seed)
