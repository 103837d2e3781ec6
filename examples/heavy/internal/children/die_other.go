//go:build !linux

package children

import "syscall"

// DieWithParent does nothing where the kernel offers nothing.
func DieWithParent(*syscall.SysProcAttr) {}
