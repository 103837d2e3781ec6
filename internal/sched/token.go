//go:build !interleave

package sched

// Token is a channel that has one token or none: for a goroutine that is to be woken once,
// however often others say so, or as a lock that can be waited for with [Sleep].
type Token chan struct{}

// NewToken returns a Token that has none.
func NewToken() Token { return make(Token, 1) }

// Woken says how a [Sleep] has ended.
type Woken uint8

// The ends of a Sleep.
const (
	Elapsed Woken = iota
	Taken
	Stopped
)
