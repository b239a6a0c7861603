//go:build !linux

package app

// thisProcess returns "": processes can be identified uniquely only on Linux.
func thisProcess() string { return "" }

func isGone(string) bool { return false }
