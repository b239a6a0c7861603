// Package archtest contains no code: its tests keep the shape of the tree: which packages may
// import which, what rule packages must not use, and how long a file may be.
// docs/architecture.md explains the shape.
package archtest
