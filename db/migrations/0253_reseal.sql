-- Content that is sealed again with another key (decision 0057) is the same content:
-- whoever does it sets skald.resealing, and the row keeps its updated_at; an ended saga
-- lets it pass, as long as nothing but sealed content changes.

-- +migrate Up
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.update_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_setting('skald.resealing', true) = 'on' THEN
        RETURN NEW;
    END IF;
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.update_saga_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_setting('skald.resealing', true) = 'on' THEN
        RETURN NEW;
    END IF;
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION dlq.update_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF current_setting('skald.resealing', true) = 'on' THEN
        RETURN NEW;
    END IF;
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd

-- Whether b is a in which nothing has changed but sealed values, which stay sealed.
-- +migrate StatementBegin
CREATE FUNCTION saga.same_but_resealed(a jsonb, b jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
    SELECT regexp_replace(a::text, '"\$skald_enc": "v1\.[^"]*"', '"$skald_enc"', 'g')
         = regexp_replace(b::text, '"\$skald_enc": "v1\.[^"]*"', '"$skald_enc"', 'g')
$$;
-- +migrate StatementEnd

-- As in 0220, and sealed content may be sealed again. Before an update generated columns
-- have no value yet.
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_transition() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    generated text[];
BEGIN
    IF NEW.payload = '{"$skald_erased": true}' AND NEW.state = OLD.state AND NEW.version = OLD.version + 1
       AND OLD.completed_at IS NOT NULL AND NEW.completed_at = OLD.completed_at THEN
        RETURN NEW;
    END IF;
    IF current_setting('skald.resealing', true) = 'on' THEN
        SELECT coalesce(array_agg(attname::text), '{}') INTO generated FROM pg_attribute WHERE attrelid = TG_RELID AND attgenerated <> '';
        IF saga.same_but_resealed(to_jsonb(OLD) - generated, to_jsonb(NEW) - generated) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION 'saga %: state % cannot become %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (253, 'content that is sealed again');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 253;
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.refuse_transition() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF NEW.payload = '{"$skald_erased": true}' AND NEW.state = OLD.state AND NEW.version = OLD.version + 1
       AND OLD.completed_at IS NOT NULL AND NEW.completed_at = OLD.completed_at THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'saga %: state % cannot become %', OLD.id, OLD.state, NEW.state USING ERRCODE = 'check_violation';
END;
$$;
-- +migrate StatementEnd
DROP FUNCTION saga.same_but_resealed(jsonb, jsonb);
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION dlq.update_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.update_saga_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
-- +migrate StatementBegin
CREATE OR REPLACE FUNCTION saga.update_updated_at() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    NEW.updated_at = now();
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
SELECT saga.secure_tables();
