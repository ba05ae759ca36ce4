"""The tables of storage.tables, and views of them for analysts.

Its number is that of the last of nine migrations, which left the same tables, and two that nobody reads: their
databases are at the head.
"""

from alembic import op

from storage.tables import metadata

revision = "0009"
down_revision = None

LEADERBOARD = """
    select m.name as model, m.revision, m.backend, t.task, d.name as dataset, d.checksum as dataset_checksum,
        s.parameters as settings, r.metric,
        rank() over (
            partition by t.task, t.dataset, t.settings, r.metric
            order by case when r.higher_is_better then -r.value else r.value end
        ) as rank,
        r.value as score, r.std_err, r.low, r.high, r.n as items, (t.counts ->> 'unscored')::integer as unscored,
        (t.usage ->> 'prompt_tokens')::bigint as prompt_tokens,
        (t.usage ->> 'completion_tokens')::bigint as completion_tokens,
        (t.usage ->> 'cost')::double precision as cost, t.run, t.status as run_status, t.ended_at
    from (
        select eval_tasks.*, eval_runs.model, eval_runs.status, eval_runs.ended_at, row_number() over (
            partition by eval_runs.model, eval_tasks.task, eval_tasks.settings
            order by (eval_runs.status = 'completed') desc,
                coalesce(eval_runs.ended_at, eval_runs.started_at) desc, eval_runs.id
        ) as place
        from eval_tasks join eval_runs on eval_runs.id = eval_tasks.run
        where eval_runs.status <> 'running' and eval_runs.model is not null
    ) t
    join models m on m.id = t.model
    join datasets d on d.id = t.dataset
    join eval_settings s on s.digest = t.settings
    join eval_results r on r.run = t.run and r.task = t.task and r.dataset = t.dataset
    where t.place = 1 and r.headline and r.part = ''"""
ITEMS = """
    select x.run, m.name as model, m.revision, m.backend, x.task, x.item, x.repeat, x.item_group, x.status, x.score,
        x.extracted, x.gold, x.reason, x.truncated, x.missing, x.figures, cardinality(x.response_keys) as calls,
        r.started_at
    from samples x
    join eval_runs r on r.id = x.run
    left join models m on m.id = r.model"""
CALLS = """
    select x.run, x.task, x.item, x.repeat, k.number, k.key, a.backend, a.model, a.prompt_tokens, a.completion_tokens,
        a.latency_s, a.created_at
    from samples x
    cross join lateral unnest(x.response_keys) with ordinality as k (key, number)
    left join responses a on a.key = k.key"""
COSTS = """
    select t.run, m.name as model, m.backend, t.task, u.role, u.answered_by, (u.usage ->> 'calls')::integer as calls,
        (u.usage ->> 'recalled')::integer as recalled, (u.usage ->> 'prompt_tokens')::bigint as prompt_tokens,
        (u.usage ->> 'completion_tokens')::bigint as completion_tokens,
        (u.usage ->> 'latency_s')::double precision as latency_s, (u.usage ->> 'cost')::double precision as cost,
        r.calls as run_calls, r.cost as run_cost, r.started_at
    from eval_tasks t
    join eval_runs r on r.id = t.run
    left join models m on m.id = r.model
    cross join lateral (values ('model', m.name, t.usage), ('judge', t.judge, t.judge_usage))
        as u (role, answered_by, usage)
    where u.usage is not null"""

MODEL = {
    "model": "Name of the measured model.",
    "revision": "Commit or fingerprint of its weights; empty if unknown.",
    "backend": "What ran it: openai, hf, vllm, replay …",
}
TOKENS = {
    "prompt_tokens": "Tokens of the prompts; null if the backend does not count them.",
    "completion_tokens": "Tokens of the answers.",
}
SAMPLE = {"run": "Run ID.", "task": "Benchmark.", "item": "ID of the item.", "repeat": "Repeat, from 0."}
VIEWS = {
    "leaderboard": (
        LEADERBOARD,
        "The headline of the latest run of each model on each task, per settings.",
        {
            **MODEL,
            "task": "Benchmark.",
            "dataset": "Name of its data.",
            "dataset_checksum": "SHA-256 of the data files.",
            "settings": "All besides model and data that can change a figure; only equal ones are ranked together.",
            "metric": "What the score is.",
            "rank": "From 1 among equal task, data and settings; equal scores share a rank.",
            "score": "Mean over items of the mean over repeats.",
            "std_err": "Standard error, clustered by item.",
            "low": "Lower end of the 95 % interval.",
            "high": "Upper end of the 95 % interval.",
            "items": "Items behind the score.",
            "unscored": "Samples whose grader failed; they are in no score.",
            **TOKENS,
            "cost": "Cost of the answers, in the currency of the prices; null without prices.",
            "run": "Run ID.",
            "run_status": "completed or failed.",
            "ended_at": "End of the run.",
        },
    ),
    "items": (
        ITEMS,
        "Every graded answer.",
        {
            **SAMPLE,
            **MODEL,
            "item_group": "Subject, level or category of the item.",
            "status": "scored or unscored.",
            "score": "0 to 1 for right and wrong, the judge's scale for ratings; null if unscored.",
            "extracted": "The answer that was read; null if there was none.",
            "gold": "The right answer.",
            "reason": "What decided the score.",
            "truncated": "The answer was cut off at max_tokens.",
            "missing": "No answer was found.",
            "figures": "Further figures of the answer, by name.",
            "calls": "Model calls behind it, the judge's included.",
            "started_at": "Start of the run.",
        },
    ),
    "calls": (
        CALLS,
        "Every model call behind a graded answer; request and response are in `responses` under the key.",
        {
            **SAMPLE,
            "number": "From 1: the turns of the answer, then the judge's.",
            "key": "Key in `responses`.",
            "backend": "What ran the model; null if the call is no longer kept.",
            "model": "Model and revision that answered.",
            **TOKENS,
            "latency_s": "Time for the answer, in seconds.",
            "created_at": "Time at which it was stored.",
        },
    ),
    "costs": (
        COSTS,
        "Calls, tokens and cost of each task of a run, of the model and of its judge.",
        {
            "run": "Run ID.",
            "model": MODEL["model"],
            "backend": MODEL["backend"],
            "task": "Benchmark.",
            "role": "model or judge.",
            "answered_by": "Name of the model or of the judge.",
            "calls": "Answers, recalled ones included.",
            "recalled": "Answers that the store had already.",
            **TOKENS,
            "latency_s": "Seconds, summed over calls.",
            "cost": "Cost of all these calls when they were made; null without prices.",
            "run_calls": "Calls that the whole run made, without recalled ones.",
            "run_cost": "What the whole run spent.",
            "started_at": "Start of the run.",
        },
    ),
}
"""Name → query, comment, and a comment for each column."""


def upgrade() -> None:
    """Make them all; the migration that comes next writes down here what the tables were before it."""
    metadata.create_all(op.get_bind())
    for name, (query, comment, columns) in VIEWS.items():
        op.execute(f"create view {name} as {query}")
        op.execute(f"comment on view {name} is {_quoted(comment)}")
        for column, meaning in columns.items():
            op.execute(f"comment on column {name}.{column} is {_quoted(meaning)}")


def _quoted(words: str) -> str:
    return "'" + words.replace("'", "''").replace(":", r"\:") + "'"
