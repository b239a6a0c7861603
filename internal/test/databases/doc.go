// Package databases has MariaDB and SQLite for tests of the library for participants, with the tag dialects. Their
// drivers are not among Skald's dependencies, and `go mod tidy` reads files of every tag: so the file that imports
// them is tools/dialects.go.txt. tools/dialects.json lays it over this package, tools/dialects.mod requires them.
//
// Reading order: databases.go.
package databases
