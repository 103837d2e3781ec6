package children

import "syscall"

// DieWithParent has the kernel kill the process when this one ends, in whatever way.
func DieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
