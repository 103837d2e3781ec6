// Package identity numbers the timers and the purgatories of a process, so that each can
// recognise the entries and operations that belong to another.
package identity

import "sync/atomic"

// Bits is the number of bits of an identity.
const Bits = 23

var last atomic.Uint64 // not explored: one addition, and no other word goes with it

// The identity of an entry's owner ends the lower half of the entry's word. Package timer
// uses the bits below it.
const (
	Half  = 1<<32 - 1
	Shift = 32 - Bits
)

// In returns the identity of the owner in an entry's word, 0 if it has no owner.
func In(word uint64) uint32 { return uint32(word) >> Shift }

// New returns an identity from 1 to 2^23-1: 0 means "no owner". It is safe for concurrent use.
//
// Identities repeat after 8,388,607 calls. Two objects that live together, and were made that
// many calls apart, cannot tell their entries apart.
func New() uint32 { return uint32(last.Add(1)%(1<<Bits-1)) + 1 }
