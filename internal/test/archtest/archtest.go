// Package archtest contains no code. Its tests enforce the structure of the tree: which packages
// may import which, what packages with rules must not use, and how long a file may be.
// docs/architecture.md describes the structure.
package archtest
