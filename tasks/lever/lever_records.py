"""Records of the lever: items with their answers, pools, pointers, and results of trainings and of selectors.

An answer that the judge could not give is neither right nor wrong: it is counted, and in no mean.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from typing import Any, Literal, Self

from pydantic import Field, ValidationError

from storage.records import FiniteRecord, Record, Ref
from tasks.lever.lever_errors import OptionUnusable

Sampler = Literal["RetrievalSampler", "RandSampler", "TextSimSampler", "ImgSimSampler", "MixSampler"]
Modality = Literal["joint", "images", "texts"]
"""Embeddings by which candidates are near: of image and question together, of the image, of the question."""
Stage = Literal["sft", "rce", "grpo"]
Method = Literal["beam", "sample", "random", "retrieval"]
Pointer = tuple[int, ...]
"""Positions in a pool, in the order of the picks, in which the demonstrations are shown."""

ZERO_SHOT, RANDOM, ORACLE = "zero_shot", "random", "oracle"
SIMILARITY = "similarity"
"""Nearest neighbours among all candidates, of image and question or of the text (RICES)."""
SIMILARITY_VOTE = "similarity_vote"
"""Nearest of the class that most of the eight nearest candidates have, where items have classes."""
MMR = "mmr"
"""Among all candidates near the query and unlike each other, weighed as validation queries want it."""
DISTINCT = "distinct_questions"
"""Nearest of all candidates, each with another question."""
DPP = "dpp"
"""Among all candidates near the query and spread out, by the volume that they span (determinantal point process)."""
SIMILARITY_POOL = "similarity_pool"
"""Nearest neighbours among the candidates of the query's pool alone."""
SEED_CHOICES: tuple[Sampler, ...] = ("TextSimSampler", "ImgSimSampler", "MixSampler")
"""Selectors that show the first candidates of a sampler of Lever-Plus; that of RandSampler is `random`."""
RIVALS = (SIMILARITY, SIMILARITY_VOTE, MMR, DISTINCT, DPP)
"""Rules that cost nothing, of which the best on validation queries is what learning has to beat."""
RULES = (*RIVALS, SIMILARITY_POOL, *SEED_CHOICES)
UNTRAINED = (ZERO_SHOT, RANDOM, *RULES)
TRAINED = ("sft", "rce", "grpo")
SELECTED = "selected"
"""What a user gets: the trained selector where it measurably beats the best rule of validation, else that rule."""
SELECTORS = (*UNTRAINED, *TRAINED, SELECTED, ORACLE)
"""In the order in which tables show them; others, such as ablations, stand before the oracle."""


class VqaItem(Record):
    """A question about a picture, with the answers of people."""

    id: str
    """Id of the question, as text."""
    image_id: str
    image: str
    """Path of the picture's file."""
    image_sha256: str
    """SHA-256 (hex) of the file's bytes; results made from a picture are kept under it."""
    question: str
    answers: tuple[str, ...] = Field(min_length=1)
    """The answer of each person, usually ten."""
    answer_type: str = "other"
    """Kind of answer in the annotations: `yes/no`, `number`, `other`."""

    @property
    def shown_answer(self) -> str:
        """The answer of a demonstration: the one given most often, of equals the first; a blank shows nothing."""
        answers = [answer for answer in self.answers if answer.strip()] or self.answers
        return max(answers, key=answers.count)

    @property
    def group(self) -> str:
        """The kind of question, by which results are broken down."""
        return self.answer_type

    @property
    def public_fields(self) -> dict[str, Any]:
        """Fields that describe the item to people who read files: picture and question."""
        return {"image_id": self.image_id, "question": self.question}


class TextItem(Record):
    """A text to classify, with its class."""

    id: str
    text: str
    label: str
    """The word for its class, as prompts have it; of a question, the answer that is shown."""
    accepted: tuple[str, ...] = Field(default=(), exclude_if=lambda accepted: not accepted)
    """All right answers, where these are not a class."""

    @property
    def shown_answer(self) -> str:
        """The answer of a demonstration: the class."""
        return self.label

    @property
    def answers(self) -> tuple[str, ...]:
        """All right answers; of a class there is one."""
        return self.accepted or (self.label,)

    @property
    def group(self) -> str:
        """The class, by which results are broken down."""
        return "answers" if self.accepted else self.label

    @property
    def public_fields(self) -> dict[str, Any]:
        """Fields that describe the item to people who read files."""
        return {"text": self.text}


