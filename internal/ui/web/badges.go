package web

import (
	"strings"

	"github.com/skald-saga/skald/api/client"
)

// Badge shows a state by shape, word and color, so that no single one of these is needed to tell
// states apart. Tone is a class of the style sheet: done, bad, undo, run, wait or muted.
type Badge struct{ Shape, Word, Tone string }

// badges contains the badges for all states in the API, in upper case. A state has the same badge
// wherever it occurs.
var badges = map[string]Badge{
	"PENDING":        {"○", "pending", "wait"},
	"RUNNING":        {"▶", "running", "run"},
	"STEP_COMPLETED": {"▶", "running", "run"},
	"COMPLETED":      {"✓", "completed", "done"},
	"COMPENSATING":   {"↺", "compensating", "undo"},
	"COMPENSATED":    {"↺", "compensated", "undo"},
	"FAILED":         {"▲", "failed", "bad"},
	"CANCELLED":      {"■", "cancelled", "muted"},
	"TIMED_OUT":      {"◷", "timed out", "bad"},
	// Dead letters and groups of them.
	"RETRYING":     {"▶", "retrying", "run"},
	"RESOLVED":     {"✓", "resolved", "done"},
	"DEAD":         {"✕", "dead", "bad"},
	"NEW":          {"●", "new", "bad"},
	"REGRESSED":    {"↯", "regressed", "bad"},
	"ACKNOWLEDGED": {"◐", "acknowledged", "wait"},
	// Redrives and their letters.
	"AWAITING_APPROVAL": {"◔", "awaiting approval", "wait"},
	"PAUSED":            {"‖", "paused", "wait"},
	"HALTED":            {"▲", "halted", "bad"},
	"WAITING":           {"○", "waiting", "wait"},
	"TAKEN":             {"▶", "in flight", "run"},
	"DONE":              {"✓", "done", "done"},
	"BOUNCED":           {"↩", "came back", "bad"},
	// Runs and bulk operations.
	"ASSIGNED":  {"▷", "assigned", "run"},
	"ORPHANED":  {"◇", "orphaned", "undo"},
	"SUCCEEDED": {"✓", "succeeded", "done"},
	"CANCELED":  {"■", "canceled", "muted"},
	"SKIPPED":   {"⤼", "skipped", "muted"},
	// Deliveries of webhooks.
	"DELIVERED": {"✓", "delivered", "done"},
	"DISCARDED": {"⤼", "discarded", "muted"},
	// Workers.
	"ACTIVE": {"●", "active", "done"},
	// Gates of participants and of queues.
	"OPEN":      {"●", "open", "done"},
	"HELD":      {"■", "held", "bad"},
	"RELEASING": {"▲", "being released", "undo"},
	// API keys.
	"REVOKED":  {"✕", "revoked", "bad"},
	"EXPIRED":  {"◷", "expired", "muted"},
	"DRAINING": {"◐", "draining", "undo"},
	"LOST":     {"▲", "lost", "bad"},
	"DETACHED": {"■", "detached", "muted"},
	// States of attempts of runs that are not also states of runs.
	"RELEASED":   {"◁", "released", "muted"},
	"REASSIGNED": {"◇", "reassigned", "undo"},
}

// SagaBadge returns the badge for a saga's state. clean is the saga's member of that name, which is
// nil until the end. A saga of which no effects remain has ended well, even though it was undone.
func SagaBadge(state any, clean *bool) Badge {
	b := BadgeOf(state)
	if clean != nil && *clean && b.Tone != "bad" {
		b.Tone = "done"
	}
	return b
}

// Accepted is the badge for an item that accepted the action of a bulk operation. The item's own
// state shows how it continues.
var Accepted = Badge{"●", "accepted", "run"}

// BulkBadge returns the badge for the state of a bulk operation. The operation is done once it has
// sent all its requests; their success is not part of its state.
func BulkBadge(state client.BulkState) Badge {
	if state == client.BulkStateCOMPLETED {
		return Badge{"●", "all requested", "run"}
	}
	return BadgeOf(state)
}

// BackfillBadge returns the badge for the state of a backfill. A backfill has ended when its runs
// have ended, whatever their outcome.
func BackfillBadge(state client.BulkState) Badge {
	if state == client.BulkStateCOMPLETED {
		return Badge{"●", "all runs ended", "muted"}
	}
	return BadgeOf(state)
}

// BadgeOf returns the badge for a state of any type; a Badge is returned unchanged. An unknown
// state is shown unchanged.
func BadgeOf(state any) Badge {
	if b, ok := state.(Badge); ok {
		return b
	}
	name := text(state)
	if b, ok := badges[strings.ToUpper(name)]; ok {
		return b
	}
	return Badge{"?", name, "muted"}
}
