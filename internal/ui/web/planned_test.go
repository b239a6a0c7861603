package web

import (
	"html/template"
	"slices"
	"testing"

	"github.com/skald-saga/skald/api/client"
)

func TestAPlanDoesNotShowTheReasonOfItsDryRun(t *testing.T) {
	changes := []client.PlannedChange{
		{Member: "state", From: new("RUNNING"), To: new("CANCELED")}, {Member: "cancel_reason", To: new(PreviewReason)},
		{Member: "reason", From: new("ada holds it: tests"), To: new("ada holds it: " + PreviewReason)},
		{Member: "queue", From: new("default"), To: new("preview")},
	}
	want := []template.HTML{
		"The state changes from <code>running</code> to <code>canceled</code>.",
		"Queue changes from <code>default</code> to <code>preview</code>.",
	}
	if got := Planned(changes); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAPlanSpeaksOfWhatIsThere(t *testing.T) {
	for _, tt := range []struct {
		change client.PlannedChange
		want   template.HTML
	}{
		{client.PlannedChange{Member: "queue", To: new("gpu")}, "Queue is set to <code>gpu</code> (currently none)."},
		{client.PlannedChange{Member: "queue", From: new("gpu")}, "Queue is removed (currently <code>gpu</code>)."},
		{client.PlannedChange{Member: "state", From: new("OPEN"), To: new("HELD")},
			"The state changes from <code>open</code> to <code>held</code>."},
		{client.PlannedChange{Member: "new_run", To: new("PENDING"), Count: new(int64(2))},
			"2 new runs are created and wait for workers."},
		{client.PlannedChange{Member: "cancel_requested_at", To: new("2026-11-27T20:00:00Z")}, "Its worker is asked to stop."},
		{client.PlannedChange{Member: "cancel_requested_at", To: new("2026-11-27T20:00:00Z"), Count: new(int64(3)),
			Of: new(client.PlannedChangeOfJobRun)}, "The workers of 3 runs are asked to stop."},
		{client.PlannedChange{Member: "attention_reason", From: new("compensation_failed"), Count: new(int64(4)),
			Of: new(client.PlannedChangeOfSaga)},
			"4 sagas change from needing attention (<code>compensation failed</code>) to not needing it."},
		{client.PlannedChange{Member: "attention_reason", From: new("compensation_failed")},
			"It changes from needing attention (<code>compensation failed</code>) to not needing it."},
		{client.PlannedChange{Member: "held_by", From: new("jwt:ada"), To: new("jwt:kim")},
			"The holder changes from <code>jwt:ada</code> to <code>jwt:kim</code>."},
		{client.PlannedChange{Member: "held_by", To: new("jwt:kim")}, ""},
		{client.PlannedChange{Member: "held_by", From: new("jwt:ada")}, "It is no longer held by <code>jwt:ada</code>."},
		{client.PlannedChange{Member: "since", From: new("2026-01-02T03:04:05Z"), To: new("2026-01-02T03:05:05Z")}, ""},
	} {
		if got := slices.Concat(Planned([]client.PlannedChange{tt.change}), []template.HTML{""})[0]; got != tt.want {
			t.Errorf("%+v: %q, want %q", tt.change, got, tt.want)
		}
	}
}