Item = VqaItem | TextItem
"""A query or a demonstration: it has an id, an answer that is shown, and right answers."""


def digest_items(items: Iterable[Item]) -> str:
    """Return the SHA-256 (hex) of items and of the content of their pictures, wherever these lie."""
    checksum = hashlib.sha256()
    for item in items:
        checksum.update(json.dumps(item.model_dump(exclude={"image"}), sort_keys=True).encode() + b"\n")
    return checksum.hexdigest()


class Dataset(Record):
    """Items of one dataset. Candidates and train queries are in `train`; nothing is chosen by `test`."""

    name: str
    train: tuple[Item, ...]
    shown: tuple[str, ...] = ()
    """Ids in `train` that may be shown; empty: all may."""
    train_queries: tuple[str, ...]
    """Ids in `train` that selectors learn from."""
    validation: tuple[Item, ...]
    """Held-out queries by which a checkpoint is chosen."""
    test: tuple[Item, ...]
    left_out: dict[str, str] = Field(default_factory=dict[str, str])
    """Why items cannot be used (no picture, no answer), by id."""
    counted: tuple[str, ...] = ()
    """Ids of all questions of the training file, in its order: files of Lever-Plus name them by their numbers."""
    metric: str = Field(default="", exclude_if=lambda metric: not metric)
    """How answers are scored, where the dataset is a user's own: `vqa`, `exact`, `label`, or `module.function`."""

    @property
    def items(self) -> tuple[Item, ...]:
        """All items: train, validation and test."""
        return (*self.train, *self.validation, *self.test)

    @property
    def queries(self) -> tuple[str, ...]:
        """Ids of the train, validation and test queries."""
        return (*self.train_queries, *(item.id for item in (*self.validation, *self.test)))

    @property
    def candidates(self) -> tuple[str, ...]:
        """Ids of the items that may be shown."""
        return self.shown or tuple(item.id for item in self.train)


class PoolRecipe(Record):
    """How candidates of a query are found. Checkpoints hold the recipe of the pools that they were trained in."""

    sampler: Sampler
    size: int = Field(ge=0)
    """Candidates of a query; 0: not known."""
    others: float = Field(default=0.0, ge=0, lt=1)
    """RetrievalSampler: share of the pool that is drawn at random, beside the nearest."""
    modalities: tuple[Modality, ...] = ()
    """RetrievalSampler: embeddings by which candidates are the nearest, in turn."""

    def limited_to(self, available: Collection[str]) -> PoolRecipe:
        """Return the recipe with the modalities that are available; other samplers need none."""
        if self.sampler != "RetrievalSampler":
            return PoolRecipe(sampler=self.sampler, size=self.size)
        modalities = tuple(modality for modality in self.modalities if modality in available)
        return self.model_copy(update={"modalities": modalities})

    def matches(self, recipe: PoolRecipe) -> bool:
        """Return whether both recipes give the same pools, as far as both are known."""
        update = {"size": recipe.size} if not self.size else {}
        return self.model_copy(update=update) == recipe or (not recipe.size and recipe.matches(self))

    @property
    def description(self) -> str:
        """The recipe in words: `pools of 32 by RandSampler`."""
        words = f"pools of {self.size or 'unknown size'} by {self.sampler}"
        if self.sampler != "RetrievalSampler":
            return words
        return f"{words} ({' + '.join(self.modalities)}, {self.others:.0%} others)"


class Pools(Record):
    """The candidates of each query, in the order in which pointers count them."""

    recipe: PoolRecipe
    seed: int
    pools: dict[str, tuple[str, ...]]
    """Ids of the candidates of each query, all distinct and none of them the query."""


WITH_ANSWERS = "+answers"
"""Ending of the encoder's name for a selector that sees candidates with their answers."""


