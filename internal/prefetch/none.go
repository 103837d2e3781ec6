//go:build !gc || (!amd64 && !arm64)

package prefetch

import "unsafe"

// Line does nothing here.
func Line(unsafe.Pointer) {}

// Neighbours does nothing here.
func Neighbours(unsafe.Pointer) {}
