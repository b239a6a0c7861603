package measure

import "syscall"

// dieWithParent makes the kernel send SIGTERM to the child when the thread that started it
// ends.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGTERM }
