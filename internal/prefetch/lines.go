//go:build gc && (amd64 || arm64)

package prefetch

import "unsafe"

// Line asks for the line of p, to be written.
//
//go:noescape
func Line(p unsafe.Pointer)

// Neighbours asks for what is written when the element at p leaves its list, as Line does. The element begins with its
// pointers to the next and to the previous one; written are the next one's pointer to the previous, and the other way
// around. The list's lock need not be held: the pointers are read whole, and go no further than the hint.
//
//go:noescape
func Neighbours(p unsafe.Pointer)
