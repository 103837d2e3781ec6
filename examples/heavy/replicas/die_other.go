//go:build !linux

package main

import "syscall"

// dieWithParent does nothing where the kernel offers nothing.
func dieWithParent(*syscall.SysProcAttr) {}
