#!/bin/sh
# Packs the library as a wheel, installs it into a new environment with psycopg, hypothesis and
# mypy from PyPI, and runs all tests there on the PostgreSQL at DATABASE_URL; see make test-sdk.
# PYTHON is the interpreter.
set -eu
cd "$(dirname "$0")"
: "${DATABASE_URL:?is the PostgreSQL of the tests}"
export PYTHONDONTWRITEBYTECODE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 TEST_SDK=all SEQUENCES="${SEQUENCES:-10000}"
unset PYTHONPATH
env=$(mktemp -d)
trap 'rm -rf "$env"' EXIT
"${PYTHON:-python3}" -m venv "$env/venv"
"$env/venv/bin/pip" wheel -q --no-deps -w "$env" .
ls -l "$env"/*.whl
"$env/venv/bin/pip" install -q "$(ls "$env"/*.whl)[psycopg]" 'psycopg[binary]' hypothesis mypy
"$env/venv/bin/mypy" --strict src example
# The tests use the installed package: the folder src is not on the path.
"$env/venv/bin/python" -c 'import skald_participant; assert "site-packages" in skald_participant.__file__'
"$env/venv/bin/python" -m unittest discover -t . -s tests
