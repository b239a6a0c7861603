// Package participantgate controls the calls of this node to named participants: it caches their
// settings, counts their calls, and decides together with the other nodes which calls each gate
// lets through (decision 0144).
//
// Files, each on top of those before it: known, participantgate.
package participantgate
