"""Digit-pair VQA: a world in which choosing demonstrations matters, small enough for a CPU.

Pictures show two handwritten digits; a secret lexicon names each digit by an invented word; the judge, a small
transformer that saw another lexicon in every sequence of its training, can only answer by reading demonstrations.
"""
