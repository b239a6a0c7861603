//go:build !linux

package main

import (
	"errors"
	"syscall"
)

// ownNetwork does nothing here: the command that it is for fails.
func ownNetwork() *syscall.SysProcAttr { return nil }

func startLoopback() error {
	return errors.New("a separate network requires Linux: use -shared-network")
}
