package measure

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"time"

	"github.com/google/uuid"
)

// UIConfig describes a measurement of the pages for people at scale.
type UIConfig struct {
	// Skald is the path of the server binary. Required.
	Skald string
	// Data describes the sagas that are generated first, and in which database; with Sagas 0 the database already
	// has what an earlier measurement has generated. Only one saga of twenty, the latest, gets step logs.
	Data GenerateConfig
	// Letters and Runs are how many dead letters and job runs are generated with the sagas.
	Letters, Runs int
	// Dir is an existing directory for the server's log. Required.
	Dir string
	// Samples is how often each page is asked for, at least 20.
	Samples int
	// Only selects pages by their names in the table; nil: all.
	Only *regexp.Regexp
	// Overviews and SagaPages are how many of them are open in browsers for Watch; 0 and 0: none.
	Overviews, SagaPages int
	Watch                time.Duration
	// Out receives the table row by row.
	Out io.Writer
}

// largeSteps and largeAttempts are the size of the largest saga that a page must show at once.
const (
	largeSteps    = 500
	largeAttempts = 4 // of each step
)

// generatedJobs are the job definitions of the generated runs.
const generatedJobs = 40

// fillUI stores the job runs and the large saga, once, and returns the id of the latter.
func (r *reader) fillUI(ctx context.Context, cfg UIConfig) (large string, err error) {
	tenant := cfg.Data.Tenant
	if tenant == uuid.Nil {
		tenant = defaultTenant
	}
	err = r.db.QueryRowContext(ctx, `
		SELECT coalesce((SELECT id::text FROM saga.saga_states WHERE tenant_id = $1 AND business_key = 'bench-large' LIMIT 1), '')`,
		tenant).Scan(&large)
	if err != nil || large != "" {
		return large, err
	}
	if err := r.fillLarge(ctx, tenant); err != nil {
		return "", err
	}
	for i := range generatedJobs {
		err := r.post(ctx, "/api/v1/job-definitions", map[string]any{
			"name": fmt.Sprintf("bench-job-%02d", i), "type": "time", "command_name": "nothing", "enabled": true,
			"schedule": map[string]any{"type": "hourly_at_minute", "value": fmt.Sprint(i)},
		})
		if err != nil {
			return "", err
		}
	}
	if _, err := r.db.ExecContext(ctx, generateRuns, tenant, cfg.Runs); err != nil {
		return "", fmt.Errorf("store job runs: %w", err)
	}
	if _, err := r.db.ExecContext(ctx, `VACUUM (ANALYZE) jobs.job_runs, saga.saga_step_logs`); err != nil {
		return "", fmt.Errorf("vacuum: %w", err)
	}
	return r.fillUI(ctx, cfg)
}

// fillLarge stores a saga that needed four attempts for each of its steps.
func (r *reader) fillLarge(ctx context.Context, tenant uuid.UUID) error {
	steps := make([]map[string]any, largeSteps)
	for i := range steps {
		at := fmt.Sprintf("http://127.0.0.1:9/step-%03d", i)
		steps[i] = map[string]any{
			"name": fmt.Sprintf("step-%03d", i), "action": map[string]any{"http": map[string]any{"url": at}},
			"compensation": map[string]any{"http": map[string]any{"url": at + "/undo"}},
		}
	}
	if err := r.post(ctx, "/api/v1/workflows", map[string]any{"name": "bench-large", "steps": steps}); err != nil {
		return err
	}
	id := uuid.Must(uuid.NewV7())
	if _, err := r.db.ExecContext(ctx, generateLarge, id, tenant, largeSteps); err != nil {
		return fmt.Errorf("store the large saga: %w", err)
	}
	if _, err := r.db.ExecContext(ctx, generateLargeLogs, id, tenant, largeSteps, largeAttempts); err != nil {
		return fmt.Errorf("store its attempts: %w", err)
	}
	return nil
}

// post sends a request that creates something; any answer but 200 and 201 is an error.
func (r *reader) post(ctx context.Context, path string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK && response.StatusCode != http.StatusCreated {
		var problem bytes.Buffer
		_, _ = problem.ReadFrom(response.Body) // the status alone says enough
		return fmt.Errorf("POST %s: status %d: %.300s", path, response.StatusCode, problem.Bytes())
	}
	return nil
}

