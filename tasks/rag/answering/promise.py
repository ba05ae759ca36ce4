"""How sure an answer must be to be given: a threshold that keeps the promised share of wrong answers.

`calibration.json` holds the confidences of the answers to questions that were written blind and that no rule was fitted
to. A user's own questions give another: `trivet rag eval QUESTIONS --calibrate FILE`.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from tasks.language.sentences import CITATION_MARK, language_of
from tasks.measure.estimates import least_confidence
from tasks.rag.answers import AnswerSettings, Calibration, Citation, Draft
from tasks.rag.places import place_of
from tasks.rag.planning.names import stem_of

LEAST = 0.5
"""An answer that is less sure is likelier wrong than right."""
WITHHELD = {"en": "No answer is sure enough.", "ko": "충분히 확실한 답이 없습니다."}
CLOSEST = {"en": "The closest place: {place} [1].", "ko": "가장 가까운 곳: {place} [1]."}


@cache
def our_calibration() -> Calibration:
    """The calibration that ships with the program."""
    return Calibration.model_validate_json((files("tasks.rag.answering") / "calibration.json").read_bytes())


def threshold(settings: AnswerSettings) -> float:
    """The confidence that an answer needs: LEAST without a promise, inf where the promise allows no answer."""
    if settings.max_wrong >= 1:
        return LEAST
    known = settings.calibration or our_calibration()
    return least_confidence(known.wrong, known.n, most_wrong=settings.max_wrong)


def kept(question: str, draft: Draft, *, least: float) -> Draft:
    """The draft, or the place that it points to where it is less sure than `least`."""
    if draft.abstained or draft.confidence is None or draft.confidence >= least:
        return draft
    language = language_of(question)
    text, cited = WITHHELD[language], draft.citations[:1]
    if cited:
        text = f"{text} {CLOSEST[language].format(place=_place(cited[0], language))}"
    asked = "no answer can be" if least > 1 else f"{least:.2f} is"
    why = f"the answer's confidence is {draft.confidence:.2f}, and {asked} sure enough for the share of wrong answers"
    return draft._replace(
        text=text,
        citations=tuple(one.model_copy(update={"n": 1}) for one in cited),
        abstained=True,
        reason=" · ".join(filter(None, (why, draft.reason))),
    )


def _place(citation: Citation, language: str) -> str:
    cited = stem_of(citation.document), citation.page, citation.page_source, citation.place.cells
    heading = f" ({citation.place.heading_path[-1]})" if citation.place.heading_path else ""
    return CITATION_MARK.sub("", f"{place_of(*cited, language=language)}{heading}")
