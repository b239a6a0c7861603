//go:build !linux

package testdb

// inMemory returns "": only Linux reliably has a file system in memory.
func inMemory() string { return "" }
