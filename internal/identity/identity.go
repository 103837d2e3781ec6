// Package identity numbers the timers and the purgatories of a process, so that each can
// recognise the entries and operations that belong to another.
package identity

import "sync/atomic"

// Bits is the number of bits of an identity.
const Bits = 25

var last atomic.Uint64

// New returns an identity from 1 to 2^25-1. It never returns 0, which means "no owner". It is
// safe for concurrent use.
//
// Identities repeat after 33,554,431 calls. Two objects that are alive together and whose
// identities were made that many calls apart cannot tell their entries apart.
func New() uint32 { return uint32(last.Add(1)%(1<<Bits-1)) + 1 }
