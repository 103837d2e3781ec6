//go:build !linux

package sched

import "runtime"

// GiveWay lets other goroutines run that the caller has made ready.
func GiveWay() { runtime.Gosched() }
