//go:build !linux

package app

// thisProcess returns "": only Linux identifies a process beyond doubt.
func thisProcess() string { return "" }

func isGone(string) bool { return false }
