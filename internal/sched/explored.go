//go:build interleave

package sched

import explored "github.com/delayedop/purgatory/proof/explore/sched"

// What this package has in a normal build, and Advance, which moves the time of a run.
type (
	Bool    = explored.Bool
	Int64   = explored.Int64
	Uint32  = explored.Uint32
	Uint64  = explored.Uint64
	Mutex   = explored.Mutex
	Group   = explored.Group
	Pool    = explored.Pool
	Token   = explored.Token
	Woken   = explored.Woken
	Sleeper = explored.Sleeper
	Alarm   = explored.Alarm

	Pointer[T any] = explored.Pointer[T]
)

const (
	Elapsed = explored.Elapsed
	Taken   = explored.Taken
	Stopped = explored.Stopped
)

// InBubble returns false.
func InBubble() bool { return false }

var (
	Yield       = explored.Yield
	Go          = explored.Go
	Now         = explored.Now
	Since       = explored.Since
	AfterFunc   = explored.AfterFunc
	Advance     = explored.Advance
	WithTimeout = explored.WithTimeout
	Dice        = explored.Dice
	NewToken    = explored.NewToken
	NewAlarm    = explored.NewAlarm
	Receive     = explored.Receive
	Either      = explored.Either
	Sleep       = explored.Sleep
	Pause       = explored.Pause
)
