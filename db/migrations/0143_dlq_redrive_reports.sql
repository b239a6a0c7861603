-- What a redrive tells of itself: what its guard counts since somebody let it go on,
-- that it halted, what has reached the targets, and since when nothing moves.

-- +migrate Up
ALTER TABLE dlq.dlq_redrives
    -- Counts at the last resume after a halt: stop_on counts from there.
    ADD COLUMN done_before   bigint NOT NULL DEFAULT 0,
    ADD COLUMN failed_before bigint NOT NULL DEFAULT 0,
    ADD COLUMN halts            integer     NOT NULL DEFAULT 0,
    ADD COLUMN last_halt_reason varchar(30) NOT NULL DEFAULT '',
    ADD COLUMN last_halted_at   timestamptz,
    -- Letters: sent ones were answered, of maybe_sent ones nobody knows, repeated
    -- ones were handed over once more after a node had died.
    ADD COLUMN sent       bigint NOT NULL DEFAULT 0,
    ADD COLUMN maybe_sent bigint NOT NULL DEFAULT 0,
    ADD COLUMN repeated   bigint NOT NULL DEFAULT 0,
    ADD COLUMN progress_at   timestamptz,                 -- when a letter was last done, failed or skipped
    ADD COLUMN waiting_for   varchar(300) NOT NULL DEFAULT '', -- what a node waits for, as it said
    ADD COLUMN waiting_at    timestamptz,                 -- at this time
    ADD COLUMN last_error    text         NOT NULL DEFAULT '', -- of the last send that failed
    ADD COLUMN last_error_at timestamptz;
-- How often a letter was handed over in this redrive.
ALTER TABLE dlq.dlq_redrive_items ADD COLUMN hands integer NOT NULL DEFAULT 0;
-- What the version before has done was acknowledged. Of what failed it did not keep
-- whether anything was sent.
UPDATE dlq.dlq_redrives SET sent = done, maybe_sent = failed WHERE action = 'RETRY';
UPDATE dlq.dlq_redrives SET halts = 1, last_halt_reason = halt_reason, last_halted_at = updated_at WHERE state = 'HALTED';
INSERT INTO saga.saga_schema_version (version, description) VALUES (143, 'what redrives tell of themselves');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 143;
ALTER TABLE dlq.dlq_redrive_items DROP COLUMN hands;
ALTER TABLE dlq.dlq_redrives
    DROP COLUMN done_before, DROP COLUMN failed_before, DROP COLUMN halts, DROP COLUMN last_halt_reason, DROP COLUMN last_halted_at,
    DROP COLUMN sent, DROP COLUMN maybe_sent, DROP COLUMN repeated, DROP COLUMN progress_at, DROP COLUMN waiting_for, DROP COLUMN waiting_at,
    DROP COLUMN last_error, DROP COLUMN last_error_at;
