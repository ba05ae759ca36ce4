"""Lineage: the steps that ran, what they used and made, and what of that is gone."""

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Three new tables."""
    op.execute("""
        create table lineage_steps (
            key text primary key, step text not null, run text not null, code text not null, parameters text not null,
            version integer not null, at timestamptz not null, seconds double precision not null
        )""")
    op.execute("""
        create table lineage_edges (
            key text, item integer, made boolean, digest text, kind text not null, name text not null,
            primary key (key, item, made, digest)
        )""")
    op.create_index("lineage_edges_digest_made", "lineage_edges", ["digest", "made"])
    op.execute("create table lineage_collected (digest text primary key, at timestamptz not null)")
