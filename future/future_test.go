package future

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

var errDown = errors.New("replica is down")

func TestEndsWhenTheConditionIsMetOrOutOfReach(t *testing.T) {
	type delivery struct {
		from   int
		err    error
		taken  bool
		endsIt bool
	}
	for _, test := range []struct {
		name       string
		condition  Condition
		deliveries []delivery
		want       error
	}{
		{"all", All(3), []delivery{{2, nil, true, false}, {0, nil, true, false}, {1, nil, true, true}}, nil},
		{"all, one fails", All(3), []delivery{{2, nil, true, false}, {0, errDown, true, true}, {1, nil, false, true}}, ErrUnreachable},
		{"any", Any(3), []delivery{{1, nil, true, true}, {0, nil, false, true}}, nil},
		{"any, the last one", Any(3), []delivery{{1, errDown, true, false}, {0, errDown, true, false}, {2, nil, true, true}}, nil},
		{"any, none", Any(2), []delivery{{1, errDown, true, false}, {0, errDown, true, true}}, ErrUnreachable},
		{"quorum", Quorum(2, 3), []delivery{{0, nil, true, false}, {2, nil, true, true}, {1, errDown, false, true}}, nil},
		{"quorum despite one", Quorum(2, 3), []delivery{{0, errDown, true, false}, {2, nil, true, false}, {1, nil, true, true}}, nil},
		{"quorum out of reach", Quorum(2, 3), []delivery{{0, errDown, true, false}, {2, errDown, true, true}, {1, nil, false, true}}, ErrUnreachable},
		{"duplicates count once", Quorum(2, 3), []delivery{{0, nil, true, false}, {0, nil, false, false}, {0, errDown, false, false}, {1, nil, true, true}}, nil},
		{"one of one", All(1), []delivery{{0, nil, true, true}, {0, nil, false, true}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newManual(t)
				var end ending
				f, err := GatherFunc(p, time.Second, test.condition, end.record, "f")
				require.NoError(t, err)
				var taken []Result[int]
				for i, d := range test.deliveries {
					require.Equal(t, d.taken, f.Deliver(d.from, 10*i, d.err), "delivery %d", i)
					if d.taken {
						taken = append(taken, Result[int]{From: d.from, Value: 10 * i, Err: d.err})
					}
					require.Equal(t, d.endsIt, end.calls == 1, "delivery %d", i)
				}
				assert.Equal(t, taken, end.results)
				assert.ErrorIs(t, end.err, test.want)
				p.AdvanceClock(time.Hour)
				assert.Equal(t, 1, end.calls)

				results, err := f.Wait(t.Context())
				assert.Equal(t, taken, results)
				assert.ErrorIs(t, err, test.want)
				s := p.Stats()
				assert.EqualValues(t, 1, s.Satisfied)
				assert.Zero(t, s.WastedChecks, "only the delivery that decides has it checked")
			})
		})
	}
}

func TestATimeoutKeepsTheResultsThatArrived(t *testing.T) {
	p := newManual(t)
	var end ending
	f, err := GatherFunc(p, time.Second, Quorum(3, 5), end.record, "f")
	require.NoError(t, err)
	f.Deliver(4, 40, nil)
	f.Deliver(1, 10, errDown)
	p.AdvanceClock(time.Second - 1)
	require.Zero(t, end.calls)
	p.AdvanceClock(1)
	require.Equal(t, 1, end.calls)
	assert.Equal(t, []Result[int]{{4, 40, nil}, {1, 10, errDown}}, end.results)
	assert.ErrorIs(t, end.err, purgatory.ErrExpired)
	assert.ErrorIs(t, end.err, errDown)
	assert.EqualError(t, end.err,
		"purgatory: timed out after 1s (wanted 3 of 5 results, arrived 1, failed 1); source 1: replica is down")
	assert.False(t, f.Deliver(0, 0, nil), "late")
	assert.Len(t, end.results, 2)
}

func TestAZeroTimeoutExpiresAtOnce(t *testing.T) {
	p := newManual(t)
	f, err := Gather[int](p, 0, All(1), "f")
	require.NoError(t, err)
	p.AdvanceClock(0)
	_, err = f.Wait(t.Context())
	assert.ErrorIs(t, err, purgatory.ErrExpired)
}

func TestWaitEndsTheFutureWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newManual(t)
		f, err := Gather[int](p, time.Second, All(2), "f")
		require.NoError(t, err)
		f.Deliver(1, 10, nil)
		gone := errors.New("client has gone")
		ctx, leave := context.WithCancelCause(t.Context())
		leave(gone)
		for range 2 {
			results, err := f.Wait(ctx)
			assert.ErrorIs(t, err, gone)
			assert.Equal(t, []Result[int]{{1, 10, nil}}, results)
		}
		assert.False(t, f.Deliver(0, 0, nil))
		assert.Zero(t, p.Watched())
	})
}

