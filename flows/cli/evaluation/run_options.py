"""The options of `trivet eval run`, each a field of the configuration under its name in evalchemy or lm_eval."""

from __future__ import annotations

from pathlib import Path

from flows.cli.commands import Flag, Options
from flows.cli.evaluation import other_harnesses

PAIRS = "K=V,…"
MODEL = (
    "Backend: openai, responses, hf, vllm, curator, replay, scripted or package.module.Class; a name from the file "
    "that TRIVET_MODELS names; or auto: what is available here, which is printed."
)
BATCH = "Batch size of a model in this process."
JUDGE = "Model that grades open answers; auto: the benchmark's own choice."
JUDGE_ARGS = "Arguments that open that model: base_url=…,api_key_env=…"
DEVICE = "Device of a model in this process: cpu, cuda:0 …; unset: a GPU if there is one."
OPTIONS = Options(
    "flows.running.evaluation_config:EvaluateConfig",
    {
        "model.backend": Flag("--model -m", default="hf", help=MODEL),
        "tasks": Flag("--tasks -t", type=str, default="", help="Names or paths, separated by commas; see `eval list`."),
        "model.name": Flag("--model-name"),
        "model.args": Flag("--model-args -a", type=str, default="", metavar=PAIRS),
        "model.base_url": Flag(),
        "model.api_key_env": Flag(metavar="NAME"),
        "model.calls.concurrency": Flag(default=None),
        "output_path": Flag("--output-path -o", default=Path("logs")),
        "data_dir": Flag(envvar="TRIVET_DATA_DIR"),
        "include_path": Flag(),
        "settings.limit": Flag("--limit -L", type=float, default=None, metavar="N|0.X", callback=other_harnesses.limit),
        "model.args.batch_size": Flag("--batch-size -b", default="auto", metavar="N|auto", help=BATCH),
        "settings.max_tokens": Flag(),
        "settings.n_repeat": Flag(),
        "settings.ks": Flag("--k", type=str, default=None, metavar="N,…"),
        "settings.extract": Flag(),
        "settings.unsafe_code": Flag(),
        "settings.gen_kwargs": Flag(type=str, default="", metavar=PAIRS),
        "settings.seed": Flag(type=str, metavar="A,B,C,D"),
        "judge.name": Flag("--annotator-model", type=str, default="auto", metavar="auto|NAME", help=JUDGE),
        "judge.args": Flag("--annotator-args", type=str, default="", metavar=PAIRS, help=JUDGE_ARGS),
        "settings.apply_chat_template": Flag(type=str, default="True", metavar="[True|False|NAME]"),
        "settings.system_instruction": Flag(),
        "settings.num_fewshot": Flag("--num-fewshot -f"),
        "settings.fewshot_as_multiturn": Flag(),
        "settings.demonstrations": Flag(metavar="HOW:N"),
        "model.args.device": Flag(default=None, help=DEVICE),
        "model.args.trust_remote_code": Flag(type=bool, default=False, help="Run code that comes with a model."),
        "data_parallel": Flag(),
        "spending.max_calls": Flag(),
        "spending.max_cost": Flag(),
        "spending.prices": Flag("--price", type=str, metavar="PROMPT,ANSWER"),
        "save": Flag(),
        "overwrite": Flag("--overwrite --overwrite-database"),
        "settings.debug": Flag(),
    },
)
"""All of them may also stand in the YAML file of --config."""
