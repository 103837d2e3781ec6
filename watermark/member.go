package watermark

import (
	"time"

	"github.com/delayedop/purgatory/internal/sched"
	"github.com/delayedop/purgatory/timer"
)

// arrival is who enters a wait.
type arrival struct {
	now      time.Duration // since epoch
	inBubble bool
	keeps    bool    // the wait may be looked at for as long as its member likes
	m        *member // nil: one is made, if the first of the crowd does not serve
}

// epoch is where the times of members begin. They are those of the system, not of the purgatory's timer: a goroutine that
// waits reads that anyway, to know whether it is in a bubble.
var epoch = sched.Now()

// arrives returns an arrival of now.
func arrives() (a arrival) {
	now, inBubble := clock()
	return arrival{now: now.Sub(epoch), inBubble: inBubble}
}

// member is a goroutine in Await, or a Wait of StartWait, in a crowd. It leaves once, or stays to the end.
type member struct {
	prev, next *member       // in the order in which they came; guarded by mu
	since      time.Duration // when it came, since epoch
	alarm      *alarm        // nil: it has no timeout
	left       exit          // guarded by mu
	timeIsUp   bool          // its goroutine's
	ofCrowd    bool          // it is part of its crowd; constant
}

// exit is how a member has left.
type exit uint8

const (
	stays     exit = iota // in its wait, which may have ended for all
	getsThere             // its position was reached when it was about to leave
	givesUp
	timesOut
	isRefused // the timer takes no alarm
)

var members, alarms sched.Pool // of *member without an alarm, and of *alarm

// newMember returns a member of an earlier crowd, if there is one. It has no channel, so it may come from a bubble.
func newMember() *member {
	if m, ok := members.Get().(*member); ok {
		return m
	}
	return new(member)
}

// timed returns a member with a timeout that begins now.
func (w *Watermark[K]) timed(timeout time.Duration, inBubble bool) *member {
	t := w.p.Timer()
	now := t.Now()
	m := newMember()
	m.alarm = newAlarm(t, inBubble)
	m.alarm.now, m.alarm.deadline = now, timer.Deadline(now, timeout)
	return m
}

// release leaves m, unless it is nil or part of its crowd, to a later wait. It is in no crowd, or that has ended, and its
// alarm is not set.
func (m *member) release() {
	if m == nil || m.ofCrowd {
		return
	}
	if a := m.alarm; a != nil && a.again {
		a.of, a.m = nil, nil
		alarms.Put(a)
	}
	*m = member{}
	members.Put(m)
}

// alarm takes a member out when its timeout has passed. See docs/internals/decisions.md#each-member-of-a-crowd-has-a-timers-entry.
//
//  1. The member's goroutine sets it, and goes on when the wait has ended, the context has, or the alarm has rung.
//  2. The alarm takes the member out under mu before it rings. A goroutine that leaves for another reason finds, under the
//     same mu, what the alarm has made of it: so a member leaves once.
//  3. Cancel of the timer says whether the alarm may still ring. If so, neither the alarm nor the member, nor the crowd
//     that it would look at, is used again.
type alarm struct {
	timer    timer.Timer // of entry; constant
	entry    timer.TaskEntry
	now      time.Duration // when the timeout began, on the purgatory's clock
	deadline time.Duration
	of       interface{ ring(m *member) }
	m        *member
	rang     sched.Token
	again    bool // the alarm may be used again; constant
}

// newAlarm returns an alarm, which may be that of an earlier wait. An entry belongs to one timer, and a channel must not
// leave its bubble.
func newAlarm(t timer.Timer, inBubble bool) *alarm {
	if !inBubble {
		if a, ok := alarms.Get().(*alarm); ok && a.timer == t {
			return a
		}
	}
	a := &alarm{timer: t, rang: sched.NewToken(), again: !inBubble}
	a.entry.Bind(a)
	return a
}

// RunTask implements [timer.Task].
func (a *alarm) RunTask(*timer.TaskEntry) {
	a.of.ring(a.m)
	a.rang.Put()
}

// set sets the alarm of m, which is in s.
func (s *shared[K]) set(m *member) error {
	a := m.alarm
	a.of, a.m = s, m
	return a.timer.Entries().AddAt(&a.entry, a.now, a.deadline)
}

func (s *shared[K]) ring(m *member) { s.w.leave(s, m, timesOut) }

// leave takes m out of s, and returns how it leaves. If it has left before, leave returns how; stays if s has ended.
func (w *Watermark[K]) leave(s *shared[K], m *member, how exit) exit {
	w.mu.Lock()
	if m.left != stays || s.ended { // in this order: the crowd of one that has left may be that of another wait by now
		how = m.left
		m.prev, m.next = nil, nil // a Wait may be kept
		w.mu.Unlock()
		return how
	}
	if how == timesOut { // the alarm has called leave: the member's goroutine still listens, and would take the token
		s.again = false
	}
	how = w.leavesLocked(s.position, how)
	m.left = how
	s.removeLocked(m)
	w.mu.waiting--
	last := s.entered == 0
	if last {
		s.forgetLocked()
	}
	w.mu.Unlock()
	if last {
		w.p.Cancel(s, nil)
		w.mu.Lock()
		free := s.ended && s.again
		w.mu.Unlock()
		if free {
			crowds.Put(s.crowd)
		}
	}
	return how
}

// leavesLocked counts one that leaves, and returns how it does: a position that was reached is no failure.
func (w *Watermark[K]) leavesLocked(position int64, how exit) exit {
	if w.at.Load() >= position {
		how = getsThere
	}
	switch c := &w.mu.counts; how {
	case getsThere:
		c.Served++
	case givesUp:
		c.Left++
	case timesOut:
		c.Expired++
	case isRefused:
		c.Refused++
	}
	return how
}

// addLocked adds m at the end of the crowd.
func (c *crowd) addLocked(m *member) {
	m.left, m.prev, m.next = stays, c.last, nil
	if c.last = m; m.prev == nil {
		c.first = m
	} else {
		m.prev.next = m
	}
	c.entered++
}

func (c *crowd) removeLocked(m *member) {
	if m.prev == nil {
		c.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		c.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
	c.entered--
}
