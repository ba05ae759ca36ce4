from typing import Any
def answer_of(found: Any): return None
