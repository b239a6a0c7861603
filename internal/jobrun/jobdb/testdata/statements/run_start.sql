
UPDATE jobs.job_runs r
   SET state = 'RUNNING',
       version = r.version + 1,
       started_at = clock_timestamp(),
       updated_at = clock_timestamp(),
       leader_epoch = f.epoch,
       lease_expires_at = clock_timestamp() + $7 * interval '1 microsecond'
  FROM unnest((SELECT $1::uuid[]), $2::uuid[], $3::uuid[], $4::bigint[], $5::uuid[], $6::bigint[]) WITH ORDINALITY AS f (tenant_id, id, worker, attempt, token, epoch, n)
 WHERE r.id = f.id AND r.tenant_id = f.tenant_id AND r.assigned_worker_id = f.worker AND r.attempt = f.attempt
   AND r.lease_token = f.token AND r.leader_epoch = f.epoch AND r.state || '' = 'ASSIGNED'
RETURNING f.n, r.version, r.started_at, r.lease_expires_at