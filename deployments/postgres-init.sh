#!/bin/sh
# Two databases, each with an account of its own: Prefect's, and that of results.
set -eu
psql --username postgres --set ON_ERROR_STOP=1 --set prefect="$PREFECT_DB_PASSWORD" --set trivet="$TRIVET_DB_PASSWORD" <<'SQL'
CREATE ROLE prefect LOGIN PASSWORD :'prefect';
CREATE DATABASE prefect OWNER prefect;
CREATE ROLE trivet LOGIN PASSWORD :'trivet';
CREATE DATABASE trivet OWNER trivet;
\connect prefect
CREATE EXTENSION IF NOT EXISTS pg_trgm;
SQL
