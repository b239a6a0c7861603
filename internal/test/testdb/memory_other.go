//go:build !linux

package testdb

// inMemory returns "": a file system in memory exists reliably on Linux only.
func inMemory() string { return "" }