class Embedded(Record):
    """Where the embeddings of a dataset are; each Ref is an EmbeddingBank."""

    encoder: str
    """Name and revision of the encoder."""
    dimension: int
    candidates: Ref
    """Joint embeddings (image and question, or the text) of every candidate."""
    queries: Ref
    """Joint embeddings of the validation and test items and of the train queries."""
    solved: Ref | None = None
    """Joint embeddings of every candidate with its answer; None where a selector does not see answers."""
    images: Ref | None = None
    """Images alone, of all items; none in files of the seed."""
    texts: Ref | None = None
    """Questions or texts alone, of all items; none in files of the seed."""
    vectors: Literal["joint"] = "joint"  # in the keys of results from when a selector could read others

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """Embeddings by which candidates may be near."""
        return ("joint", *(["images"] if self.images else []), *(["texts"] if self.texts else []))

    @property
    def visible_encoder(self) -> str:
        """Name of the encoder of what a selector sees, as its checkpoint records it."""
        return f"{self.encoder}{WITH_ANSWERS}" if self.solved else self.encoder

    @property
    def visible_banks(self) -> tuple[Ref, Ref]:
        """The banks of queries and candidates that a selector sees."""
        return self.queries, self.solved or self.candidates


class PointerRecord(FiniteRecord):
    """One ordered choice of demonstrations of a query, as `rl_data_*.json` has it."""

    pointer: Pointer
    gen_method: Method
    beam_rank: int | None = None
    beam_score: float | None = None
    """Sum of the probabilities of the steps."""
    logprob_score: float | None = None
    """Sum of the log-probabilities of the steps, at temperature 1."""
    temperature: float | None = None
    vqa_pred_answer: str | None = None
    vqa_correct: Literal[0, 1] | None = None
    vqa_acc_score: float | None = Field(default=None, ge=0, le=1)
    vqa_gt_prob: float | None = Field(default=None, ge=0, le=1)
    """Σ over unique answers of min(count / 3, 1) · P(answer | prompt), where the judge gives log-probabilities."""
    behaviour_logp: float | None = None
    """Log-probability, at temperature 1, under the policy that wrote the file; of random pointers too."""
    status: Literal["judged", "eval_failed"] = "judged"
    reason: str | None = None
    """Why it could not be judged."""


class RlQuery(Record):
    """The judged pointers of one query, with its candidates."""

    meta: dict[str, Any]
    """Fields image_id, question, split, threshold and judge."""
    candidate_pool: tuple[dict[str, Any], ...]
    """Fields id, image_id, question and answer of each candidate, for people who read the file."""
    candidate_pool_ids: tuple[str, ...]
    pointer_candidates: tuple[PointerRecord, ...]


RlData = dict[str, RlQuery]
"""RL data by query id, the content of `rl_data_{Sampler}.json`."""


class BeamPart(Record):
    """The beam data of a shard: pointers to imitate, best first."""

    queries: dict[str, tuple[PointerRecord, ...]]


class RlPart(Record):
    """The RL data of a shard of the queries."""

    queries: RlData


class CurvePoint(Record):
    """The values that one update logs."""

    step: int
    epoch: int
    figures: dict[str, float]
    """loss, lr, grad_norm; reward_mean, advantage_std, frac_zero_std, clip_fraction, kl, beta, entropy, ess …"""


class Curve(Record):
    """The values of all updates of a training, in order."""

    points: tuple[CurvePoint, ...]


class TrainedSelector(Record):
    """A trained pointer network, with its curve and validation."""

    stage: Stage
    weights: Ref
    """A checkpoint of ours: safetensors with its configuration in the header."""
    curve: Ref
    """Artifact with the Curve of the training."""
    chosen_epoch: int
    """The epoch with the best accuracy on the validation queries; its weights are kept."""
    validation: dict[int, float]
    """Accuracy on the validation queries by epoch; 0 is before the first."""


