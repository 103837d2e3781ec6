package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	uatomic "go.uber.org/atomic"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// mix is a run of the mix, with the counts of what its operations have observed.
type mix struct {
	p     *purgatory.DelayedOperationPurgatory[uint64]
	began time.Time

	// A worker holds gate for reading while it takes steps. The goroutine that compares
	// the accounts holds it for writing.
	gate sync.RWMutex
	stop atomic.Bool
	keys atomic.Uint64 // the number of the newest key

	tides [16]atomic.Int64 // numbers that only rise, for calls of Await

	// Counts of the workers and of the operations' methods, compared with Stats.
	steps       atomic.Int64
	accepted    atomic.Int64
	ended       [operation.NumOutcomes]atomic.Int64
	expirations atomic.Int64
	awaited     atomic.Int64 // calls of Await that expired: they have no OnExpiration
	thrown      atomic.Int64 // panics in methods
	reported    atomic.Int64 // calls of the panic handler

	violations atomic.Int64
	first      uatomic.String // text of the first violation
}

// firstTide is the key of the first tide. Other keys are lower.
const firstTide = 1 << 63

func (m *mix) now() int64 { return int64(time.Since(m.began)) }

func (m *mix) violated(format string, args ...any) {
	m.violations.Add(1)
	m.first.CompareAndSwap("", fmt.Sprintf(format, args...))
}

// runMix runs the mix for length and compares the accounts each second.
func runMix(length time.Duration, goroutines int, seed uint64) error {
	before := runtime.NumGoroutine()
	m := &mix{began: time.Now()}
	p, err := purgatory.New[uint64]("soak", purgatory.WithDiagnostics(),
		purgatory.WithPanicHandler(func(any, []byte) { m.reported.Add(1) }))
	if err != nil {
		return err
	}
	m.p = p
	workers := make([]*worker, goroutines)
	var group sync.WaitGroup
	for i := range workers {
		workers[i] = &worker{mix: m, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		group.Go(workers[i].run)
	}
	err = m.watch(length, workers)
	m.stop.Store(true)
	group.Wait()
	if closeErr := p.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
		return fmt.Errorf("%d goroutines are left, there were %d", runtime.NumGoroutine(), before)
	}
	return nil
}

// watch compares the accounts each second until length has passed. It compares the heap
// at the end with that after a warm-up.
func (m *mix) watch(length time.Duration, workers []*worker) error {
	warm := min(length/5, 10*time.Second)
	var base uint64
	last, lastSteps := m.began, int64(0)
	for elapsed := time.Duration(0); elapsed < length; {
		time.Sleep(min(time.Second, length-elapsed))
		elapsed = time.Since(m.began)
		m.gate.Lock()
		s, err := m.accounts()
		if err == nil && base == 0 && elapsed >= warm {
			base, err = m.drained(workers)
		}
		m.gate.Unlock()
		if err != nil {
			return err
		}
		steps := m.steps.Load()
		rate := float64(steps-lastSteps) / time.Since(last).Seconds()
		last, lastSteps = time.Now(), steps
		fmt.Printf("%5.0f s  %11d steps %9.0f/s  %11d accepted  %8d pending  %6d stale  %4d panics\n",
			elapsed.Seconds(), steps, rate, s.Accepted, s.Pending, s.Stale, s.Panics)
	}
	m.gate.Lock()
	defer m.gate.Unlock()
	end, err := m.drained(workers)
	if err != nil {
		return err
	}
	s, err := m.accounts()
	if err != nil {
		return err
	}
	if growth := int64(end) - int64(base); growth > 4_000_000 && growth > int64(base)/5 {
		return fmt.Errorf("the heap has grown from %s to %s", megabytes(base), megabytes(end))
	}
	fmt.Printf("soak: %d steps, %d operations on %d keys (satisfied %d, forced %d, expired %d, cancelled %d), %d panics, heap %s after %v and %s in the end: nothing lost\n",
		m.steps.Load(), s.Accepted, m.keys.Load(), s.Satisfied, s.Forced, s.Expired, s.Cancelled, s.Panics,
		megabytes(base), warm.Round(time.Second), megabytes(end))
	return nil
}
