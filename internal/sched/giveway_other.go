//go:build !linux

package sched

func yieldThread() {}