// generateLarge stores the saga $1 of tenant $2, which has $3 steps and ended a minute ago.
const generateLarge = `
INSERT INTO saga.saga_states (id, tenant_id, workflow_name, workflow_version, saga_type, total_steps, current_step, state, payload, initiated_by,
       business_key, created_at, updated_at, started_at, completed_at, clean, version, step_attempt, timeout_ms, timeout_at, compensation_timeout_ms)
SELECT $1, $2, 'bench-large', 1, 'bench-large', $3, $3, 3, '{"order": 4711}', 'skald-bench', 'bench-large', now() - interval '2 hours',
       now() - interval '1 minute', now() - interval '2 hours', now() - interval '1 minute', true, 2000, 1, 31536000000, now() + interval '365 days', 31536000000`

// generateLargeLogs stores $4 attempts of each of its steps. What was sent and answered is four kilobytes each.
const generateLargeLogs = `
INSERT INTO saga.saga_step_logs (id, saga_id, tenant_id, step_index, step_name, action, attempt, status, final, outcome_code,
       request_payload, response_payload, error, started_at, completed_at, duration_ms, updated_at)
SELECT gen_random_uuid(), $1, $2, k, 'step-' || lpad(k::text, 3, '0'), 'EXECUTE', n, CASE WHEN n = $4 THEN 'SUCCESS' ELSE 'FAILED' END, n = $4,
       CASE WHEN n = $4 THEN 'http_200' ELSE 'http_503' END, jsonb_build_object('saga_id', $1::uuid, 'step', k, 'lines', text), jsonb_build_object('answer', text),
       CASE WHEN n < $4 THEN jsonb_build_object('code', 'http_503', 'message', 'the participant answered 503', 'type', 'unavailable',
            'retryable', true, 'timestamp', at, 'details', jsonb_build_object('answer', left(text, 500))) END,
       at, at + interval '200 ms', 200, at + interval '200 ms'
  FROM generate_series(0, $3::int - 1) AS k CROSS JOIN generate_series(1, $4::int) AS n
 CROSS JOIN LATERAL (SELECT now() - interval '2 hours' + (k * $4::int + n) * interval '3 seconds' AS at) AS a
 CROSS JOIN LATERAL (SELECT string_agg(md5((k * 100 + n * 10 + i)::text), ' ') AS text FROM generate_series(1, 120) AS i) AS t`

// generateRuns stores $2 runs of the definitions of tenant $1, of ninety days: of a hundred, 94 succeeded, 4 failed,
// 1 timed out, and 1 was canceled; the last five hundred wait.
const generateRuns = `
INSERT INTO jobs.job_runs (id, tenant_id, definition_id, definition_name, spec_version, command_name, state, trigger, scheduled_for, available_at,
       queue, idempotency_key, attempt, started_at, finished_at, error_code, error_summary, root_run_id, correlation_id, created_at, updated_at)
SELECT r.id, $1, d.id, d.name, 1, d.command_name, r.state, 'MANUAL', r.at, CASE r.state WHEN 'PENDING' THEN now() + interval '365 days' ELSE r.at END,
       CASE WHEN i % 10 = 0 THEN 'reports' ELSE 'default' END, 'bench-' || i, CASE r.state WHEN 'PENDING' THEN 0 ELSE 1 END,
       CASE WHEN r.state <> 'PENDING' THEN r.at + CASE WHEN i % 50 = 0 THEN interval '2 minutes' ELSE interval '1 second' END END,
       CASE WHEN r.state <> 'PENDING' THEN r.at + interval '3 minutes' END, CASE r.state WHEN 'FAILED' THEN 'exit_1' WHEN 'TIMED_OUT' THEN 'timeout' END,
       CASE r.state WHEN 'FAILED' THEN 'the command ended with 1' END, r.id, CASE WHEN i % 3 = 0 THEN 'corr-' || i END, r.at, r.at
  FROM (SELECT i, gen_random_uuid() AS id, now() - ($2::int - i) * (interval '90 days' / $2::int) AS at,
               CASE WHEN i > $2::int - 500 THEN 'PENDING' WHEN i % 100 < 94 THEN 'SUCCEEDED' WHEN i % 100 < 98 THEN 'FAILED'
                    WHEN i % 100 = 98 THEN 'TIMED_OUT' ELSE 'CANCELED' END AS state
          FROM generate_series(1, $2::int) AS i) AS r
  JOIN (SELECT id, name, command_name, row_number() OVER (ORDER BY name) - 1 AS n FROM jobs.job_definitions
         WHERE tenant_id = $1 AND name LIKE 'bench-job-%') AS d ON d.n = r.i % 40`
