//go:build amd64 || arm64

package prefetch

import "unsafe"

// Line asks for the line of p, to be written.
//
//go:noescape
func Line(p unsafe.Pointer)

// Links asks for the lines that the two pointers at p lead to, as Line does: the neighbours of an element of a list,
// whose lock need not be held. The pointers are read whole, and go no further than the hint.
//
//go:noescape
func Links(p unsafe.Pointer)
