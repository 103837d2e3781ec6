package operation

import (
	"context"
	"errors"
)

// Errors that the packages of this module have in common, for errors.Is. Packages purgatory and queue name them again,
// and say there when they return them.
var (
	ErrClosed    = errors.New("purgatory: closed")
	ErrFull      = errors.New("purgatory: full")
	ErrCancelled = errors.New("purgatory: cancelled")
	// ErrExpired is a net.Error whose Timeout method returns true, as callers of package net expect, and errors.Is
	// reports that it is context.DeadlineExceeded, as gRPC's status.FromContextError expects.
	ErrExpired error = expired{}
)

type expired struct{}

func (expired) Error() string        { return "purgatory: timed out" }
func (expired) Timeout() bool        { return true }
func (expired) Temporary() bool      { return true }
func (expired) Is(target error) bool { return target == context.DeadlineExceeded }
