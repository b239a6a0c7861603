//go:build !linux

package measure

import "syscall"

// dieWithParent does nothing here: a child outlives a killed parent.
func dieWithParent(*syscall.SysProcAttr) {}
