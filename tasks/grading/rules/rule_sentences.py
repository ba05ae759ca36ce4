"""Sentences as NLTK's Punkt model for English finds them, without its data, and the words in capitals in them.

A `.`, `?` or `!` ends a sentence where white space or one of a few marks follows, unless its word is an abbreviation,
an initial or a number and the next word does not look like a beginning; `1.` of a list, `e.g.` and `**done.**` end one.
Source: Kiss & Strunk 2006, Computational Linguistics 32(4); measured against NLTK 3.10, which, unlike earlier ones,
also cuts before curly quotes. The words are common ones, sorted by how its Punkt (newspapers of 1987) treats them.
Known differences: Punkt knows the case of 20,000 words, we of 1,200, so that after an abbreviation, an initial or
three dots a rarer word may be taken for a name; its few name pairs and some 80 rare initials (`W.R.`) are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

SPACE = r" \t\n\r\x0b\x0c"
MARK = r"""[)";}\]*:@'({\[?!‘’“”«»]"""
"""Ends a word without a space."""
STOP = rf"{MARK}|--|\.\.|,(?=\s|$|{MARK}|--|\.\.)"

# from the start of a word to its last `.?!` that may end a sentence, so that each word is read once; a word that begins
# with such a mark, like a lone `!!`, is cut after it too
BEGINNING = rf"(?:\A|(?<=[{SPACE}]))"
CANDIDATE = re.compile(
    rf"{BEGINNING}[.?!](?={MARK})|(?:{BEGINNING}|(?<=\A[.?!])|(?<=[{SPACE}][.?!]))[^{SPACE}]*[.?!](?={MARK}|\s)"
)
FOLLOWING = re.compile(rf"{MARK}|\s+\S+")
TOKEN = re.compile(rf"--+|\.\.+|[^\s(\"`{{\[:;&#*@)}}\]\-,](?:(?!{STOP})\S)*|\S")
CLOSING = re.compile(r"""(["')\]}‘’“”«»]+)(?:\s+|(?=--)|\Z)""")
NUMBER = re.compile(r"[.,]?\d[\d,.-]*")

