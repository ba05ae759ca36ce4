"""The log-probabilities of texts under a local model: tokenisation, windows, and the sums over windows.

Tokenisation and windows follow lm-evaluation-harness, so that its tasks give its numbers. What several texts have in
common is read once: on a CPU the texts of a pack are a tree of tokens, read as one row in which a token sees its own
ancestors alone, and has its depth for its position. Source of the mask: Miao et al. 2023, "SpecInfer",
arXiv:2305.09781, who verify drafts with it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from models.causal_weights import Loaded
from models.model_errors import RequestRefused
from models.prompts import pictures_of, render_prompt, replace_surrogates
from models.protocols import ChatRequest, LogProb


class Window(NamedTuple):
    """The tokens that the model reads, and the last of them, which it predicts each from all before it."""

    number: int  # position of the text that it belongs to
    read: tuple[int, ...]
    predicted: tuple[int, ...]
    pngs: tuple[bytes, ...] = ()  # pictures that stand among what is read


def encode(loaded: Loaded, text: str, *, special: bool | None = None) -> list[int]:
    """Return a text's tokens. special: with special tokens; None: as the tokenizer does, without a second beginning."""
    text = replace_surrogates(text)
    if special is None:
        begins = loaded.tokenizer.bos_token or loaded.tokenizer.eos_token
        special = not (begins and text.startswith(begins))
    # not verbose: a text that is longer than the context is no trouble here
    return loaded.tokenizer.encode(text, add_special_tokens=special, verbose=False)


def prompt_tokens(loaded: Loaded, request: ChatRequest) -> list[int]:
    """Return the tokens of a request, one for each picture. Raises RequestRefused, NoChatTemplate, ModelUnavailable."""
    # a template has written the special tokens itself
    special = None if request.template is False else False
    tokens = encode(loaded, render_prompt(loaded.tokenizer, request, loaded.sight), special=special)
    return tokens or [loaded.prefix_token]


