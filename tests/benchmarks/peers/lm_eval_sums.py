"""Sums through the lm-evaluation-harness: `lm_eval_sums.py DATA.jsonl ITEMS [BASE_URL CONCURRENCY]`.

They are answered at once by its dummy model; or its own command asks an endpoint.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}

from lm_eval.__main__ import cli_evaluate
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
    data, items, *endpoint = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sums.yaml").write_text(TASK.format(data=data))
        if endpoint:
            url, concurrency = endpoint
            model = f"model=bench,base_url={url}/chat/completions,num_concurrent={concurrency},tokenizer_backend=None"
            words = ["--model", "local-chat-completions", "--model_args", model, "--tasks", "sums", "--limit", items]
            sys.argv[1:] = [*words, "--include_path", folder, "--apply_chat_template"]
            cli_evaluate()
            return
        tasks = TaskManager(include_path=folder, include_defaults=False)
        found: Any = simple_evaluate(model="dummy", tasks=["sums"], task_manager=tasks, limit=int(items))
    assert found["results"]["sums"]


if __name__ == "__main__":
    main()
