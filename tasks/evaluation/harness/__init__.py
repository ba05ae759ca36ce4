"""Tasks of the lm-evaluation-harness (the extra `harness`), with our backends as its model.

`tasks.py` finds and loads them, `model.py` is the model that the harness sees, `likelihoods.py` keeps what a model says
of given texts, `evaluating.py` runs the harness, and `outcome.py` reads its results as our records.
"""

from tasks.evaluation.harness.harness_outcome import HarnessOutcome as HarnessOutcome
from tasks.evaluation.harness.harness_run import HarnessOptions as HarnessOptions
from tasks.evaluation.harness.harness_run import evaluate_harness as evaluate_harness
from tasks.evaluation.harness.harness_tasks import list_tasks as list_tasks