def encode_pair(loaded: Loaded, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Return the tokens of a context, the prefix token if it is empty, and of its continuation, read as one text.

    Blanks at the end of the context belong to the continuation: most tokenizers join them with the next word.
    """
    if not context:
        tokens = encode(loaded, continuation, special=False)
        prefix = loaded.prefix_token
        return (tokens[:1], tokens[1:]) if tokens[:1] == [prefix] else ([prefix], tokens)
    blanks = len(context) - len(context.rstrip())
    if blanks:
        context, continuation = context[:-blanks], context[-blanks:] + continuation
    head = encode(loaded, context)
    return head, encode(loaded, context + continuation)[len(head) :]


def pair_windows(loaded: Loaded, pairs: Sequence[tuple[str, str]]) -> list[list[Window]]:
    """Return the windows of each (context, continuation), in the order of the pairs.

    One, which loses the beginning of a long context; several for a long continuation; none for one without tokens.
    """
    groups, context_tokens = list[list[Window]](), loaded.context_tokens
    for number, pair in enumerate(pairs):
        context, continuation = encode_pair(loaded, *pair)
        context = context or [loaded.prefix_token]
        if len(continuation) > context_tokens:
            groups.append(list(_rolling(loaded, number, continuation, context[-1])))
            continue
        tokens = (context + continuation)[-(context_tokens + 1) :]
        groups.append([Window(number, tuple(tokens[:-1]), tuple(continuation))] if continuation else [])
    return groups


def _rolling(loaded: Loaded, number: int, tokens: Sequence[int], prefix: int) -> Iterator[Window]:
    """Yield the windows of a text, as long as the context, each token predicted once; the last reads all it can."""
    whole, context_tokens = (prefix, *tokens), loaded.context_tokens
    for start in range(0, len(tokens), context_tokens):
        end = min(start + context_tokens, len(tokens))
        yield Window(number, whole[max(0, end - context_tokens) : end], tuple(tokens[start:end]))


def sum_windows(
    groups: Sequence[list[Window]], score: Callable[[list[Window]], Iterator[tuple[Window, LogProb]]]
) -> Iterator[tuple[int, LogProb]]:
    """Yield each text's number and the sum over its windows, 0 without any, once `score` has given the last of them."""
    missing, sums = [len(group) for group in groups], [LogProb(0.0, True)] * len(groups)
    yield from ((number, sums[number]) for number, count in enumerate(missing) if not count)
    for window, part in score([window for group in groups for window in group]):
        number = window.number
        sums[number] = LogProb(sums[number].total + part.total, sums[number].greedy and part.greedy)
        missing[number] -= 1
        if not missing[number]:
            yield number, sums[number]


class WindowScorer:
    """A LogLikelihood and AnswerLikelihood by the windows of a model in this process, which a subclass scores.

    `_load` gives tokenizer and limits, `_prompt` the tokens of a request as `.tokens`, `_score_windows` each window
    with its log-probability, in any order; tokenizers are used under `_lock`.
    """

    _lock: Any
    _load: Callable[[], Loaded]
    _prompt: Callable[..., Any]
    _score_windows: Callable[[Sequence[Window]], Iterator[tuple[Window, LogProb]]]

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, LogProb]]:
        """Yield log-probabilities of continuations given contexts, with positions, in any order. Raises ModelError.

        An empty context is the token for the beginning of a text; a continuation without tokens is certain.
        """
        with self._lock:
            windows = pair_windows(self._load(), pairs)
        yield from sum_windows(windows, self._score_windows)

    def loglikelihood_rolling(self, texts: Sequence[str]) -> Iterator[tuple[int, float]]:
        """Yield whole texts' log-probability, with their position, in any order, in windows as long as the context."""
        with self._lock:
            loaded = self._load()
            encoded = enumerate(encode(loaded, text) for text in texts)
            windows = [list(_rolling(loaded, number, tokens, loaded.prefix_token)) for number, tokens in encoded]
        for number, likelihood in sum_windows(windows, self._score_windows):
            yield number, likelihood.total

    def answer_log_probs(self, pairs: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Yield the sums over the answers' tokens, their end included, with their numbers, in any order.

        An answer is tokenised by itself, without its prompt. Raises ModelError; a RequestRefused after all results.
        """
        windows, refused = list[Window](), list[RequestRefused]()
        for number, (request, answer) in enumerate(pairs):
            with self._lock:
                tokens = (*encode(self._load(), answer, special=False), self._load().end_token)
                try:
                    prompt = self._prompt(number, request, room_for=len(tokens)).tokens
                except RequestRefused as error:
                    refused.append(error)
                    continue
            pngs = tuple(pictures_of(request.messages))
            windows.append(Window(number, (*prompt, *tokens[:-1]), tokens, pngs))
        yield from ((window.number, likelihood.total) for window, likelihood in self._score_windows(windows))
        if refused:
            raise refused[0]


def shared_rows(windows: Sequence[Window]) -> list[tuple[tuple[int, ...], list[Window]]]:
    """Return the texts to read, the longest first, each with the windows that read it or a beginning of it."""
    rows: list[tuple[tuple[int, ...], list[Window]]] = []
    # in falling order a longer text comes just before its own beginnings
    for window in sorted(windows, key=lambda window: window.read, reverse=True):
        if rows and rows[-1][0][: len(window.read)] == window.read:
            rows[-1][1].append(window)
        else:
            rows.append((window.read, [window]))
    return sorted(rows, key=lambda row: len(row[0]), reverse=True)


@torch.inference_mode()
def score(loaded: Loaded, rows: Sequence[tuple[tuple[int, ...], Sequence[Window]]]) -> Iterator[tuple[Window, LogProb]]:
    """Yield each window of a batch with its log-probability. rows: each text to read, with the windows that read it."""
    model = loaded.model
    width = max(len(read) for read, _ in rows)
    # padding at the right end: what is causal does not see it, so no mask is needed
    padded = torch.tensor([[*read, *[0] * (width - len(read))] for read, _ in rows], device=model.device)
    first = min(len(window.read) - len(window.predicted) for _, windows in rows for window in windows)
    keeps = "logits_to_keep" in inspect.signature(model.forward).parameters  # some models compute all logits
    options = {"logits_to_keep": torch.arange(first, width, device=model.device)} if keeps else {}
    logits = model(input_ids=padded, use_cache=False, **options).logits  # (rows, width - first or width, V)
    offset = first if keeps else 0
    window_rows = [(window, row) for row, (_, windows) in enumerate(rows) for window in windows]
    window_logits = list[Tensor]()
    for window, row in window_rows:
        end = len(window.read) - offset
        window_logits.append(logits[row, end - len(window.predicted) : end])
    log_probs = likelihoods([window.predicted for window, _ in window_rows], window_logits)
    yield from ((window, log_prob) for (window, _), log_prob in zip(window_rows, log_probs, strict=True))


def likelihoods(texts: Sequence[Sequence[int]], logits: Iterable[Tensor]) -> list[LogProb]:
    """Return the log-probability of each text's tokens, one or more. logits: for each text, (its tokens, V).

    The results are fetched from the device together: to wait for each text alone takes longer than to compute it.
    """
    totals, greedy = list[Tensor](), list[Tensor]()
    for tokens, text_logits in zip(texts, logits, strict=True):
        logs = text_logits.float().log_softmax(-1)
        token_ids = torch.tensor(tokens).to(logs.device, non_blocking=True)
        totals.append(logs.gather(1, token_ids[:, None]).sum())
        greedy.append((logs.argmax(-1) == token_ids).all())
    return [LogProb(*result) for result in zip(torch.stack(totals).tolist(), torch.stack(greedy).tolist(), strict=True)]


PACKED_TOKENS = 512
"""Tokens that are read at once: with more, what they see of each other costs more than it saves."""
ARCHITECTURES = ("llama", "qwen2", "qwen3")
"""Models whose every layer sees all that the mask shows, and whose positions are given beside the tokens."""


class Tree(NamedTuple):
    """Tokens of several texts, each common beginning once; a token comes after its parent."""

    tokens: list[int]
    parents: list[int]  # -1: none
    ends: list[int]  # place of the last token that each text reads


def reads_trees(loaded: Loaded) -> bool:
    """Return whether the model is on a CPU, and its architecture known to take tree-shaped attention masks."""
    config = loaded.model.config
    slides = getattr(config, "use_sliding_window", False) or getattr(config, "model_type", "") not in ARCHITECTURES
    return not slides and loaded.model.device.type == "cpu"


def packs_of(windows: Iterable[Window], *, most_tokens: int = PACKED_TOKENS) -> Iterator[list[Window]]:
    """Yield the windows, sorted by `read`, in packs of at most so many distinct tokens; one with more is alone."""
    pack, size, before = list[Window](), 0, tuple[int, ...]()
    for window in sorted(windows, key=lambda window: window.read):
        new = len(window.read) - _common_length(before, window.read)
        if pack and size + new > most_tokens:
            yield pack
            pack, size, new = [], 0, len(window.read)
        pack.append(window)
        size, before = size + new, window.read
    if pack:
        yield pack


def tree_of(windows: Sequence[Window]) -> Tree:
    """Return the tokens that the windows read, each common beginning once. windows: sorted by `read`."""
    tree, path, before = Tree([], [], []), list[int](), tuple[int, ...]()
    for window in windows:
        del path[_common_length(before, window.read) :]
        for token in window.read[len(path) :]:
            tree.parents.append(path[-1] if path else -1)
            path.append(len(tree.tokens))
            tree.tokens.append(token)
        tree.ends.append(path[-1])
        before = window.read
    return tree


@torch.inference_mode()
def score_pack(loaded: Loaded, windows: Sequence[Window]) -> list[tuple[Window, LogProb]]:
    """Return each window of a pack, sorted by `read`, with the log-probability (natural) of what it predicts."""
    model, tree = loaded.model, tree_of(windows)
    count = len(tree.tokens)
    sees, depth = torch.eye(count, dtype=torch.bool), [0] * count
    for position, parent in enumerate(tree.parents):
        if parent >= 0:
            sees[position] |= sees[parent]
            depth[position] = depth[parent] + 1
    hidden = torch.zeros(sees.shape, dtype=model.dtype).masked_fill(~sees, torch.finfo(model.dtype).min)
    paths = list[list[int]]()  # of each window, the positions whose logits predict its tokens, in order
    for window, end in zip(windows, tree.ends, strict=True):
        path = [end]
        while len(path) < len(window.predicted):
            path.append(tree.parents[path[-1]])
        paths.append(path[::-1])
    positions = sorted({position for path in paths for position in path})
    logits = model(
        input_ids=torch.tensor([tree.tokens]),
        attention_mask=hidden[None, None],
        position_ids=torch.tensor([depth]),
        use_cache=False,
        logits_to_keep=torch.tensor(positions),
    ).logits[0]
    logs = logits.float().log_softmax(-1)  # (positions, V)
    row, likeliest = {position: number for number, position in enumerate(positions)}, logs.argmax(-1).tolist()
    scored = list[tuple[Window, LogProb]]()
    for window, path in zip(windows, paths, strict=True):
        rows = [row[position] for position in path]
        total = logs[rows, list(window.predicted)].sum()
        greedy = all(likeliest[index] == token for index, token in zip(rows, window.predicted, strict=True))
        scored.append((window, LogProb(float(total), greedy)))
    return scored


def _common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Return the number of tokens that both sequences begin with."""
    shorter = min(len(first), len(second))
    return next((position for position in range(shorter) if first[position] != second[position]), shorter)
