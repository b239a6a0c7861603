-- Where the error of a saga that did not simply complete is: at which step, in which
-- direction, with which code; and since when it needs attention. Lists filter by it and
-- GET /saga-errors groups by it (decision 0071).
--
-- A trigger writes it, so that the statement of a transition stays as it is: it acts only
-- when a saga turns back, ends otherwise than completed, is reopened, or begins or ceases
-- to need attention. error_step, error_action and error_code are set only while the saga
-- has such an end, by an update that no index spares anyway; turned_at_step, which is
-- written in the middle of a saga's life, must not be in an index.

-- +migrate Up
ALTER TABLE saga.saga_states
    ADD COLUMN turned_at_step  integer,      -- the step in flight when it turned back
    ADD COLUMN error_step      varchar(255),
    ADD COLUMN error_action    varchar(10),
    ADD COLUMN error_code      varchar(255),
    ADD COLUMN attention_since timestamptz;
ALTER TABLE saga.saga_states_archive
    ADD COLUMN turned_at_step  integer,
    ADD COLUMN error_step      varchar(255),
    ADD COLUMN error_action    varchar(10),
    ADD COLUMN error_code      varchar(255),
    ADD COLUMN attention_since timestamptz;

-- +migrate StatementBegin
CREATE FUNCTION saga.note_error() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    at_step integer;
BEGIN
    IF NEW.needs_attention <> OLD.needs_attention THEN
        NEW.attention_since := CASE WHEN NEW.needs_attention THEN NEW.updated_at END;
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF NEW.state <= 3 THEN
        NEW.turned_at_step := NULL;
    ELSIF OLD.state < 3 THEN
        NEW.turned_at_step := OLD.current_step;
    END IF;
    IF NEW.state NOT IN (5, 6, 7, 8) THEN
        NEW.error_step := NULL;
        NEW.error_action := NULL;
        NEW.error_code := NULL;
        RETURN NEW;
    END IF;
    -- FAILED while compensating: an undo gave up. Every other end is that of the step where it turned back.
    IF NEW.state = 6 AND OLD.state = 4 THEN
        at_step := NEW.current_step;
        NEW.error_action := 'COMPENSATE';
    ELSE
        at_step := NEW.turned_at_step;
        NEW.error_action := 'EXECUTE';
    END IF;
    NEW.error_code := left(NEW.error->>'code', 255);
    NEW.error_step := left((SELECT d.definition->'steps'->at_step->>'name' FROM saga.workflow_definitions d
        WHERE d.tenant_id = NEW.tenant_id AND d.name = NEW.workflow_name AND d.version = NEW.workflow_version), 255);
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd

-- What is there already: the step where a saga turned back is the last one that was
-- called. The other triggers would take this for changes of the sagas.
ALTER TABLE saga.saga_states DISABLE TRIGGER USER;
UPDATE saga.saga_states s
   SET turned_at_step = coalesce((SELECT l.step_index FROM saga.saga_step_logs l
            WHERE l.saga_id = s.id AND l.tenant_id = s.tenant_id AND l.action = 'EXECUTE' ORDER BY l.step_index DESC LIMIT 1), 0)
 WHERE s.ended_state <> 3 OR s.completed_at IS NULL AND s.state = 4;
UPDATE saga.saga_states s
   SET error_step = left(d.definition->'steps'->CASE WHEN s.ended_state = 6 THEN s.current_step ELSE s.turned_at_step END->>'name', 255),
       error_action = CASE WHEN s.ended_state = 6 THEN 'COMPENSATE' ELSE 'EXECUTE' END,
       error_code = left(s.error->>'code', 255)
  FROM saga.workflow_definitions d
 WHERE s.ended_state <> 3 AND d.tenant_id = s.tenant_id AND d.name = s.workflow_name AND d.version = s.workflow_version;
UPDATE saga.saga_states s SET attention_since = coalesce(s.completed_at, s.updated_at) WHERE s.needs_attention;
ALTER TABLE saga.saga_states ENABLE TRIGGER USER;

CREATE TRIGGER note_error BEFORE UPDATE ON saga.saga_states
    FOR EACH ROW WHEN (NEW.state <> OLD.state AND (NEW.state > 3 OR OLD.state > 3) OR NEW.needs_attention <> OLD.needs_attention)
    EXECUTE FUNCTION saga.note_error();

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (263, 'where the errors of sagas are');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 263;
DROP TRIGGER note_error ON saga.saga_states;
DROP FUNCTION saga.note_error();
ALTER TABLE saga.saga_states DROP COLUMN turned_at_step, DROP COLUMN error_step, DROP COLUMN error_action,
    DROP COLUMN error_code, DROP COLUMN attention_since;
ALTER TABLE saga.saga_states_archive DROP COLUMN turned_at_step, DROP COLUMN error_step, DROP COLUMN error_action,
    DROP COLUMN error_code, DROP COLUMN attention_since;
