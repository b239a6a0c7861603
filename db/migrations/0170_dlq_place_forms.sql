-- Two nodes may store the same record of Kafka at the same moment, one at a place with
-- the id of its topic and one (of the last version, or of a broker that does not tell)
-- at a place without: no index has both. So those who store with ids, and those who
-- store without, take turns (docs/decisions/0044): each looks for what the other has
-- stored only after it has locked dlq.dlq_inflows, in a mode that the other's excludes
-- and that of its own kind does not. Nobody waits as long as there is one kind.

-- +migrate Up

-- dlq.lock_places has a transaction wait until nobody stores places of another form
-- than those of p_lives.
-- +migrate StatementBegin
CREATE FUNCTION dlq.lock_places(p_lives uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE
    without CONSTANT boolean := '00000000-0000-0000-0000-000000000000' = ANY (p_lives);
    with_id CONSTANT boolean := '00000000-0000-0000-0000-000000000000' <> ANY (p_lives);
BEGIN
    IF without AND with_id THEN
        LOCK TABLE dlq.dlq_inflows IN SHARE ROW EXCLUSIVE MODE;
    ELSIF without THEN
        LOCK TABLE dlq.dlq_inflows IN SHARE MODE;
    ELSIF with_id THEN
        LOCK TABLE dlq.dlq_inflows IN ROW EXCLUSIVE MODE;
    END IF;
END;
$$;
-- +migrate StatementEnd

-- dlq.places_in_doubt locks, and then counts stretches of partitions of which
-- something is in the archive, or at a place where one side does not know the topic's
-- id. It is volatile, so it sees what was committed while it waited for the lock.
-- +migrate StatementBegin
CREATE FUNCTION dlq.places_in_doubt(p_tenants uuid[], p_topics text[], p_partitions bigint[], p_firsts bigint[], p_lasts bigint[], p_lives uuid[])
RETURNS bigint LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog AS $$
BEGIN
    PERFORM dlq.lock_places(p_lives);
    RETURN (
        SELECT count(*)
          FROM unnest(p_tenants, p_topics, p_partitions, p_firsts, p_lasts, p_lives) AS s (tenant_id, topic, part, first, last, life)
         CROSS JOIN LATERAL (
            (SELECT a.id FROM dlq.dlq_messages_archive a
              WHERE a.tenant_id = s.tenant_id AND a.dlq_topic = s.topic AND a.dlq_partition = s.part AND a.dlq_offset BETWEEN s.first AND s.last
                AND (a.dlq_topic_id = s.life OR a.dlq_topic_id = '00000000-0000-0000-0000-000000000000'
                     OR s.life = '00000000-0000-0000-0000-000000000000' OR substr(a.dlq_topic_id::text, 15, 1) = '8')
              LIMIT 1)
            UNION ALL
            (SELECT m.id FROM dlq.dlq_messages m
              WHERE m.tenant_id = s.tenant_id AND m.dlq_topic = s.topic AND m.dlq_partition = s.part AND m.dlq_offset BETWEEN s.first AND s.last
                AND (m.dlq_topic_id = '00000000-0000-0000-0000-000000000000'
                     OR s.life = '00000000-0000-0000-0000-000000000000' OR substr(m.dlq_topic_id::text, 15, 1) = '8')
              LIMIT 1)) AS there);
END;
$$;
-- +migrate StatementEnd

-- A node of the last version does not ask. It waits here, before
-- trg_dlq_messages_known_place looks; whoever inserts may have no right to lock.
-- +migrate StatementBegin
CREATE FUNCTION dlq.lock_place_without_id() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    LOCK TABLE dlq.dlq_inflows IN SHARE MODE;
    RETURN NEW;
END;
$$;
-- +migrate StatementEnd
CREATE TRIGGER trg_dlq_messages_known_form BEFORE INSERT ON dlq.dlq_messages
    FOR EACH ROW WHEN (NEW.dlq_topic IS NOT NULL AND NEW.dlq_topic_id = '00000000-0000-0000-0000-000000000000')
    EXECUTE FUNCTION dlq.lock_place_without_id();

SELECT saga.secure_tables();
INSERT INTO saga.saga_schema_version (version, description) VALUES (170, 'places in Kafka with and without topic ids take turns');

-- +migrate Down
DELETE FROM saga.saga_schema_version WHERE version = 170;
DROP TRIGGER trg_dlq_messages_known_form ON dlq.dlq_messages;
DROP FUNCTION dlq.lock_place_without_id();
DROP FUNCTION dlq.places_in_doubt(uuid[], text[], bigint[], bigint[], bigint[], uuid[]);
DROP FUNCTION dlq.lock_places(uuid[]);
