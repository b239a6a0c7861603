-- Content of clients is compressed with LZ4 where the server has it (docs/decisions/0168): with payloads of 100 kB,
-- PostgreSQL spent half of its time on its own method. Rows that are stored keep theirs, and both can be read by
-- every version of Skald. The archives get values as the live tables have compressed them.

-- +migrate Up
-- +migrate StatementBegin
DO $$
BEGIN
    IF (SELECT 'lz4' = ANY (enumvals) FROM pg_settings WHERE name = 'default_toast_compression') THEN
        ALTER TABLE saga.saga_states
            ALTER COLUMN payload SET COMPRESSION lz4,
            ALTER COLUMN metadata SET COMPRESSION lz4,
            ALTER COLUMN result_data SET COMPRESSION lz4;
        ALTER TABLE saga.saga_step_logs
            ALTER COLUMN request_payload SET COMPRESSION lz4,
            ALTER COLUMN response_payload SET COMPRESSION lz4;
        ALTER TABLE saga.idempotency_answers
            ALTER COLUMN body SET COMPRESSION lz4;
        ALTER TABLE jobs.job_runs
            ALTER COLUMN args SET COMPRESSION lz4,
            ALTER COLUMN result SET COMPRESSION lz4,
            ALTER COLUMN progress SET COMPRESSION lz4,
            ALTER COLUMN checkpoint SET COMPRESSION lz4;
        ALTER TABLE dlq.dlq_messages
            ALTER COLUMN payload SET COMPRESSION lz4,
            ALTER COLUMN payload_raw SET COMPRESSION lz4,
            ALTER COLUMN headers SET COMPRESSION lz4,
            ALTER COLUMN error_stack SET COMPRESSION lz4;
    END IF;
END
$$;
-- +migrate StatementEnd

INSERT INTO saga.saga_schema_version (version, description) VALUES (474, 'content compressed with LZ4');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 474;
-- +migrate StatementBegin
DO $$
BEGIN
    IF current_setting('default_toast_compression', true) IS NOT NULL THEN
        ALTER TABLE saga.saga_states
            ALTER COLUMN payload SET COMPRESSION default,
            ALTER COLUMN metadata SET COMPRESSION default,
            ALTER COLUMN result_data SET COMPRESSION default;
        ALTER TABLE saga.saga_step_logs
            ALTER COLUMN request_payload SET COMPRESSION default,
            ALTER COLUMN response_payload SET COMPRESSION default;
        ALTER TABLE saga.idempotency_answers
            ALTER COLUMN body SET COMPRESSION default;
        ALTER TABLE jobs.job_runs
            ALTER COLUMN args SET COMPRESSION default,
            ALTER COLUMN result SET COMPRESSION default,
            ALTER COLUMN progress SET COMPRESSION default,
            ALTER COLUMN checkpoint SET COMPRESSION default;
        ALTER TABLE dlq.dlq_messages
            ALTER COLUMN payload SET COMPRESSION default,
            ALTER COLUMN payload_raw SET COMPRESSION default,
            ALTER COLUMN headers SET COMPRESSION default,
            ALTER COLUMN error_stack SET COMPRESSION default;
    END IF;
END
$$;
-- +migrate StatementEnd
