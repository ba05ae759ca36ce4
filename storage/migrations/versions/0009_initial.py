"""The tables of storage.tables, and views of them for analysts.

Its number is that of the last of nine migrations, which left the same tables, and two that nobody reads: their
databases are at the head.
"""

from alembic import op

from storage.tables import metadata

revision = "0009"
down_revision = None

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

VIEWS = {
    "items": (ITEMS, "Every graded answer."),
    "calls": (CALLS, "Every model call behind a graded answer; its request is in `responses` under the key."),
    "costs": (COSTS, "Calls, tokens and cost of each task of a run, of the model and of its judge."),
}
"""Name → query and comment."""


def upgrade() -> None:
    """Make them all; the migration that comes next writes down here what the tables were before it."""
    metadata.create_all(op.get_bind())
    for name, (query, comment) in VIEWS.items():
        op.execute(f"create view {name} as {query}")
        op.execute(f"comment on view {name} is '{comment}'")
