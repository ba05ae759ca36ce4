"""Digit-pair VQA: a world in which choosing demonstrations matters, small enough for a CPU.

Pictures show two handwritten digits; a secret lexicon names each digit by an invented word; the judge, a small
transformer that saw another lexicon in every sequence of its training, can only answer by reading demonstrations.

scenes.py            the words and the three questions, and pictures of two digits as PNG
world.py             the data folder in the official VQA format
net.py               the judge's network
digits_training.py   trains it, in half a minute
digits_judge.py      the judge as a chat model, and its vision tower as an encoder
"""
