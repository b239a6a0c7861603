package sagaapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/skald-saga/skald/api"
	"github.com/skald-saga/skald/internal/fault"
	"github.com/skald-saga/skald/internal/httpkit"
	"github.com/skald-saga/skald/internal/saga"
)

// GetSaga returns a saga with its step logs, either immediately or after the saga has ended.
func (s *Handlers) GetSaga(ctx context.Context, in api.GetSagaRequestObject) (api.Response, error) {
	wait, waited, err := s.WaitOf(in.Params.Wait, in.Params.Prefer)
	if err != nil {
		return nil, err
	}
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	var ended *saga.Loaded
	if ref := (saga.Ref{Tenant: tenant, ID: in.SagaID}); wait > 0 {
		var did bool
		if ended, did, err = s.admission.End(ctx, ref, wait); err != nil {
			return nil, err
		}
		if !did {
			waited = ""
		}
	}
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	if ended == nil && in.Params.IfNoneMatch != nil {
		// Web pages poll, so the logs of an unchanged saga are not read.
		f, err := s.heads(ctx, tenant, in.SagaID)
		if err != nil {
			return nil, err
		}
		a, err := httpkit.Answer{ETag: f.notedETag(), Waited: waited}.Unchanged(in.Params.IfNoneMatch)
		if err != nil || a.Status == http.StatusNotModified {
			return a, err
		}
	}
	show := shown{
		running: slices.Contains(in.Params.Include, "running"), steps: slices.Contains(in.Params.Include, "steps"),
		brief: brief(in.Params.View),
	}
	var a httpkit.Answer
	if ended != nil {
		a, err = s.endedAnswer(ctx, ended, show)
	} else {
		a, err = s.withLogs(ctx, tenant, in.SagaID, show)
	}
	if err != nil {
		return nil, err
	}
	a.Waited = waited
	return a.Unchanged(in.Params.IfNoneMatch)
}

// endedAnswer does what withLogs does, for a live saga whose logs have already been read.
func (s *Handlers) endedAnswer(ctx context.Context, l *saga.Loaded, show shown) (httpkit.Answer, error) {
	return s.full(ctx, sagaWithLogs{saga: l.Saga, logs: saga.InOrder(l.Logs)}, show)
}

// shown says which parts of a saga's logs and steps are returned.
type shown struct{ running, steps, brief bool }

// withLogs reads a saga and then its logs, so that the logs are never older than the state.
func (s *Handlers) withLogs(ctx context.Context, tenant, id uuid.UUID, show shown) (httpkit.Answer, error) {
	f, err := s.find(ctx, tenant, id, saga.Logs{Brief: show.brief})
	if err != nil {
		return httpkit.Answer{}, err
	}
	return s.full(ctx, f, show)
}

// full adds the note to a saga with its logs and returns the answer.
func (s *Handlers) full(ctx context.Context, f sagaWithLogs, show shown) (httpkit.Answer, error) {
	run, err := s.run(ctx, f.saga, f.logs)
	if err != nil {
		return httpkit.Answer{}, err
	}
	if err := s.withNote(ctx, &f); err != nil {
		return httpkit.Answer{}, err
	}
	return full(f, run, show)
}

// full returns the response with a saga and its logs.
func full(f sagaWithLogs, run saga.Instance, show shown) (httpkit.Answer, error) {
	out := f.convert(&run)
	out.StepLogs = toAPIStepLogs(f.logs, show.running, show.brief)
	if show.steps {
		out.Steps = toAPISteps(saga.Steps(run, f.logs), show.brief)
	}
	if !show.brief {
		var err error
		if out.Result, err = result(&run); err != nil {
			return httpkit.Answer{}, err
		}
	}
	return httpkit.Answer{Status: http.StatusOK, Body: out, ETag: f.notedETag()}, nil
}

// head reads a saga and returns it without step logs.
func (s *Handlers) head(ctx context.Context, tenant, id uuid.UUID, status int) (httpkit.Answer, error) {
	f, err := s.heads(ctx, tenant, id) // the saga of an idempotency key may be archived
	if err != nil {
		return httpkit.Answer{}, err
	}
	return s.headAnswer(ctx, f, status)
}

func (s *Handlers) headAnswer(ctx context.Context, f sagaWithLogs, status int) (httpkit.Answer, error) {
	run, err := s.run(ctx, f.saga, f.logs)
	if err != nil {
		return httpkit.Answer{}, err
	}
	return httpkit.Answer{Status: status, Body: f.convert(&run), ETag: f.notedETag()}, nil
}

// ListStepLogs returns the step logs of a saga.
func (s *Handlers) ListStepLogs(ctx context.Context, in api.ListStepLogsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	tenant := httpkit.RequestOf(ctx).Tenant.ID
	less := brief(in.Params.View)
	f, err := s.find(ctx, tenant, in.SagaID, saga.Logs{Brief: less, IDs: in.Params.ID})
	if err != nil {
		return nil, err
	}
	list := api.StepLogList{
		Archived: f.archived(), ArchivedAt: f.archivedAt,
		StepLogs: toAPIStepLogs(f.logs, slices.Contains(in.Params.Include, "running"), less),
	}
	return httpkit.Answer{Status: http.StatusOK, Body: list, ETag: f.etag()}.Unchanged(in.Params.IfNoneMatch)
}