class SelectionRule(Record):
    """A rule that chooses demonstrations without training, as a checkpoint records it."""

    name: Literal["similarity", "similarity_vote", "mmr", "distinct_questions", "dpp"]
    weight: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    """Weight of unlikeness against nearness: λ of MMR, or that of a DPP's log-volume; other rules have none."""
    classes: dict[str, str] = Field(default_factory=dict[str, str])
    """The class of each candidate, where these vote."""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read a rule: `mmr:0.7`, or `mmr` with its usual weight; None for no name of a rule. Raises OptionUnusable."""
        name, _, weight = text.partition(":")
        usual = {MMR: "0.5", DPP: "0.05"}.get(name, "0")
        try:
            return cls.model_validate({"name": name, "weight": weight or usual}) if name in RIVALS else None
        except ValidationError as error:
            raise OptionUnusable(f"{text}: the weight of {name} is a number from 0 on, as in {name}:{usual}") from error

    @property
    def title(self) -> str:
        """Name of the rule with its weight, as tables show it: `MMR(.7)`."""
        words = {"similarity_vote": "vote", "mmr": "MMR", "dpp": "DPP"}.get(self.name, self.name.replace("_", " "))
        return f"{words}({self.weight:g})".replace("(0.", "(.") if self.weight else words


class Verdict(Record):
    """The comparison of a trained selector with the best rule, on the queries that chose the selector's epoch."""

    rule: SelectionRule
    """The best rule on the validation queries."""
    tuned: dict[str, float]
    """Rule → the weight that was best on the validation queries, of rules that have one."""
    accuracies: dict[str, float]
    """Accuracy of each rule on the validation queries, by its title."""
    stage: str
    """The selector that was compared."""
    gain: float
    """Mean accuracy of the selector less the rule's, on the queries that both were scored on."""
    p: float | None
    """One-sided p of a paired test that the selector is no better; None where there are too few queries for one."""
    n: int
    """Queries that both were scored on."""
    is_learned: bool
    """Whether the trained selector is used; else the rule is."""
    description: str
    """The verdict in a sentence."""


class Outcome(Record):
    """The judge's answer to one query with the demonstrations that a selector chose."""

    query: str
    pointer: Pointer
    """Empty where something is shown that is not in the query's pool."""
    shown: tuple[str, ...]
    """Ids of the demonstrations, in the order in which they are shown."""
    answer: str | None = None
    accuracy: float | None = Field(default=None, ge=0, le=1)
    """The task's score: VQA accuracy, or 1 for the right class; None where the judge failed."""
    correct: int | None = Field(default=None, ge=0, le=1)
    """1 where the accuracy reaches the threshold."""
    failed: str | None = None
    """Why there is no answer; None if there is one."""
    retryable: bool = False
    """True when the judge may answer another time."""
    key: str | None = None
    """Key of the answer in the response store."""


class Search(Record):
    """How much of the pointers an oracle's search has tried."""

    judged: int
    """Pointers that were judged, over all queries."""
    settled: int
    """Queries whose best is known: it is entirely right, or all pointers were judged."""
    queries: int

    @property
    def is_lower_bound(self) -> bool:
        """True when some query may have a better pointer than was found."""
        return self.settled < self.queries


class SelectorResult(Record):
    """One selector with one number of shots on all queries."""

    selector: str
    shots: int
    outcomes: tuple[Outcome, ...]
    search: Search | None = None
    """Extent of the search; oracles only."""

    @property
    def unscored(self) -> int:
        """Queries on which the judge failed."""
        return sum(outcome.accuracy is None for outcome in self.outcomes)


class Conditions(Record):
    """Conditions of scores beside the seed; only scores under equal ones are summarised together."""

    dataset: str
    judge: str
    encoder: str
    sampler: Sampler
    pool_size: int
    pool_others: float = 0.0
    """Share of the pool that is drawn at random, by RetrievalSampler."""
    threshold: float
    """Accuracy from which an answer counts as right."""
    trained_shots: int
    """Shots that the selectors were trained for, and that count: the others are reported."""


class Evaluated(Record):
    """The results of all selectors for one seed."""

    conditions: Conditions
    seed: int
    results: tuple[SelectorResult, ...]
    verdict: Verdict | None = None
    """Whether the trained selector or a rule is `selected`."""


def first_duplicate(ids: Iterable[str]) -> str | None:
    """Return the first id that occurs a second time, or None."""
    earlier = set[str]()
    # `add` gives None, so that every id is looked up before it is noted
    return next((id for id in ids if id in earlier or earlier.add(id)), None)
