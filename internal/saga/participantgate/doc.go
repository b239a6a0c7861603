// Package participantgate is what a node does about participants with a name: it knows them, counts their
// calls, and decides together with the other nodes what each gate lets through (decision 0144).
//
// Files, each on top of those before it: known, participantgate.
package participantgate
