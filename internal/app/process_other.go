//go:build !linux

package app

// thisProcess returns "": only Linux identifies a process uniquely.
func thisProcess() string { return "" }

func isGone(string) bool { return false }
