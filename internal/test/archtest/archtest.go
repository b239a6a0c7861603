// Package archtest holds no code: its tests keep the shape of the tree, that
// is, who may import whom, what rulebooks must not touch, and how long a file
// may be. docs/architecture.md explains the shape.
package archtest
