package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/skald-saga/skald/internal/groupcommit"
	"github.com/skald-saga/skald/internal/saga/participantgate"
	"github.com/skald-saga/skald/internal/saga/registry"
)

// participantsChannel is the channel that notifies nodes that a participant has changed, or that
// sagas that waited for a participant are due.
const participantsChannel = "skald_participants"

// addParticipants adds this node's copy of the registered participants, and their gates.
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

// participantChangedHere is called before the API answers a request that changes a participant.
// This node then already has the change, so a saga that starts after a hold was answered waits at
// the gate. Other nodes reload as soon as they are notified, and within a second otherwise.
func (n *node) participantChangedHere() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := n.known.Refresh(ctx); err != nil {
		n.opt.Log.Warn("cannot reload the participants; the next round tries again", slog.Any("error", err))
	}
	n.participantsChanged()
}

// participantsChanged makes all nodes reload changed participants.
func (n *node) participantsChanged() {
	n.known.Wake()
	if n.jobStores != nil {
		n.jobStores.line.Send(participantsChannel, "")
	}
}
