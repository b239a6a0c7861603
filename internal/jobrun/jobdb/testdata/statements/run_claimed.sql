
SELECT r.id, r.tenant_id, r.definition_id, r.definition_name, r.spec_version, r.command_name, r.version, r.state, r.trigger, r.scheduled_for, r.available_at, r.admitted_at, r.queue, r.priority, r.required_labels, r.labels, r.args, r.idempotency_key, r.concurrency_key, r.concurrency_policy, r.timeout_ms, r.attempt, r.failures_used, r.losses_used, r.max_losses, r.assigned_worker_id, r.assigned_at, r.lease_token, r.lease_expires_at, r.leader_epoch, r.fencing_seq, r.started_at, r.finished_at, r.continuation_state, r.continuation_check_started_at, r.continuation_check_deadline_at, r.cancel_requested_at, r.cancel_reason, r.progress, r.checkpoint, r.exit_code, r.result, r.error, r.resource_cpu_seconds_total, r.resource_peak_rss_bytes, r.resource_io_read_bytes, r.resource_io_write_bytes, r.log_bytes, r.log_ref, r.log_sha256, r.root_run_id, r.retry_of_run_id, r.retry_number, r.saga_id, r.saga_step, r.saga_action, r.event_id, r.letter_id, r.backfill_id, r.correlation_id, r.trace_id, r.tracestate, r.baggage, r.created_at, r.updated_at, r.initiated_by, r.initiated_as, greatest(1, extract(epoch FROM r.lease_expires_at - clock_timestamp()) * 1000000)::bigint
  FROM jobs.claims k
 CROSS JOIN LATERAL unnest(k.run_ids) AS f (id)
  JOIN jobs.job_runs r ON r.id = f.id AND r.tenant_id = k.tenant_id
 WHERE k.tenant_id = $1
   AND k.worker_id = $2
   AND k.claim_id = $3
   AND r.assigned_worker_id = $2
   AND r.phase = 'HELD'
   AND r.lease_expires_at > clock_timestamp()