func TestWaitReturnsTheResultThoughItsContextHasEnded(t *testing.T) {
	p := newManual(t)
	f, err := Gather[int](p, time.Second, All(1), "f")
	require.NoError(t, err)
	f.Deliver(0, 10, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = f.Wait(ctx)
	assert.NoError(t, err)
}

func TestEveryWaiterGetsTheResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newManual(t)
		f, err := Gather[int](p, time.Second, All(1), "f")
		require.NoError(t, err)
		errs := make(chan error)
		for range 4 {
			go func() {
				_, err := f.Wait(t.Context())
				errs <- err
			}()
		}
		select {
		case <-f.Done():
			t.Fatal("nothing has arrived")
		default:
		}
		f.Deliver(0, 10, nil)
		for range 4 {
			assert.NoError(t, <-errs)
		}
		<-f.Done()
	})
}

// A function that blocks holds up no drain: a worker calls it.
func TestAFunctionThatBlocksHoldsUpNoDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newManual(t)
		goOn := make(chan struct{})
		_, err := GatherFunc(p, time.Hour, All(1), func([]Result[int], error) { <-goOn }, "f")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		drained := make(chan error, 1)
		go func() { drained <- p.Shutdown(ctx) }()
		time.Sleep(time.Minute)
		require.Len(t, drained, 1)
		require.ErrorContains(t, <-drained, "1 operations are unanswered")
		close(goOn)
	})
}

func TestCancelAndCloseEndTheFuture(t *testing.T) {
	because := errors.New("leader has moved")
	for _, test := range []struct {
		name string
		end  func(*futures, *Future[int])
		want error
	}{
		{"cancel", func(_ *futures, f *Future[int]) { f.Cancel(because) }, because},
		{"cancel without a cause", func(_ *futures, f *Future[int]) { f.Cancel(nil) }, purgatory.ErrCancelled},
		{"cancel for its own key", func(p *futures, _ *Future[int]) { p.CancelForKey("f", because) }, because},
		{"cancel for a key that it shares", func(p *futures, _ *Future[int]) { p.CancelForKey("partition", because) }, because},
		{"close", func(p *futures, _ *Future[int]) { p.Close() }, purgatory.ErrClosed},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newManual(t)
			var end ending
			f, err := GatherFunc(p, time.Second, Quorum(2, 3), end.record, "f", "partition")
			require.NoError(t, err)
			f.Deliver(0, 7, nil)
			for range 2 {
				test.end(p, f)
				assert.Equal(t, 1, end.calls)
			}
			assert.ErrorIs(t, end.err, test.want)
			assert.Equal(t, []Result[int]{{0, 7, nil}}, end.results)
			assert.False(t, f.Deliver(1, 8, nil))
			_, err = f.Wait(t.Context())
			assert.ErrorIs(t, err, test.want)
		})
	}
}

func TestPostMayBeCalledUnderTheFunctionsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newManual(t)
		var lock sync.Mutex
		ended := make(chan error)
		f, err := GatherFunc(p, time.Hour, All(1), func(_ []Result[int], err error) {
			lock.Lock()
			defer lock.Unlock()
			ended <- err
		}, "f")
		require.NoError(t, err)
		lock.Lock()
		assert.True(t, f.Post(0, 1, nil))
		lock.Unlock()
		assert.NoError(t, <-ended)
		assert.False(t, f.Post(0, 1, nil), "it has ended")
		assert.EqualValues(t, 1, p.Stats().Signals, "nobody need look again")
		require.NoError(t, p.Shutdown(t.Context()))
	})
}

func TestManyFuturesInOnePurgatory(t *testing.T) {
	p := newManual(t)
	names := []string{"a", "b", "c"}
	ends := make([]ending, len(names))
	var all []*Future[int]
	for i, name := range names {
		f, err := GatherFunc(p, time.Second, Quorum(2, 2), ends[i].record, name)
		require.NoError(t, err)
		all = append(all, f)
	}
	for i, f := range all {
		f.Deliver(0, i, nil)
		f.Deliver(1, i, nil)
		assert.Equal(t, 1, ends[i].calls)
		assert.Equal(t, len(names)-1-i, p.NumDelayed())
	}
}

func TestAFutureMayHaveOver64Sources(t *testing.T) {
	for _, n := range []int{63, 64, 65, 1000, MaxSources} {
		p := newManual(t)
		f, err := Gather[int](p, time.Second, All(n), "f")
		require.NoError(t, err)
		for i := n - 1; i >= 0; i-- {
			require.True(t, f.Deliver(i, i, nil))
			require.False(t, f.Deliver(i, i, nil))
		}
		results, err := f.Wait(t.Context())
		require.NoError(t, err)
		require.Len(t, results, n)
	}
}

