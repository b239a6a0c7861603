package sagapages

import (
	"html/template"
	"time"

	"github.com/skald-saga/skald/api/client"
	"github.com/skald-saga/skald/internal/ui/web"
)

// changeSentences says what an action itself changes, each from what to what.
func changeSentences(changes []client.PlannedChange) (all []template.HTML) {
	for _, c := range changes {
		from, to := planned(c.Member, c.From), planned(c.Member, c.To)
		switch c.Member {
		case client.PlannedChangeMemberState:
			all = append(all, web.Sentence("The state changes from %s to %s.", from, to))
		case client.PlannedChangeMemberCurrentStep:
			all = append(all, web.Sentence("The current step changes from %s to %s.", from, to))
		case client.PlannedChangeMemberDeadline:
			all = append(all, web.Sentence("The deadline moves from %s to %s.", from, to))
		case client.PlannedChangeMemberEndCause:
			all = append(all, web.Sentence("The reason to compensate changes from %s to %s.", from, to))
		case client.PlannedChangeMemberFailures:
			all = append(all, web.Sentence("The failed attempts that count against the retry policy change from %s to %s.", from, to))
		case client.PlannedChangeMemberNextRunAt:
			all = append(all, web.Sentence("The next attempt moves from %s to %s.", from, to))
		case client.PlannedChangeMemberSuspendedAt:
			if c.To != nil {
				all = append(all, web.Sentence("It changes from not suspended to suspended."))
			} else {
				all = append(all, web.Sentence("It changes from suspended (since %s) to not suspended.", from))
			}
		case client.PlannedChangeMemberAttentionReason:
			all = append(all, web.Sentence("What needs attention changes from %s to %s.", from, to))
		case client.PlannedChangeMemberOrder:
			all = append(all, web.Sentence("The decision about the current step changes from %s to %s.", from, to))
		default: // a server that is newer
			all = append(all, web.Sentence("%s changes from %s to %s.", c.Member, from, to))
		}
	}
	return all
}

// planned is a value of a planned change as people read it.
func planned(member client.PlannedChangeMember, value *string) string {
	if value == nil {
		if member == client.PlannedChangeMemberNextRunAt {
			return "now"
		}
		return "none"
	}
	if at, err := time.Parse(time.RFC3339, *value); err == nil {
		return at.UTC().Format("2006-01-02 15:04:05") + " UTC"
	}
	if member == client.PlannedChangeMemberState {
		return web.BadgeOf(*value).Word
	}
	return *value
}
