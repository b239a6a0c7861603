// Package databases has MariaDB and SQLite for tests of the library for participants, and their drivers, which are
// not among Skald's dependencies: with the tag dialects, and tools/dialects.mod.
//
// Reading order: databases.go.
package databases
