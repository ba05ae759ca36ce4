"""The words that stand beside numbers in answers: units, and what people write around a formula."""

from __future__ import annotations


def word_list(words: str) -> list[str]:
    """Words with spaces between them, as a list."""
    return words.split()


_UNITS = {
    "cm": "cm centimeter centimeters centimetre centimetres",
    "mm": "mm millimeter millimeters millimetre millimetres",
    "km": "km kilometer kilometers kilometre kilometres",
    "m": "m meter meters metre metres",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard yards",
    "mi": "mi mile miles",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "month": "month months",
    "year": "yr yrs year years",
    "kg": "kg kilogram kilograms",
    "g": "g gram grams",
    "lb": "lb lbs pound pounds",
    "oz": "oz ounce ounces",
    "cent": "cent cents ¢",
    "dollar": "dollar dollars usd",
    "yuan": "yuan rmb",
    "mph": "mph",
    "L": "l liter liters litre litres",
    "mL": "ml milliliter milliliters",
}
UNITS: dict[str, str] = {word: unit for unit, words in _UNITS.items() for word in words.split()}
"""Words for units of which two different ones make two answers different."""

SHORT_UNITS = frozenset(word_list("m s g h L N J K W V A C F T l"))
"""Letters that are a unit only behind a number and a space, where the other answer has no variable."""

OTHER_UNITS = frozenset(
    word_list(
        "degree degrees deg unit units square cubic sq cu sqrt per percent point points item items "
        "people person persons student students child children boy boys girl girls man men woman "
        "women apple apples book books ball balls marble marbles coin coins card cards page pages "
        "step steps way ways time times number numbers integer integers digit digits side sides "
        "edge edges vertex vertices triangle triangles rectangle rectangles solution solutions "
        "value values hz khz mhz ghz ev kev mev gev joule joules newton newtons watt watts volt "
        "volts ohm ohms amp amps kelvin pascal pa kpa atm mol moles nm um rad radian radians sr cc "
        "gal gallon gallons quart quarts pint pints cup cups acre acres hectare hectares ton tons "
        "tonne tonnes knots erg ergs dyne dynes angstrom angstroms au pc kpc mpc rs rupee rupees "
        "euro euros pence won krw yen kmh kmph kph meals tiles total each approximately about"
    )
)
JOINING = frozenset(("and", "or"))
LOGICAL = {"true": "true", "yes": "true", "false": "false", "no": "false"}
"""Words of which each stands for another one too."""
NUMBER_WORDS = {
    word: str(value)
    for value, word in enumerate(
        word_list(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
            "fifteen sixteen seventeen eighteen nineteen twenty"
        )
    )
}
PROSE = frozenset(
    word_list(
        "where with for if when all any the is are of in on at to by from than some every no not "
        "only exists such that therefore thus so hence then otherwise solution answer final"
    )
)

SMALL_WORDS = frozenset(
    word_list(
        "he she it we you they has had have is are was were the its his her our my for to of so get got gets "
        "him us them be been in on at by only just both now then thus hence who how why what as than from with not i "
        "option options choose chose choice think thinks correct"
    )
)
"""That stand in sentences and never in formulas."""


def is_word(run: str) -> bool:
    """True for letters in a row that are a word of a language, not variables beside one another."""
    if run.lower() in UNITS or run.lower() in OTHER_UNITS or run.lower() in PROSE:
        return True
    return len(run) >= 4 and run[1:].islower() and bool(set("aeiouy") & set(run.lower()))
