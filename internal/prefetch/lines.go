//go:build gc && !purego && (amd64 || arm64)

package prefetch

import "unsafe"

// Line requests the cache line of p, to be written. It does not access *p, so any value
// of p is valid.
//
//go:noescape
func Line(p unsafe.Pointer)

// Neighbours requests the cache lines that are written when the element at p is removed from
// its list: the prev pointer of the next element and the next pointer of the previous one. An
// element begins with its next and prev pointers, in this order.
//
// p must point to an element, because Neighbours reads the two pointers. The list's lock need
// not be held: each pointer is read with one instruction, so it is an old or a new value, and
// it is only used as the address of a hint. The caller keeps the element alive.
//
//go:noescape
func Neighbours(p unsafe.Pointer)
