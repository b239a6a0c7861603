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
