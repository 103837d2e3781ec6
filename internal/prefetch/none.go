//go:build !gc || purego || (!amd64 && !arm64)

package prefetch

import "unsafe"

// Line does nothing on this platform.
func Line(unsafe.Pointer) {}

// Neighbours does nothing on this platform.
func Neighbours(unsafe.Pointer) {}
