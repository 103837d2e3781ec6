package cluster

import (
	"os/exec"
	"syscall"
)

// dieWithParent has the kernel end the member when this process ends in whatever way.
func dieWithParent(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
