package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// participantsChannel tells nodes that a participant has changed, and that sagas that waited for one
// are due.
const participantsChannel = "skald_participants"

// addParticipants adds what this node knows of participants with a name, and their gates.
func (n *node) addParticipants(context.Context) error {
	n.known = participantgate.NewKnown(n.participants)
	n.takes = groupcommit.New(groupcommit.Config[registry.Grant, bool]{
		Flush: n.participants.Take, Key: func(g registry.Grant) any { return g.Of },
	})
	n.gate = participantgate.New(participantgate.Config{
		Store: n.participants, Take: n.takes.Do, Known: n.known, Node: n.name, Now: n.now, Log: n.opt.Log,
		Due: func() { n.engine.Backlog() }, Moved: n.participantsChanged,
		Round: func(states map[registry.State]int) {
			n.metrics.Loop("participants")
			n.metrics.Gates(states)
		},
	})
	if n.jobStores != nil {
		n.jobStores.line.On(participantsChannel, func(string) {
			n.known.Wake()
			n.engine.Backlog()
		})
	}
	return nil
}

// participantChangedHere is called before a change by a person is answered: this node knows of it by then, so that a
// saga that is started after the answer to a hold waits at the gate. Other nodes look at once, and need up to a second
// if they cannot be told.
func (n *node) participantChangedHere() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := n.known.Refresh(ctx); err != nil {
		n.opt.Log.Warn("participants cannot be read again; the next round will", slog.Any("error", err))
	}
	n.participantsChanged()
}

// participantsChanged makes all nodes look for changed participants.
func (n *node) participantsChanged() {
	n.known.Wake()
	if n.jobStores != nil {
		n.jobStores.line.Send(participantsChannel, "")
	}
}