func TestErrorNamesAFewFailures(t *testing.T) {
	last := errors.New("the last one")
	for n, text := range map[int]string{
		1: "source 0: the last one",
		3: "source 2: replica is down; source 0: replica is down; source 1: the last one",
		4: "source 2: replica is down; source 0: replica is down; source 1: replica is down; and 1 more",
		6: "source 3: replica is down; source 1: replica is down; source 2: replica is down; and 3 more",
	} {
		p := newManual(t)
		f, err := Gather[int](p, time.Second, Any(n), "f")
		require.NoError(t, err)
		order := map[int][]int{1: {0}, 3: {2, 0, 1}, 4: {2, 0, 1, 3}, 6: {3, 1, 2, 5, 0, 4}}[n]
		for i, from := range order { // in the order in which they have failed
			f.Deliver(from, 0, []error{errDown, last}[(i+1)/n])
		}
		_, err = f.Wait(t.Context())
		assert.ErrorIs(t, err, last)
		assert.EqualError(t, err, fmt.Sprintf("future: the results wanted can no longer arrive (wanted 1 of %d results, arrived 0, failed %d); %s", n, n, text))
	}
}

// Futures share further keys, as the name of a connection. Only the first is checked, and only by the delivery that decides: so nobody
// is tried in vain, and CancelForKey ends all.
func TestADeliveryTriesItsOwnFutureOnly(t *testing.T) {
	p := newManual(t)
	var all []*Future[int]
	for i := range 10 {
		f, err := Gather[int](p, time.Second, Quorum(2, 3), string(rune('a'+i)), "connection")
		require.NoError(t, err)
		all = append(all, f)
		assert.True(t, f.Deliver(0, 0, nil))
	}
	for i, f := range all[:5] {
		assert.True(t, f.Deliver(2, 0, nil))
		_, err := f.Wait(t.Context())
		assert.NoError(t, err)
		assert.EqualValues(t, i+1, p.Stats().Checks)
	}
	assert.Zero(t, p.Stats().WastedChecks)
	assert.Equal(t, 5, p.CancelForKey("connection", errDown))
	for _, f := range all[5:] {
		_, err := f.Wait(t.Context())
		assert.ErrorIs(t, err, errDown)
	}
	assert.Zero(t, p.Watched())
}

// The keys are copied: the caller may use its slice again.
func TestAFutureKeepsNoSliceOfItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newManual(t)
		for by, ends := range map[string]func(*Future[int]){
			"Deliver":      func(f *Future[int]) { f.Deliver(0, 1, nil) },
			"Post":         func(f *Future[int]) { f.Post(0, 1, nil) },
			"Cancel":       func(f *Future[int]) { f.Cancel(errDown) },
			"CancelForKey": func(*Future[int]) { p.CancelForKey("f", errDown) },
		} {
			keys := []string{"f", "connection"}
			f, err := Gather[int](p, time.Hour, Any(1), keys...)
			require.NoError(t, err)
			keys[0], keys[1] = "g", "g"
			ends(f)
			synctest.Wait()
			select {
			case <-f.Done():
			default:
				t.Errorf("%s has not ended the future", by)
			}
		}
	})
}

func TestInvalidFuturesAreRefused(t *testing.T) {
	p := newManual(t)
	never := func([]Result[int], error) { t.Error("was not accepted") }
	for _, c := range []Condition{{}, All(0), Any(0), Any(-1), Quorum(0, 3), Quorum(4, 3), Quorum(-1, 3), All(MaxSources + 1)} {
		_, err := GatherFunc(p, time.Second, c, never, "f")
		assert.ErrorIs(t, err, ErrInvalidCondition, "%v", c)
		assert.ErrorContains(t, err, c.String())
	}
	_, err := GatherFunc(p, time.Second, All(1), never)
	assert.ErrorIs(t, err, purgatory.ErrNoKeys)
	p.Close()
	_, err = GatherFunc(p, time.Second, All(1), never, "f")
	assert.ErrorIs(t, err, purgatory.ErrClosed)
}

func TestDeliverPanicsOnAnUnknownSource(t *testing.T) {
	p := newManual(t)
	f, err := Gather[int](p, time.Second, All(3), "f")
	require.NoError(t, err)
	assert.PanicsWithValue(t, "future: delivery from source 3, there are 3", func() { f.Deliver(3, 0, nil) })
	assert.PanicsWithValue(t, "future: delivery from source -1, there are 3", func() { f.Post(-1, 0, nil) })
	assert.True(t, f.Deliver(2, 0, nil), "no lock was left behind")
}
