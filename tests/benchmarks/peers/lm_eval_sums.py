"""Sums through the lm-evaluation-harness: `lm_eval_sums.py DATA.jsonl ITEMS [BASE_URL CONCURRENCY]`.

They are answered at once by its dummy model, or by an endpoint.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager

TASK = """
task: sums
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{problem}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 32}}
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
"""


def main() -> None:
    """Run it."""
    asked: dict[str, Any] = {"model": "dummy"}
    if sys.argv[3:]:
        url, concurrency = sys.argv[3:]
        arguments = {"model": "bench", "base_url": f"{url}/chat/completions", "num_concurrent": int(concurrency)}
        asked = {"model": "local-chat-completions", "model_args": arguments | {"tokenizer_backend": None}}
        asked["apply_chat_template"] = True
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sums.yaml").write_text(TASK.format(data=sys.argv[1]))
        tasks = TaskManager(include_path=folder, include_defaults=False)
        found: Any = simple_evaluate(**asked, tasks=["sums"], task_manager=tasks, limit=int(sys.argv[2]))
    assert found["results"]["sums"]


if __name__ == "__main__":
    main()
