"""Records of the lever: questions with their answers, pools, pointers, and results of trainings and of selectors.

An answer that the judge could not give is neither right nor wrong: it is counted, and in no mean.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from storage.records import FiniteRecord, Record, Ref
from tasks.lever.lever_errors import FileUnusable

Split = Literal["train", "validation", "test"]
Sampler = Literal["RandSampler", "TextSimSampler", "ImgSimSampler", "MixSampler"]
Stage = Literal["sft", "rce", "grpo"]
Method = Literal["beam", "sample", "random", "retrieval"]
Pointer = tuple[int, ...]
"""Positions in a pool, in the order of the picks, in which the demonstrations are shown."""

SIMILARITIES = ("similarity", "similarity_text", "similarity_image", "similarity_class")
"""Image and question together, the question, the image, what the encoder takes the image for."""
TRAINED = ("sft", "rce", "grpo")
RANDOM, ORACLE = "random", "oracle"
SELECTORS = (RANDOM, *SIMILARITIES, *TRAINED, ORACLE)
"""In the order in which tables show them; others, such as ablations, stand before the oracle."""


class VqaItem(Record):
    """A question about a picture, with the answers of people."""

    id: str
    """Question id, as text."""
    image_id: str
    image: str
    """Path of the picture."""
    image_sha256: str
    """SHA-256 (hex) of the file's bytes; results made from a picture are kept under it."""
    question: str
    answers: tuple[str, ...] = Field(min_length=1)
    """One for each person, usually ten."""
    answer_type: str = "other"
    """As the annotations say: `yes/no`, `number`, `other`."""

    @property
    def shown_answer(self) -> str:
        """What a demonstration shows: the answer given most often, of equals the first."""
        return max(self.answers, key=self.answers.count)


class Dataset(Record):
    """Questions of one dataset. Candidates and train queries are `train`; nothing is chosen by `test`."""

    name: str
    train: tuple[VqaItem, ...]
    train_queries: tuple[str, ...]
    """Ids in `train` that selectors learn from."""
    validation: tuple[VqaItem, ...]
    """Held-out queries by which a checkpoint is chosen."""
    test: tuple[VqaItem, ...]
    left_out: dict[str, str] = Field(default_factory=dict[str, str])
    """Question id → why it cannot be used (no picture, no answer)."""
    counted: tuple[str, ...] = ()
    """Ids of all questions of the training file, in its order: files of Lever-Plus name them by their numbers."""


class Pools(Record):
    """The candidates of each query, in the order in which pointers count them."""

    sampler: Sampler
    size: int
    seed: int
    pools: dict[str, tuple[str, ...]]
    """Query id → ids of its candidates, all distinct and none of them the query."""


class Embedded(Record):
    """Where the embeddings of a dataset are; each Ref is an EmbeddingBank."""

    encoder: str
    """Name and revision of the encoder."""
    dimension: int
    candidates: Ref
    """Joint embeddings (image and question) of every item of `train`."""
    queries: Ref
    """Joint embeddings of the validation and test items and of the train queries."""
    images: Ref | None = None
    """Images alone, of all items; none in files of the seed."""
    texts: Ref | None = None
    """Questions alone, of all items; none in files of the seed."""
    classes: Ref | None = None
    """What the encoder takes the pictures for, where it tells; another baseline."""
    vectors: Literal["joint", "image", "text"] = "joint"
    """What a selector sees."""

    def seen_as(self, vectors: Literal["joint", "image", "text"]) -> Embedded:
        """The same, of which a selector sees these. Raises FileUnusable where they are missing."""
        if vectors != "joint" and (self.images if vectors == "image" else self.texts) is None:
            raise FileUnusable(
                f"the embedding files hold one vector for each question, and none of the {vectors} alone; "
                "leave --vectors out, or let an encoder make them (--encoder)"
            )
        return self.model_copy(update={"vectors": vectors})

    @property
    def seen(self) -> tuple[Ref, Ref]:
        """The banks of queries and candidates that a selector sees."""
        alone = {"image": self.images, "text": self.texts}.get(self.vectors)
        return (alone, alone) if alone else (self.queries, self.candidates)


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
    """All that is known of one query."""

    meta: dict[str, Any]
    """image_id, question, split, threshold, judge."""
    candidate_pool: tuple[dict[str, Any], ...]
    """For people who look: id, image_id, question, answer of each candidate."""
    candidate_pool_ids: tuple[str, ...]
    pointer_candidates: tuple[PointerRecord, ...]


RlData = dict[str, RlQuery]
"""By query id; the content of `rl_data_{Sampler}.json`."""


class BeamPart(Record):
    """Pointers to imitate of some queries, best first."""

    queries: dict[str, tuple[PointerRecord, ...]]


class RlPart(Record):
    """RL data of some queries."""

    queries: RlData


class CurvePoint(Record):
    """Figures of one update."""

    step: int
    epoch: int
    figures: dict[str, float]
    """loss, lr, grad_norm; reward_mean, advantage_std, frac_zero_std, clip_fraction, kl, beta, entropy, ess …"""


class Curve(Record):
    """Figures of all updates of a training, in order."""

    points: tuple[CurvePoint, ...]


class TrainedSelector(Record):
    """A trained pointer network."""

    stage: Stage
    weights: Ref
    """A checkpoint of ours: safetensors with its configuration in the header."""
    curve: Ref
    """A Curve."""
    chosen_epoch: int
    """By accuracy on the validation queries."""
    validation: dict[int, float]
    """Epoch (0: before the first) → accuracy on the validation queries."""


class Outcome(Record):
    """What the judge made of one query with the demonstrations that a selector chose."""

    query: str
    pointer: Pointer
    shown: tuple[str, ...]
    """Ids of the demonstrations, in the order in which they are shown."""
    answer: str | None = None
    accuracy: float | None = Field(default=None, ge=0, le=1)
    """VQA accuracy; None where the judge failed."""
    correct: int | None = Field(default=None, ge=0, le=1)
    """1 where the accuracy reaches the threshold."""
    failed: str | None = None
    """Why there is no answer."""
    retryable: bool = False
    """True when the judge may answer another time."""
    key: str | None = None
    """Key of the answer in the response store."""


class Search(Record):
    """Extent of an oracle's search."""

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
        return sum(one.accuracy is None for one in self.outcomes)


class Conditions(Record):
    """What figures depend on beside the seed; only figures under equal conditions are summarised together."""

    dataset: str
    judge: str
    encoder: str
    sampler: Sampler
    pool_size: int
    threshold: float
    """VQA accuracy from which an answer counts as right."""
    trained_shots: int
    """Shots that the selectors were trained for, and that count: the others are reported."""


class Evaluated(Record):
    """What one seed found."""

    conditions: Conditions
    seed: int
    results: tuple[SelectorResult, ...]
