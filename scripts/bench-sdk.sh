#!/bin/sh
# Measures the cost of each library for participants, alternating with the same handler without it:
# see make bench-sdk. Nothing else should be running. The packages come from npm and PyPI. Use an
# empty database: the script drops tables in it.
set -eu
cd "$(dirname "$0")/.."
: "${DATABASE_URL:?is the PostgreSQL to measure on, such as postgres://postgres@127.0.0.1:5432/scratch}"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONDONTWRITEBYTECODE=1
TEST_BENCH_DATABASE_URL=$DATABASE_URL ${GO:-go} test -run '^$' -bench BesideAPlainHandler -benchtime 2500x ./api/participant
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT
cp -r sdk/typescript sdk/python "$made"
(cd "$made/typescript" && npm ci --silent && npm run --silent build && node test/cost.mjs)
"${PYTHON:-python3}" -m venv "$made/venv"
"$made/venv/bin/pip" install -q "$made/python" 'psycopg[binary,pool]' gunicorn flask
"$made/venv/bin/python" "$made/python/tests/cost.py"
