"""The VQA accuracy a second time, straight from its definition: slow, plain, and sharing nothing with the first.

Written from the published description of the metric (visualqa.org/evaluation.html) and what the authors' program does;
the contractions are that program's table, pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

SIGNS = [";", "/", "[", "]", '"', "{", "}", "(", ")", "=", "+", "\\", "_", "-", ">", "<", "@", "`", ",", "?", "!"]
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
DIGITS = {word: str(number) for number, word in enumerate(WORDS)} | {"none": "0"}
TABLE = """
aint=ain't arent=aren't cant=can't couldve=could've couldnt=couldn't couldn'tve=couldn't've couldnt've=couldn't've
didnt=didn't doesnt=doesn't dont=don't hadnt=hadn't hadnt've=hadn't've hadn'tve=hadn't've hasnt=hasn't havent=haven't
hed=he'd hed've=he'd've he'dve=he'd've hes=he's howd=how'd howll=how'll hows=how's Id've=I'd've I'dve=I'd've Im=I'm
Ive=I've isnt=isn't itd=it'd itd've=it'd've it'dve=it'd've itll=it'll let's=let's maam=ma'am mightnt=mightn't
mightnt've=mightn't've mightn'tve=mightn't've mightve=might've mustnt=mustn't mustve=must've neednt=needn't
notve=not've oclock=o'clock oughtnt=oughtn't ow's'at='ow's'at 'ows'at='ow's'at 'ow'sat='ow's'at shant=shan't
shed've=she'd've she'dve=she'd've she's=she's shouldve=should've shouldnt=shouldn't shouldnt've=shouldn't've
shouldn'tve=shouldn't've somebody'd=somebodyd somebodyd've=somebody'd've somebody'dve=somebody'd've
somebodyll=somebody'll somebodys=somebody's someoned=someone'd someoned've=someone'd've someone'dve=someone'd've
someonell=someone'll someones=someone's somethingd=something'd somethingd've=something'd've
something'dve=something'd've somethingll=something'll thats=that's thered=there'd thered've=there'd've
there'dve=there'd've therere=there're theres=there's theyd=they'd theyd've=they'd've they'dve=they'd've theyll=they'll
theyre=they're theyve=they've twas='twas wasnt=wasn't wed've=we'd've we'dve=we'd've weve=we've werent=weren't
whatll=what'll whatre=what're whats=what's whatve=what've whens=when's whered=where'd wheres=where's whereve=where've
whod=who'd whod've=who'd've who'dve=who'd've wholl=who'll whos=who's whove=who've whyll=why'll whyre=why're whys=why's
wont=won't wouldve=would've wouldnt=wouldn't wouldnt've=wouldn't've wouldn'tve=wouldn't've yall=y'all yall'll=y'all'll
y'allll=y'all'll yall'd've=y'all'd've y'alld've=y'all'd've y'all'dve=y'all'd've youd=you'd youd've=you'd've
you'dve=you'd've youll=you'll youre=you're youve=you've
"""
CONTRACTED: dict[str, str] = {}
for pair in TABLE.split():
    written, meant = pair.split("=")
    CONTRACTED[written] = meant


def second_accuracy(said: str, people: Sequence[str]) -> float:
    """The share of a point, averaged over all ways to leave one person out."""
    heard = trimmed(said)
    answers = [trimmed(answer) for answer in people]
    if any(answer != answers[0] for answer in answers):
        answers = [prepared(answer) for answer in answers]
        heard = prepared(heard)
    points: list[Fraction] = []
    for left_out in range(len(answers)):
        others = answers[:left_out] + answers[left_out + 1 :]
        points.append(min(Fraction(1), Fraction(others.count(heard), 3)))
    return float(sum(points) / len(points))


def trimmed(text: str) -> str:
    """On one line, without space around it."""
    return "".join(" " if sign in "\n\t" else sign for sign in text).strip()


def prepared(text: str) -> str:
    """Without punctuation; then word by word."""
    out: list[str] = []
    for word in plain(text).lower().split():
        number = DIGITS.get(word, word)
        if number in ("a", "an", "the"):
            continue
        out.append(CONTRACTED.get(number, number))
    return " ".join(out)


def plain(text: str) -> str:
    """Sign by sign: what each becomes depends on the whole text as it was."""
    between_digits = any(
        text[at] == "," and text[at - 1].isdecimal() and text[at + 1].isdecimal() for at in range(1, len(text) - 1)
    )
    deleted = {sign for sign in SIGNS if between_digits or sign + " " in text or " " + sign in text}
    without = "".join("" if sign in deleted else " " if sign in SIGNS else sign for sign in text)
    kept, dropped = "", 0
    for at, sign in enumerate(without):
        before_digit = at + 1 < len(without) and without[at + 1].isdecimal()
        if sign == "." and not before_digit and dropped < 32:
            dropped += 1
        else:
            kept += sign
    return kept
