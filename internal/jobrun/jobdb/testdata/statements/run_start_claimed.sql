
UPDATE jobs.job_runs r
   SET state = 'RUNNING', version = r.version + 1, started_at = clock_timestamp(), updated_at = clock_timestamp(),
       lease_expires_at = clock_timestamp() + $4 * interval '1 microsecond'
  FROM unnest($2::uuid[], $3::uuid[]) AS f (id, worker)
 WHERE r.id = f.id
   AND r.tenant_id = $1
   AND r.assigned_worker_id = f.worker
   AND r.state || '' = 'ASSIGNED'
RETURNING r.id, r.version, r.started_at, r.lease_expires_at