package purgatory_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// leave ends the goroutine, and panics on the way, as FailNow of a test does whose cleanup
// panics. A recovered panic does not stop the Goexit.
func leave() {
	defer func() { panic("on the way") }()
	runtime.Goexit()
}

func TestAPanicDuringAGoexitInACallbackStopsNoOther(t *testing.T) {
	var told panics
	p := open[string](t, told.option())
	var all [3]*op
	met := false
	for i := range all {
		all[i] = &op{try: func() bool { return met }}
		if i == 0 {
			all[i].complete = leave
		}
		submit(t, p, all[i], hour, "a")
	}
	met = true
	inBackground(func() { p.CheckAndComplete("a") })()
	for _, o := range all {
		ended(t, o, operation.Satisfied)
	}
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestAPanicDuringAGoexitInACheckLosesNothing(t *testing.T) {
	var told panics
	p := open[string](t, told.option())
	var leaves, met atomic.Bool
	all := [3]*op{}
	for i := range all {
		all[i] = &op{try: func() bool {
			if i == 1 && leaves.Swap(false) {
				leave()
			}
			return met.Load() && i != 1
		}}
		submit(t, p, all[i], hour, "a")
	}
	other := &op{}
	submit(t, p, other, hour, "other")
	met.Store(true)
	leaves.Store(true)
	inBackground(func() { p.CheckAndComplete("a") })()
	ended(t, all[0], operation.Satisfied)
	ended(t, all[2], operation.Satisfied)
	for range 10 { // what that check has used is as new
		assert.Zero(t, p.CheckAndComplete("other"))
	}
	assert.True(t, p.ForceComplete(all[1]), "nobody holds it")
	assert.True(t, p.ForceComplete(other))
	require.NoError(t, p.Shutdown(t.Context()))
}

func TestAPanicDuringAGoexitInARegistrationLosesNothing(t *testing.T) {
	for _, at := range []int32{1, 2} {
		var told panics
		p := open[string](t, told.option(), purgatory.WithMaxPending(1))
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() == at {
				leave()
			}
			return false
		}
		inBackground(func() { _, _ = p.TryCompleteElseWatch(o, hour, "a") })()
		assert.Equal(t, 1, p.NumDelayed(), "it waits, after try %d", at)
		assert.True(t, p.ForceComplete(o))
		ended(t, o, operation.Forced)
		submit(t, p, &op{}, hour, "a")
		require.NoError(t, p.Close())
	}
}

func TestANilOperationIsRefusedBeforeItsKeysAreHashed(t *testing.T) {
	p := open[any](t)
	_, err := p.TryCompleteElseWatch(nil, hour, []int{1})
	require.ErrorIs(t, err, purgatory.ErrNilOperation)
}