APART = re.compile(r"""[][(){}<>;@#$%&?!*"`«»“”‘’„\u2012-\u2015]|--|''|\.\.+|[:,](?!\d)|(?<!\w)'(?=\w)""")
TWO_IN_ONE = re.compile(
    r"\b(can(?=not\b)|gim(?=me\b)|gon(?=na\b)|got(?=ta\b)|lem(?=me\b)|wan(?=na(?!\S))|d(?='ye\b)|more(?='n\b))", re.I
)
CLITICS = ("'s", "'S", "'m", "'M", "'d", "'D", "'ll", "'LL", "'re", "'RE", "'ve", "'VE", "n't", "N'T", "'")
END = "])}>\"'»”’ \t\n\r\x0b\x0c"


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, one at a time, closing quotes and brackets with the sentence they close."""
    text = text.rstrip()
    start = 0
    for candidate in CANDIDATE.finditer(text):
        following = FOLLOWING.match(text, candidate.end())
        # the last token belongs to what follows
        if following and any(_ends(*pair) for pair in pairwise(TOKEN.findall(candidate[0] + following[0]))):
            end, after = _realigned(text, candidate.end())
            yield text[start:end]
            start = after
    if start < len(text):
        yield text[start:]


def _realigned(text: str, end: int) -> tuple[int, int]:
    """End of the sentence with closing marks after `end`, and the beginning of the next."""
    after = end
    while text[after].isspace():
        after += 1
    closing = CLOSING.match(text, after)
    return (closing.end(1), closing.end()) if closing else (end, after)


def _ends(token: str, following: str) -> bool:
    if token in (".", "?", "!"):
        return True
    if not token.endswith("."):
        return False
    if token.endswith(".."):
        return _begins(following)
    word = token[:-1].lower()
    if NUMBER.fullmatch(word):
        return not _continues(following)
    if len(word) == 1 and word.isalpha():
        return word not in ABBREVIATED_LETTERS and not _continues(following) and not _is_name(following)
    if word in ABBREVIATIONS or word.rpartition("-")[2] in ABBREVIATIONS:
        return _begins(following)
    return True


def _continues(token: str) -> bool:
    """True if no sentence begins with it."""
    return token in (";", ":", ",", ".", "!", "?") or token[0].islower()


def _begins(token: str) -> bool:
    """True if it is a word in capitals only because a sentence begins."""
    return token[0].isupper() and token.removesuffix(".").lower() in BEGINNERS


def _is_name(token: str) -> bool:
    if token == "I":  # begins many sentences, but is always a capital
        return True
    return token[0].isupper() and not _begins(token) and token.removesuffix(".").lower() not in ORDINARY


def capital_words(text: str) -> Iterator[str]:
    """The words whose letters are all capitals, in order, cut as NLTK's `word_tokenize` cuts them.

    `DON'T` is `DO` and `N'T`, `NASA's` is `NASA` and `'s`, `CANNOT` is `CAN` and `NOT`, while `AND/OR`, `T-SHIRT` and
    `U.S.A.` are one each. Source: NLTK's TreebankWordTokenizer and NLTKWordTokenizer, by behaviour.
    Known differences: a word with two clitics (`SHOULDN'T'VE`) may be cut at another place.
    """
    for sentence in sentences(text):
        bare = sentence.rstrip(END)
        if bare.endswith(".") and not bare.endswith(".."):  # with its period `IT'S.` would be one word
            sentence = bare[:-1]
        spaced = TWO_IN_ONE.sub(r" \1 ", APART.sub(" ", sentence))
        for piece in spaced.split():
            if not piece.islower():
                yield from (word for word in _cut(piece) if word.isupper())


def _cut(piece: str) -> tuple[str, ...]:
    for clitic in CLITICS:
        stem = piece.removesuffix(clitic)
        if stem and stem != piece and stem[-1] != "'":
            return stem, clitic
    return (piece,)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


ABBREVIATED_LETTERS = frozenset("cdefghklmnprstvw")
"""After these single letters with a period no sentence ends, not even `vitamin C. It helps.`"""

ABBREVIATIONS = _words(
    """
    mr mrs ms dr prof gen sen rep reps col lt adm maj messrs jr sr st ave ft vs yr
    bros co cos corp inc ltd s.a n.v s.p.a
    jan feb aug sep sept oct nov dec tues wed fri
    ala ariz calif colo conn fla ga ill kan ky mich minn nev okla ore pa tenn va vt wash wis w.va
    n.c n.d n.h n.j n.m n.y d.c l.a r.i s.c u.k u.n u.s u.s.a u.s.s.r
    a.c a.d a.m p.m ph.d m.b.a c.v
    j.c j.j j.k j.p j.r r.a r.h r.j t.j w.w
    """
)

BEGINNERS = _words(
    """
    above accept according accordingly achieve actions active adding adjust adopt advice afterwards aim allow almost
    along already although always among animals anyone anything apparently apply approach arrange arriving ask assume
    attach attend attending attention beat become begin behind being believe beneath besides better between beyond
    birds blend boil both bread break briefly bringing brother build built but call calm cannot car carefully carry
    cause celebrate certainly challenge challenges chance check cheese choose cleaning closing clothes coat cold
    collect combine combined comfort communicate compare comparing complete completed concerning conclude conclusion
    confirm consider considering contact content contrary cooking cool copyright course covering cream create created
    creating crowds currently dark decide deep deliver depending describe designed despite determine develop developed
    developing didn diet difference different difficult direct discover discuss does doesn dogs doing done door double
    doubt drain draw dress drink driven earlier early earn easily eating effective eight either else embrace encourage
    engage enjoy enough ensure ensuring enter entering entire equally equipped especially essentially establish
    established even eventually ever exactly examine example examples except exercise experience experts explain
    explore exploring extra eyes fact famous fear features featuring feeling fig figure fill final finally finish fish
    fix flowers fly fold follow following forget formerly forward founded furthermore gather gift girls given giving
    goals going grab growing guess guests hands happy hasn he healthy hear helping hence her here hers highlight him
    hold honestly hot hours however huge humans hundreds hurry i idea ideally if imagine immediately implement
    importantly impressive improve in include included including indeed individuals inside inspired instead
    interesting invest invite involve isn it items joined journey kids knowledge known lack language largely lately
    laugh leaders learn least lemon lets likewise links list listen living located looking lose losing loudly lunch
    maintain manage managed many marriage maximum meals mean meaning meanwhile melt mention milk mind mine minimum mix
    moment monthly moreover morning most mother myself naturally nature neither nevertheless nonetheless nor normally
    notably note nothing nowhere number numbers numerous occasionally okay ones onions opened opening opportunities
    optional ordinary organized original originally otherwise ours overall pack packed paint participating
    particularly pass passed perfect perfectly perform personal personally pick piece pieces play playing please
    plenty points possibly potential practice prepare prepared present preserve presumably prevent previous previously
    prior private proceed process producing promised proper properly protect provide provided pull pursue put putting
    question questions rain rarely recent recently recipe recognize reflect regarding regardless regular relax
    released remain remember remove replace require required respect right roll roses round sadly same sample season
    seeing seems select send separate serve served serving setting seven sharing shouldn showing silence similar
    similarly simple simply since sing single sister sit sitting skills slow slowly smile snow so some somehow someone
    sometimes son soon sorry speak specifically spend spending spread stand standing started starting staying steam
    step still stories strength stress studying style subsequently such suddenly suggest supported surely surprisingly
    taking taste teach teaching team teens ten thank thanks the them themselves there therefore these they things
    think thinking this though through throughout thus tips tired title together tomorrow towards train transfer
    traveling treat trees true truly try trying turn type typically ultimately under understand undoubtedly
    unfortunately unless unlike upon us using utilize various vegetables very via visiting visitors wait waiting walk
    walking warm watching wear wearing weather weekend weeks welcome were weren when whenever whereas wherever whether
    which whichever while whole whom window wisdom within without wonderful words worked working writing yelling yes
    yesterday yet your yourself youth
    """
)
"""Lower case inside sentences, so that a capital means that one begins."""

ORDINARY = _words(
    """
    a about access across act action actually add additional advance after again against age ago all alone also am
    amid an and another answer any apart are aren art as at avoid away b baby back bad balance base based basically be
    bear beautiful because before beginning below benefits best big birthday black blue book books breakfast brief
    bring building business busy buy by can care case cats central certain change changes chicken child children class
    clean clear clearly close coffee color come coming common community company computer continue control could couldn
    count cover creative cry culture current customers cut daily dance data day days deal death definitely design did
    dinner discussing do don down dream dreams drive driving dry due during each east easy eat education emphasize
    employees end ending evening every everybody everyone everything expect express face facts fair fall family far
    fast father feed feel few field fifth fight find finding fine fire first five focus food for force form former
    four fourth free freedom fresh friends from front fruit full fun further future general generally get getting give
    go god good got government gradually great green group grow guide had half hand hard hardly has have haven having
    head health heart heat held help hey high his history holding home hope house how human ice ideas identify
    includes increase increasingly introduce is its itself job jobs join jump just justice keep keeping key kind know
    knowing large last late later law lead learning leave leaving left less let life light like likely limit line link
    little live local long look lots love low lower luck made main make making man mark marketing material may maybe
    me measure meat meet meeting members memories men might minor mixed modern money monitor month more mostly move
    moving much music must my name named natural near nearly never new news next nice night nightly nine no nobody
    none north not notice now obviously of off offer offering office often oil old on once one only open or order
    other others our out outside over own paper parents part parties past pay paying peace people perhaps place plan
    planning plans plant plants plus point poor popular power press price prices print products professional promote
    public purchase push quality queen quick quickly quiet quite raise rather reach read reading ready really reason
    recall record red reduce release report request research resources rest return review rich rise road role rub
    rules run running safety salt save say saying school schools science scientists sea second security see seek sell
    series service services set several share she shopping short should show side singing six sleep sleeping small
    smart social soft software somebody something somewhere soup south special spring start state stay steps stop
    store story strategies strategy strong students study stuff sugar summer sun support sure sweet system take takes
    talk talking teachers tears technology tell test than that their then thing third those thousands three time times
    to today too top total touch toward town track training transportation travel trust two understanding until up use
    used users usually value view visit voice wake want war was wasn watch water way ways we week weekly well west
    what whatever where white who whose why will wind wine winning winter with women won wonder work world would
    wouldn write wrong year years you young z
    """
)
"""Also parts of names (`New`, `Board`), so that they prove a beginning only after an initial."""
