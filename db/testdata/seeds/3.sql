-- Seed 3, 002 and 003, in a schema of its own.
CREATE SCHEMA seed3;
CREATE FUNCTION seed3.update_updated_at() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at = NOW(); RETURN NEW; END; $$;
CREATE TABLE IF NOT EXISTS seed3.dlq_messages (
    id              UUID        PRIMARY KEY DEFAULT gen_random_uuid(),
    original_topic  VARCHAR(255) NOT NULL,
    error_message   TEXT         NOT NULL,
    retry_count     INT          NOT NULL DEFAULT 0,
    max_retries     INT          NOT NULL DEFAULT 3,
    payload         JSONB,
    status          VARCHAR(50)  NOT NULL DEFAULT 'PENDING',
    created_at      TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    updated_at      TIMESTAMPTZ  NOT NULL DEFAULT NOW(),
    last_retry_at   TIMESTAMPTZ,

    CONSTRAINT chk_dlq_messages_status CHECK (status IN ('PENDING', 'RETRYING', 'RESOLVED', 'DEAD'))
);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_original_topic ON seed3.dlq_messages (original_topic);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_status ON seed3.dlq_messages (status);
CREATE INDEX IF NOT EXISTS idx_dlq_messages_created_at ON seed3.dlq_messages (created_at);
CREATE TRIGGER trg_dlq_messages_updated_at
    BEFORE UPDATE ON seed3.dlq_messages
    FOR EACH ROW
    EXECUTE FUNCTION seed3.update_updated_at();
CREATE TABLE IF NOT EXISTS seed3.dlq_messages_archive (
    LIKE seed3.dlq_messages INCLUDING ALL
);
