package main

import "syscall"

// dieWithParent has the kernel kill the process when this one ends, in whatever way.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
