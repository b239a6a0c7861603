"""The table of the stores: one row for each step of a saga, the same in the libraries of all
languages."""

POSTGRES = """\
CREATE TABLE IF NOT EXISTS skald_calls (
    id         varchar(600) COLLATE "C" PRIMARY KEY,
    state      text         NOT NULL,
    changed_at bigint       NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX IF NOT EXISTS skald_calls_changed_at ON skald_calls (changed_at);
"""

SQLITE = """\
CREATE TABLE IF NOT EXISTS skald_calls (
    id         text    PRIMARY KEY,
    state      text    NOT NULL,
    changed_at integer NOT NULL
);
CREATE INDEX IF NOT EXISTS skald_calls_changed_at ON skald_calls (changed_at);
"""
