
UPDATE jobs.job_runs r
   SET state = 'SUCCEEDED',
       version = r.version + 1,
       finished_at = clock_timestamp(),
       updated_at = clock_timestamp(),
       continuation_state = 'NONE',
       continuation_check_started_at = NULL,
       continuation_check_deadline_at = NULL,
       exit_code = f.exit_code,
       result = f.result::jsonb,
       resource_cpu_seconds_total = coalesce(f.cpu, r.resource_cpu_seconds_total),
       resource_peak_rss_bytes = coalesce(f.rss, r.resource_peak_rss_bytes),
       resource_io_read_bytes = coalesce(f.reads, r.resource_io_read_bytes),
       resource_io_write_bytes = coalesce(f.writes, r.resource_io_write_bytes)
  FROM unnest((SELECT $1::uuid[]), $2::uuid[], $3::uuid[], $4::bigint[], $5::uuid[], $6::bigint[], $7::bigint[], $8::text[], $9::float8[], $10::bigint[], $11::bigint[], $12::bigint[]) WITH ORDINALITY AS f (tenant_id, id, worker, attempt, token, epoch, exit_code, result, cpu, rss, reads, writes, n)
 WHERE r.id = f.id AND r.tenant_id = f.tenant_id AND r.assigned_worker_id = f.worker AND r.attempt = f.attempt
   AND r.lease_token = f.token AND r.leader_epoch = f.epoch AND r.state || '' = 'RUNNING' AND r.saga_id IS NULL AND r.letter_id IS NULL
RETURNING f.n, r.version, r.started_at, r.finished_at, r.concurrency_key IS NOT NULL