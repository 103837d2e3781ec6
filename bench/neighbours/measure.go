package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// A notification counts as lost if its waiter has not ended although nothing has for
// patience, in which the process used less processor time than idle. On a busy machine a
// notification that is only late keeps its process running.
const (
	patience = 2 * time.Second
	idle     = 10 * time.Millisecond
)

// progress counts waits that have ended, and lets the measuring goroutine sleep until
// enough have.
type progress struct {
	ended  atomic.Int64
	target atomic.Int64
	signal chan struct{}
	timer  *time.Timer // wait's
}

func newProgress() *progress {
	return &progress{signal: make(chan struct{}, 1), timer: time.NewTimer(patience)}
}

func (p *progress) done() {
	if p.ended.Add(1) >= p.target.Load() {
		select {
		case p.signal <- struct{}{}:
		default:
		}
	}
}

// expect is called before the change that lets ended come to target.
func (p *progress) expect(target int) { p.target.Store(int64(target)) }

// wait returns how many are missing: 0, or more if they are lost.
func (p *progress) wait() (missing int) {
	p.timer.Reset(patience)
	defer p.timer.Stop()
	for ended, cpu := p.ended.Load(), processorTime(); ; {
		if missing = int(p.target.Load() - p.ended.Load()); missing <= 0 {
			return 0
		}
		select {
		case <-p.signal:
		case <-p.timer.C:
			endedNow, cpuNow := p.ended.Load(), processorTime()
			if endedNow == ended && cpuNow-cpu < idle {
				return missing
			}
			ended, cpu = endedNow, cpuNow
			p.timer.Reset(patience)
		}
	}
}

// registered waits until each of the waits that were started is registered or has ended.
func registered(s subject, p *progress, started int) error {
	for deadline := time.Now().Add(time.Minute); s.Waiting()+int(p.ended.Load()) < started; runtime.Gosched() {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d waits were registered within a minute", s.Waiting()+int(p.ended.Load()), started)
		}
	}
	return nil
}

// figures are those of one subject with a number of waiters.
type figures struct {
	elapsed     time.Duration // median
	cpu         time.Duration // of the process, with registering, per wait or step
	allocations float64       // with registering, per wait or step
	lost        int
}

// usage is what a process has used.
type usage struct {
	cpu     time.Duration
	mallocs uint64
}

func used() usage {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return usage{processorTime(), m.Mallocs}
}

// processorTime is what the process has used.
func processorTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func (u usage) per(n int, f *figures) {
	now := used()
	f.cpu = (now.cpu - u.cpu) / time.Duration(n)
	f.allocations = float64(now.mallocs-u.mallocs) / float64(n)
}

func median(of []time.Duration) time.Duration {
	slices.Sort(of)
	return of[len(of)/2]
}

// wakeAll lets waiters wait for the same position of one key, again and again, and measures
// from Advance until the last of them is awake.
func wakeAll(m maker, waiters int, budget time.Duration) (f figures, err error) {
	s := m.make(1)
	defer s.Close()
	runtime.GC()
	p := newProgress()
	var times []time.Duration
	before := used()
	for start := time.Now(); len(times) < 3 || time.Since(start) < budget; {
		round := len(times) + 1
		p.expect(round * waiters)
		for range waiters {
			s.Start(0, int64(round), p.done)
		}
		if err := registered(s, p, round*waiters); err != nil {
			return f, err
		}
		begin := time.Now()
		s.Advance(0, int64(round))
		if f.lost = p.wait(); f.lost > 0 {
			return f, nil
		}
		times = append(times, time.Since(begin))
	}
	before.per(len(times)*waiters, &f)
	f.elapsed = median(times) / time.Duration(waiters)
	return f, nil
}

// oneStep lets waiters wait for one position each of one key, and advances it by one
// position at a time. It measures from Advance until the waiter concerned is awake; the
// waiter then waits again, behind all others.
func oneStep(m maker, waiters int, budget time.Duration) (f figures, err error) {
	s := m.make(1)
	defer s.Close()
	runtime.GC()
	p := newProgress()
	p.expect(1)
	for i := range waiters {
		s.Start(0, int64(i+1), p.done)
	}
	if err := registered(s, p, waiters); err != nil {
		return f, err
	}
	var times []time.Duration
	before := used()
	for start := time.Now(); len(times) < 3 || time.Since(start) < budget; {
		step := len(times) + 1
		p.expect(step)
		begin := time.Now()
		s.Advance(0, int64(step))
		missing := p.wait()
		times = append(times, time.Since(begin))
		if missing > 0 {
			f.lost++
			if f.lost == 3 {
				break
			}
		}
		s.Start(0, int64(step+waiters), p.done)
		if err := registered(s, p, waiters+step); err != nil {
			return f, err
		}
	}
	time.Sleep(50 * time.Millisecond) // waiters that were woken for nothing go on: they are part of the cost
	before.per(len(times), &f)
	f.elapsed = median(times)
	return f, nil
}

// burst lets one waiter wait on each of many keys, for the last of some positions, and
// advances every key to each of them in turn, with a pause between keys. It returns how
// many waiters were never woken.
func burst(m maker, keys, positions int, pause time.Duration) (lost int, err error) {
	s := m.make(keys)
	defer s.Close()
	p := newProgress()
	p.expect(keys)
	for key := range keys {
		s.Start(key, int64(positions), p.done)
	}
	if err := registered(s, p, keys); err != nil {
		return 0, err
	}
	for key := range keys {
		for position := range positions {
			s.Advance(key, int64(position+1))
		}
		if pause > 0 {
			time.Sleep(pause)
		}
	}
	return p.wait(), nil
}
