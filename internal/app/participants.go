package app

import (
	"context"

	"github.com/skald-saga/skald/internal/saga/gate"
)

// participantsChannel tells nodes that a participant has changed.
const participantsChannel = "skald_participants"

// addParticipants adds what this node knows of participants with a name.
func (n *node) addParticipants(context.Context) error {
	n.known = gate.NewKnown(n.participants, n.opt.Log)
	if n.jobStores != nil {
		n.jobStores.line.On(participantsChannel, func(string) { n.known.Wake() })
	}
	return nil
}

// participantsChanged makes all nodes look for changed participants.
func (n *node) participantsChanged() {
	n.known.Wake()
	if n.jobStores != nil {
		n.jobStores.line.Send(participantsChannel, "")
	}
}
