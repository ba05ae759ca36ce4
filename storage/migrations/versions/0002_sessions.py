"""Conversations and their turns."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """A row per conversation, and one per answered question."""
    op.execute("""
        create table chat_sessions (
            id text primary key, title text, index_path text not null,
            created_at timestamptz not null default now(), updated_at timestamptz not null default now()
        )""")
    op.create_index("chat_sessions_index_path_updated_at", "chat_sessions", ["index_path", "updated_at"])
    op.execute("""
        create table chat_turns (
            session_id text references chat_sessions on delete cascade, n integer,
            question text not null, answered jsonb not null,
            created_at timestamptz not null default now(),
            primary key (session_id, n)
        )""")
