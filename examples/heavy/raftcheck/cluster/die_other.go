//go:build !linux

package cluster

import "os/exec"

// dieWithParent does nothing where the kernel offers nothing.
func dieWithParent(*exec.Cmd) {}
