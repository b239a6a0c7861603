package saga

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/skald-saga/skald/internal/tenant"
)

func TestNewTakesEverythingTheClientSaid(t *testing.T) {
	spec := Spec{
		ID: uuid.UUID{1}, Tenant: tenant.Tenant{ID: uuid.UUID{2}, Region: "eu", Major: 3, Minor: 4}, SagaType: "checkout",
		Name: new("n"), Description: new("d"), BusinessKey: new("b"), CorrelationID: new("c"), InitiatedBy: "shop",
		TraceID: new("t"), SpanID: new("s"), Payload: json.RawMessage(`1`), Metadata: json.RawMessage(`{}`), TimeoutMS: 5,
	}
	want := Saga{
		ID: uuid.UUID{1}, Tenant: spec.Tenant, SagaType: "checkout", WorkflowName: "w", WorkflowVersion: 6,
		Name: new("n"), Description: new("d"), BusinessKey: new("b"), CorrelationID: new("c"), InitiatedBy: "shop",
		TraceID: new("t"), SpanID: new("s"), Payload: json.RawMessage(`1`), Metadata: json.RawMessage(`{}`),
		TotalSteps: 3, Version: 1, TimeoutMS: new(int64(5)), CreatedAt: noon, UpdatedAt: noon,
	}
	unowned, owned := want, want
	unowned.NextRunAt = new(noon) // due immediately, for any node
	owned.LeaseOwner, owned.LeaseEpoch, owned.Attempt, owned.StartedAt = new(int64(42)), 1, 1, new(noon)
	if diff := cmp.Diff(unowned, New(spec, definition("uuu"), 6, nil, noon, time.Hour)); diff != "" {
		t.Errorf("without an owner (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(owned, New(spec, definition("uuu"), 6, new(int64(42)), noon, time.Hour)); diff != "" {
		t.Errorf("with an owner (-want +got):\n%s", diff)
	}
	for _, owner := range []*int64{nil, new(int64(42))} {
		r := NewInstance(New(spec, definition("uuu"), 6, owner, noon, 0), definition("uuu"))
		if why := inconsistent(&r); why != "" {
			t.Errorf("new, and already %s", why)
		}
	}
}

func TestTimeoutsOfANewSaga(t *testing.T) {
	for _, tt := range []struct {
		name               string
		spec, def          int64
		server             time.Duration
		compensation       int64
		want, compensating *int64
	}{
		{"the client's", 1, 2, 3 * time.Millisecond, 4, new(int64(1)), new(int64(4))},
		{"else the workflow's", 0, 2, 3 * time.Millisecond, 0, new(int64(2)), nil},
		{"else the server's", 0, 0, 3 * time.Millisecond, 0, new(int64(3)), nil},
		{"else none", 0, 0, 0, 0, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			def := definition("u")
			def.TimeoutMS, def.CompensationTimeoutMS = tt.def, tt.compensation
			s := New(Spec{TimeoutMS: tt.spec}, def, 1, nil, noon, tt.server)
			if diff := cmp.Diff([]*int64{tt.want, tt.compensating}, []*int64{s.TimeoutMS, s.CompensationTimeoutMS}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if s.TimeoutAt != nil || s.CompensationTimeoutAt != nil {
				t.Error("deadlines are the database clock's to set")
			}
		})
	}
}

func TestTheSagaTypeIsTheBeginningOfTheWorkflowsName(t *testing.T) {
	for name, want := range map[string]string{
		"order":                  "order",
		strings.Repeat("世", 64):  strings.Repeat("世", 64),
		strings.Repeat("世", 65):  strings.Repeat("世", 64),
		strings.Repeat("n", 255): strings.Repeat("n", 64),
		"e\u0301" + "tape":       "e\u0301tape",
	} {
		def := definition("u")
		def.Name = name
		if got := New(Spec{}, def, 1, nil, noon, 0).SagaType; got != want {
			t.Errorf("type of %.20q… = %q, want %q", name, got, want)
		}
	}
}

func TestReleaseLeavesWhatHasEndedAndWhatIsFree(t *testing.T) {
	for _, story := range []string{"done done", "refused", "done refused refused", "done refused refused resume"} {
		r, _, c := tell(t, started("uu"), story)
		c = c.Released(noon.Add(time.Hour))
		if diff := cmp.Diff(r, c.After, cmp.AllowUnexported(Instance{})); diff != "" {
			t.Errorf("%s (-before +released):\n%s", story, diff)
		}
	}
}

func TestReleaseBetweenStepsIsStepCompleted(t *testing.T) {
	for _, tt := range []struct {
		name, story string
		want        State
		due         time.Time
	}{
		{"after a step", "done", StepCompleted, noon.Add(time.Hour)},
		{"while the second step waits for its next attempt", "done timeout", Running, noon.Add(2*time.Minute + 100*time.Millisecond)},
		{"while the first step waits for its next attempt", "timeout", Running, noon.Add(time.Minute + 100*time.Millisecond)},
		{"between two undos", "done done cancel done done", Compensating, noon.Add(time.Hour)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, c := tell(t, started("uuuu"), tt.story)
			c = c.Released(noon.Add(time.Hour))
			s := c.After.Saga
			if s.State != tt.want || s.LeaseOwner != nil || s.NextRunAt == nil || !s.NextRunAt.Equal(tt.due) {
				t.Errorf("%s, owner %v, due %v; want %s, none, %v", s.State, s.LeaseOwner, s.NextRunAt, tt.want, tt.due)
			}
		})
	}
}
