// Package databases provides MariaDB and SQLite for tests of the participant library, with the
// build tag dialects. Their drivers are not among Skald's dependencies, but `go mod tidy` reads
// files regardless of their tags. The file that imports the drivers is therefore
// tools/dialects.go.txt: tools/dialects.json overlays it on this package, and tools/dialects.mod
// requires the drivers.
//
// Reading order: databases.go.
package databases
