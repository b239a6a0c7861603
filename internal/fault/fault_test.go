package fault_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/skald-saga/skald/internal/fault"
)

func TestFaultsAreFoundThroughWrapping(t *testing.T) {
	conflict := fault.New(fault.Conflict, "SAGA_STATE_CONFLICT", "the saga is %s", "completed")
	outer := fault.New(fault.NotFound, "WORKFLOW_NOT_FOUND", "no such workflow").Because(conflict)
	for _, tt := range []struct {
		name string
		err  error
		want *fault.Error
		kind fault.Kind
	}{
		{"nil is not a fault", nil, nil, 0},
		{"an ordinary error is an outage", io.ErrUnexpectedEOF, nil, 0},
		{"a wrapped ordinary error is an outage", fmt.Errorf("claim: %w", io.EOF), nil, 0},
		{"a fault is itself", conflict, conflict, fault.Conflict},
		{"a wrapped fault is found", fmt.Errorf("cancel saga: %w", conflict), conflict, fault.Conflict},
		{"a joined fault is found", errors.Join(io.EOF, conflict), conflict, fault.Conflict},
		{"of two faults the outer one counts", outer, outer, fault.NotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := fault.As(tt.err); got != tt.want {
				t.Errorf("As = %v, want %v", got, tt.want)
			}
			if got := fault.KindOf(tt.err); got != tt.kind {
				t.Errorf("KindOf = %d, want %d", got, tt.kind)
			}
		})
	}
}

func TestIsCodeComparesTheCodeOfTheOuterFault(t *testing.T) {
	inner := fault.New(fault.Conflict, "INNER", "x")
	err := fmt.Errorf("context: %w", fault.New(fault.Invalid, "OUTER", "y").Because(inner))
	for code, want := range map[string]bool{"OUTER": true, "INNER": false, "": false, "context": false} {
		if got := fault.IsCode(err, code); got != want {
			t.Errorf("IsCode(%q) = %v, want %v", code, got, want)
		}
	}
	if fault.IsCode(nil, "") || fault.IsCode(io.EOF, "") {
		t.Error("an error that is not a fault matches the empty code")
	}
}

func TestTheCauseIsForLogsAndTheDetailForClients(t *testing.T) {
	cause := errors.New("pq: relation saga_states does not exist")
	f := fault.New(fault.Unavailable, "REQ_UNAVAILABLE", "try again in %d s", 5).Because(cause)
	if want := "REQ_UNAVAILABLE: try again in 5 s: pq: relation saga_states does not exist"; f.Error() != want {
		t.Errorf("Error() = %q, want %q", f.Error(), want)
	}
	if want := "try again in 5 s"; f.Detail != want {
		t.Errorf("Detail = %q, want %q: the cause must stay out", f.Detail, want)
	}
	if !errors.Is(f, cause) {
		t.Error("the cause is not reachable by errors.Is")
	}
	if plain := fault.New(fault.Invalid, "C", "d"); plain.Unwrap() != nil || plain.Error() != "C: d" {
		t.Errorf("without a cause: Unwrap = %v, Error = %q", plain.Unwrap(), plain.Error())
	}
}

func TestFieldsGatherAndAllowedActionsAreKept(t *testing.T) {
	one, two := fault.Field{Pointer: "/a", Code: "required"}, fault.Field{Pointer: "/b", Code: "type"}
	f := fault.New(fault.Invalid, "C", "d").With(one).With(two).Allowing([]string{"cancel"})
	if diff := cmp.Diff([]fault.Field{one, two}, f.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"cancel"}, f.Allowed); diff != "" {
		t.Errorf("allowed (-want +got):\n%s", diff)
	}
}

func TestNoKindIsZero(t *testing.T) {
	seen := map[fault.Kind]bool{0: true}
	for _, k := range []fault.Kind{
		fault.Invalid, fault.Malformed, fault.NotFound, fault.Conflict,
		fault.Precondition, fault.TooLarge, fault.Unsupported, fault.Unavailable,
	} {
		if seen[k] {
			t.Errorf("kind %d is zero or used twice", k)
		}
		seen[k] = true
	}
}

func TestMistakesAreKeptInTheirOrder(t *testing.T) {
	var wrong fault.Mistakes
	wrong.Add("/name", "required", "is required")
	wrong.Add("/retry/0", "too_large", "must be at most %d", 10)
	wrong.Within(
		"/schedule",
		fmt.Errorf(
			"wrapped: %w",
			fault.New(fault.Invalid, "X_INVALID", "").With(fault.Field{Pointer: "/value", Code: "cron", Message: "is wrong"}),
		),
	)
	wrong.Within("/schedule", io.ErrUnexpectedEOF)
	wrong.Within("/schedule", nil)
	want := []fault.Field{
		{Pointer: "/name", Code: "required", Message: "is required"},
		{Pointer: "/retry/0", Code: "too_large", Message: "must be at most 10"},
		{Pointer: "/schedule/value", Code: "cron", Message: "is wrong"},
	}
	if diff := cmp.Diff(want, fault.New(fault.Invalid, "X_INVALID", "wrong").With(wrong...).Fields); diff != "" {
		t.Errorf("mistakes (-want +got):\n%s", diff)
	}
}
