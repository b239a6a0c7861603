package web

import (
	"testing"

	"github.com/skald-saga/skald/api/client"
)

func TestAPlanDoesNotShowTheReasonOfItsDryRun(t *testing.T) {
	changes := []client.PlannedChange{
		{Member: "state", From: new("RUNNING"), To: new("CANCELED")}, {Member: "cancel_reason", To: new(PreviewReason)},
	}
	if got := Planned(changes); len(got) != 1 || got[0] != "The state changes from <code>running</code> to <code>canceled</code>." {
		t.Errorf("%q", got)
	}
}
