package timer

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stoppable is a timer whose program can be stopped: its clock goes on, and no goroutine does.
type stoppable struct {
	*SystemTimer
	gone atomic.Int64 // how long it was stopped, in ns
}

func (s *stoppable) stop(d time.Duration) { s.gone.Add(int64(d)) }

// newStoppable returns a timer with one wheel, whose driver sleeps for as long as the wheels of several would not let it.
func newStoppable(t *testing.T, opts ...Option) *stoppable {
	t.Helper()
	timer, err := NewSystemTimer(append(opts, WithShards(1))...)
	require.NoError(t, err)
	t.Cleanup(func() { timer.Stop() })
	s := &stoppable{SystemTimer: timer}
	timer.clock = s
	return s
}

func (s *stoppable) read() time.Duration { return s.SystemTimer.read() + time.Duration(s.gone.Load()) }

const (
	sessionTimeout = time.Second
	grace          = 500 * ms
)

// sessions are handles that expire unless a heartbeat comes within sessionTimeout.
type sessions struct {
	all     []*Handle
	expired atomic.Int64
}

func open(t *testing.T, timer *stoppable, n int) *sessions {
	t.Helper()
	s := &sessions{}
	for range n {
		h, err := timer.AfterFunc(sessionTimeout, func() { s.expired.Add(1) })
		require.NoError(t, err)
		s.all = append(s.all, h)
	}
	return s
}

// heartbeats extends all sessions, and returns how many of them live.
func (s *sessions) heartbeats() (alive int) {
	for _, h := range s.all {
		if h.Extend(sessionTimeout) {
			alive++
		}
	}
	return alive
}

// In Nomad #3595, heartbeats that lie in the sockets after a pause come too late for their sessions. With
// a grace none of 20,000 sessions expires that is heard of within it, and all expire that are not.
func TestNomad3595HeartbeatsAfterAStallAreInTime(t *testing.T) {
	const n, stall = 20_000, 3 * time.Second
	for name, c := range map[string]struct {
		opts    []Option
		extends bool
		adds    bool // another goroutine adds an entry before the driver wakes up
		again   bool // the program is stopped again, within the grace
		expired int64
	}{
		"no grace":                       {nil, true, false, false, n},
		"no grace, an addition":          {nil, true, true, false, n},
		"heartbeats":                     {[]Option{WithStallGrace(grace)}, true, false, false, 0},
		"heartbeats, an addition":        {[]Option{WithStallGrace(grace)}, true, true, false, 0},
		"heartbeats after two stalls":    {[]Option{WithStallGrace(grace)}, true, false, true, 0},
		"no heartbeats":                  {[]Option{WithStallGrace(grace)}, false, false, false, n},
		"a shorter stall than the grace": {[]Option{WithStallGrace(stall)}, true, false, false, n},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timer := newStoppable(t, c.opts...)
				s := open(t, timer, n)
				timer.Start()
				settle(sessionTimeout / 2)
				timer.stop(stall)
				if c.adds {
					_, err := timer.AfterFunc(time.Hour, func() {})
					require.NoError(t, err)
				}
				settle(sessionTimeout / 2) // the driver wakes up
				if c.again {
					settle(grace / 2)
					timer.stop(stall)
					settle(grace / 2)
				}
				settle(grace / 2)
				if c.extends {
					assert.EqualValues(t, n-c.expired, s.heartbeats())
				} else {
					assert.Zero(t, s.expired.Load(), "within the grace")
				}
				settle(grace/2 + ms)
				assert.Equal(t, c.expired, s.expired.Load(), "after the grace")
				settle(2 * sessionTimeout)
				assert.EqualValues(t, n, s.expired.Load(), "without further heartbeats, and without a further grace")
				assert.False(t, timer.called.Load())
			})
		})
	}
}

// What is due while the program runs on time does not wait for the grace, and a stall in which nothing
// became due does not either. A reaper that wakes up at intervals knows of that stall all the same.
func TestOnlyAStallCostsItsGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newStoppable(t, WithStallGrace(grace))
		var at atomic.Int64
		after := func(d time.Duration) {
			_, err := timer.AfterFunc(d, func() { at.Store(int64(timer.Now())) })
			require.NoError(t, err)
		}
		timer.Start()
		after(300 * ms)
		settle(time.Second)
		assert.EqualValues(t, 300*ms, at.Load())
		timer.stop(time.Minute)
		after(0)
		synctest.Wait()
		assert.EqualValues(t, time.Minute+time.Second, at.Load())
		after(ms)
		settle(ms)
		assert.EqualValues(t, time.Minute+time.Second+ms, at.Load())
	})
	synctest.Test(t, func(t *testing.T) {
		timer := newStoppable(t, WithStallGrace(grace))
		s := open(t, timer, 1)
		go func() {
			for timer.Pending() > 0 {
				timer.AdvanceClock(100 * ms)
			}
		}()
		settle(50 * ms)
		timer.stop(sessionTimeout - 10*ms)
		settle(100 * ms) // its deadline has just passed, and the driver is much later
		assert.Equal(t, 1, s.heartbeats())
		s.all[0].Stop()
	})
}

// With a grace only the driver expires anything, because it waits: nobody stands in for it. A driver that
// waits ends when the timer stops.
func TestNobodyStandsInForADriverThatGivesAGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newStoppable(t, WithStallGrace(grace))
		s := open(t, timer, 1)
		timer.Start()
		synctest.Wait()
		assert.Equal(t, int64(never), timer.overdue.Load(), "though it sleeps")
		timer.stop(3 * time.Second)
		settle(sessionTimeout) // the driver waits
		assert.Zero(t, s.expired.Load())
		assert.Len(t, timer.Stop(), 1)
		settle(time.Hour)
		assert.Zero(t, s.expired.Load())
		assert.True(t, timer.Idle())
	})
}

// A driver that was not asleep when the program was stopped waits too. An addition does not cut the wait
// short. If the driver is stopped, it expires nothing.
func TestAGraceEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timer := newStoppable(t, WithStallGrace(grace))
		s := open(t, timer, 1)
		returned := make(chan bool, 1)
		advance := func() { returned <- timer.AdvanceClock(time.Hour) }
		timer.stop(3 * time.Second)
		go advance()
		settle(grace / 2)
		_, err := timer.AfterFunc(ms, func() { s.expired.Add(1) })
		require.NoError(t, err)
		settle(grace/2 - 1)
		assert.Zero(t, s.expired.Load())
		settle(1)
		assert.EqualValues(t, 2, s.expired.Load())
		assert.True(t, <-returned)

		stop := make(chan struct{})
		go func() { returned <- timer.AdvanceClockUntil(stop, sessionTimeout/2) }()
		_, err = timer.AfterFunc(3900*ms, func() {})
		require.NoError(t, err)
		synctest.Wait()
		timer.stop(3 * time.Second)
		settle(sessionTimeout / 2)              // as a reaper, it wakes up before it has to
		_, err = timer.AfterFunc(ms, func() {}) // earlier than what the driver slept for
		require.NoError(t, err)
		settle(2 * ms)
		require.Empty(t, returned)
		close(stop)
		synctest.Wait()
		require.Len(t, returned, 1)
		assert.False(t, <-returned)
		assert.Equal(t, 2, timer.Pending(), "for the next driver")
	})
}
