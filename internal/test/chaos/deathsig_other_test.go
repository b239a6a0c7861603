//go:build !linux

package chaos

import "syscall"

// dieWithParent is Linux's alone.
func dieWithParent(*syscall.SysProcAttr) {}
