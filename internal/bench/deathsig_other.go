//go:build !linux

package bench

import "syscall"

// dieWithParent can do nothing here: a child outlives a killed parent.
func dieWithParent(*syscall.SysProcAttr) {}