// ListSteps returns the current state of a saga's steps.
func (s *Handlers) ListSteps(ctx context.Context, in api.ListStepsRequestObject) (api.Response, error) {
	ctx, cancel := s.Bounded(ctx)
	defer cancel()
	less := brief(in.Params.View)
	f, run, err := s.look(ctx, in.SagaID, saga.Logs{Brief: less})
	if err != nil {
		return nil, err
	}
	steps := toAPISteps(saga.Steps(run, f.logs), less)
	list := api.StepList{
		Archived: f.archived(), ArchivedAt: f.archivedAt, Steps: steps, DefinitionUnreadable: mark(run.Undefined()),
	}
	return httpkit.Answer{Status: http.StatusOK, Body: list, ETag: f.etag()}.Unchanged(in.Params.IfNoneMatch)
}

// brief reports whether a view leaves out what saga.Logs.Brief does.
func brief[V ~string](view *V) bool { return view != nil && *view == "basic" }

// load reads a live saga of the tenant and rebuilds its run for an action. Faults: NotFound, and
// Conflict for an archived saga.
func (s *Handlers) load(ctx context.Context, tenant, id uuid.UUID) (saga.Instance, []saga.StepLog, error) {
	sg, err := s.Store.Get(ctx, tenant, id)
	if fault.KindOf(err) == fault.NotFound {
		err = s.notLive(ctx, tenant, id)
	}
	if err != nil {
		return saga.Instance{}, nil, err
	}
	logs, err := s.Store.StepLogs(ctx, tenant, id, saga.Logs{}) // read after the head, so never older than it
	if err != nil {
		return saga.Instance{}, nil, err
	}
	run, err := s.run(ctx, sg, logs)
	return run, logs, err
}

// run returns the instance of a saga, without its definition if that cannot be read.
func (s *Handlers) run(ctx context.Context, sg saga.Saga, logs []saga.StepLog) (saga.Instance, error) {
	def, err := s.admission.Definitions.Version(ctx, sg.Tenant.ID, sg.WorkflowName, sg.WorkflowVersion)
	run, err := saga.Restored(sg, def, err, logs)
	for i := range logs {
		run.ContentUnreadable = run.ContentUnreadable || logs[i].ContentUnreadable
	}
	return run, pinnedIsGone(err)
}

// pinnedIsGone hides a fault that occurred while reading the definition to which a saga is pinned,
// because the client did not cause it.
func pinnedIsGone(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read the definition a saga is pinned to: %v", err) //nolint:errorlint // intentional, see above
}

// sagaWithLogs is a saga with its logs, live or archived.
type sagaWithLogs struct {
	saga       saga.Saga
	logs       []saga.StepLog
	archivedAt *time.Time // nil means that the saga is live
	note       saga.Note  // for responses that include it
}

// archived returns the response member archived, which is absent for a live saga.
func (f *sagaWithLogs) archived() *bool {
	if f.archivedAt == nil {
		return nil
	}
	return new(true)
}

func (f *sagaWithLogs) etag() string {
	if f.archivedAt != nil {
		return httpkit.ArchivedETag(f.saga.Version)
	}
	return httpkit.ETagOf(f.saga.Version)
}

// notedETag returns the ETag of a response that includes the note.
func (f *sagaWithLogs) notedETag() string { return httpkit.NotedETag(f.etag(), f.note.Version) }

func (f *sagaWithLogs) convert(run *saga.Instance) *api.Saga {
	out := toAPISaga(run)
	noted(out, f.note)
	if f.archivedAt != nil {
		out.Archived, out.ArchivedAt = f.archived(), f.archivedAt
		out.AllowedActions = actionsOf(saga.ArchivedActions())
	}
	return out
}

// heads reads a saga with its note and without its logs, from the archive if it is not live. Fault:
// NotFound.
func (s *Handlers) heads(ctx context.Context, tenant, id uuid.UUID) (f sagaWithLogs, err error) {
	f.saga, err = s.Store.Get(ctx, tenant, id)
	if fault.KindOf(err) == fault.NotFound {
		f, err = s.find(ctx, tenant, id, saga.Logs{Brief: true})
	}
	if err != nil {
		return f, err
	}
	return f, s.withNote(ctx, &f)
}

// withNote adds a saga's note to it.
func (s *Handlers) withNote(ctx context.Context, f *sagaWithLogs) error {
	notes, err := s.Notes.Notes(ctx, f.saga.Tenant.ID, f.saga.ID)
	f.note = notes[f.saga.ID]
	return err
}

// withNotes adds the notes to the sagas of a page.
func (s *Handlers) withNotes(ctx context.Context, tenant uuid.UUID, sagas []api.Saga) error {
	ids := make([]uuid.UUID, len(sagas))
	for i := range sagas {
		ids[i] = sagas[i].SagaID
	}
	notes, err := s.Notes.Notes(ctx, tenant, ids...)
	for i := range sagas {
		noted(&sagas[i], notes[ids[i]])
	}
	return err
}

// noted adds a note to a saga in the form of the contract.
func noted(out *api.Saga, n saga.Note) {
	if n.Assignee != "" {
		out.Assignee = &n.Assignee
	}
	if n.Text != "" {
		out.Note = &n.Text
	}
}
