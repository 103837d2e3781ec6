package node

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/delayedop/purgatory/purgatory"
)

// Errors of calls, for errors.Is.
var (
	// ErrNoLeader: there is no leader at this moment, or none that could be asked. Nothing was written.
	ErrNoLeader = errors.New("raftkv: no leader")
	// ErrLeadershipLost: the node lost its leadership while the call waited.
	ErrLeadershipLost = errors.New("raftkv: leadership lost")
	// ErrDeadline: the call's timeout passed.
	ErrDeadline = errors.New("raftkv: timed out")
	// ErrFull: as many calls wait as the configuration allows. Nothing was queued.
	ErrFull = errors.New("raftkv: too many calls wait")
	// ErrClosed: the node is shutting down.
	ErrClosed = errors.New("raftkv: node is shutting down")
	// ErrTooLarge: the key or the value is longer than allowed.
	ErrTooLarge = errors.New("raftkv: too large")
	// ErrBadKey: the key is empty or no valid UTF-8.
	ErrBadKey = errors.New("raftkv: bad key")
	// ErrBadTimeout: the timeout is not positive, or longer than MaxTimeout.
	ErrBadTimeout = errors.New("raftkv: bad timeout")
	// ErrBadRevision: no revision can come after it.
	ErrBadRevision = errors.New("raftkv: bad revision")
	// ErrBadMember: a member that cannot be added.
	ErrBadMember = errors.New("raftkv: bad member")
	// ErrNotAdded: the engine has not added a member. If it has lost its leadership meanwhile, the next leader may.
	ErrNotAdded = errors.New("raftkv: member not added")
)

// NotLeaderError says that another node leads, or none that is known. Nothing was written.
type NotLeaderError struct {
	Leader Member // zero if none is known
}

func (e *NotLeaderError) Error() string {
	if e.Leader.ID == "" {
		return "raftkv: not the leader, and none is known"
	}
	return fmt.Sprintf("raftkv: not the leader, which is %s at %s", e.Leader.ID, e.Leader.Address)
}

// Is reports that a node without a known leader has no leader.
func (e *NotLeaderError) Is(target error) bool { return target == ErrNoLeader && e.Leader.ID == "" }

// ProposalError says that a proposal ended without a result.
type ProposalError struct {
	// MaybeWritten is true if the engine was given the proposal: it may be applied now, later, or never. Otherwise it was
	// withdrawn before, and never will be.
	MaybeWritten bool
	Cause        error
}

func (e *ProposalError) Error() string {
	written := "not written"
	if e.MaybeWritten {
		written = "may have been written, or may be later"
	}
	return fmt.Sprintf("%v (%s)", e.Cause, written)
}

func (e *ProposalError) Unwrap() error { return e.Cause }

// waitError translates what a wait in a purgatory ended with.
func waitError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, purgatory.ErrExpired):
		return ErrDeadline
	case errors.Is(err, purgatory.ErrFull):
		return ErrFull
	case errors.Is(err, purgatory.ErrClosed):
		return ErrClosed
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return err
}

func checkKey(key string) error {
	switch {
	case key == "" || !utf8.ValidString(key):
		return fmt.Errorf("%w: %.40q", ErrBadKey, key)
	case len(key) > MaxKey:
		return fmt.Errorf("%w: a key of %d bytes, at most %d", ErrTooLarge, len(key), MaxKey)
	}
	return nil
}
