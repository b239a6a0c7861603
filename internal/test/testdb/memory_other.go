//go:build !linux

package testdb

// inMemory is of Linux: elsewhere there is no such file system everywhere.
func inMemory() string { return "" }
