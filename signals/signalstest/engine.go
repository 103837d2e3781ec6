package signalstest

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/delayedop/purgatory/signals"
)

// Engine describes to the checks what a source listens to. Its functions may be called from
// any goroutine.
type Engine[K comparable] struct {
	// Source returns a new source. The checks call it before each Run.
	Source func() signals.Source[K]
	// Key returns the i-th of many different keys.
	Key func(i int) K
	// Write sets the state of key, and sends the hint. It does not use the source's
	// connection, and retries while the engine cannot be reached.
	Write func(ctx context.Context, key K, value int64) error
	// Read returns the value that was written last, or 0. It does not use the source's
	// connection either.
	Read func(ctx context.Context, key K) (int64, error)
	// Cut breaks the connections that the source has now. The source can reconnect at once.
	Cut func()
	// Resumes says that after a cut the source goes on where it was, and need not call Missed.
	Resumes bool
	// Overflow makes a slow source lose hints: it writes until the engine or its client
	// drops a hint. The check's sink blocks in Changed meanwhile, until Overflow returns or
	// calls release. Nil: the engine never drops hints of a slow source.
	Overflow func(ctx context.Context, release func()) error
	// Stop stops the engine, which keeps its state, and Start starts it again. Nil: the check
	// of outages does not apply.
	Stop, Start func()
	// Revoke takes away the source's right to subscribe, while its connection stands, and Restore
	// gives it back. Nil: that check does not apply.
	Revoke, Restore func()
	// Deafen has the engine accept connections and subscriptions, as it did, and deliver nothing to
	// the source; Undeafen ends that. Nil: those checks do not apply.
	Deafen, Undeafen func()
	// Elsewhere are like Write, each at another server of a cluster, or to another partition.
	// None: that check does not apply.
	Elsewhere []func(ctx context.Context, key K, value int64) error

	// Cuts is the number of rounds of the check of random cuts, and Waits is the number of
	// waits in each. Default 20 and 15.
	Cuts, Waits int
	// Pause is the longest pause before a cut. Default 5 ms.
	Pause time.Duration
	// Seed is that of the pauses of RandomCuts. Default 0: they are random.
	Seed uint64
	// Patience is how long a check waits before it reports that something was lost.
	// Default 30 s.
	Patience time.Duration
	// Middle wraps the sink that the source is given. Default: nothing does. It is for the
	// tests of this package and of plugins, which leave out calls.
	Middle func(signals.Sink[K]) signals.Sink[K]

	pauses *rand.Rand
	late   *atomic.Int64 // calls of a sink after the end of its source
}

func (e *Engine[K]) withDefaults() Engine[K] {
	d := *e
	if d.Cuts == 0 {
		d.Cuts = 20
	}
	if d.Waits == 0 {
		d.Waits = 15
	}
	if d.Seed == 0 {
		d.Seed = rand.Uint64()
	}
	d.late = new(atomic.Int64)
	d.pauses = rand.New(rand.NewPCG(d.Seed, 0))
	if d.Pause == 0 {
		d.Pause = 5 * time.Millisecond
	}
	if d.Patience == 0 {
		d.Patience = 30 * time.Second
	}
	if d.Middle == nil {
		d.Middle = func(s signals.Sink[K]) signals.Sink[K] { return s }
	}
	return d
}

// run runs a new source of e. It counts the calls of sink that come after that has ended.
func (e Engine[K]) run(ctx context.Context, sink signals.Sink[K]) error {
	return e.runs(e.Source())(ctx, sink)
}

// runs is run for one source that is run again and again.
func (e Engine[K]) runs(source signals.Source[K]) signals.SourceFunc[K] {
	return func(ctx context.Context, sink signals.Sink[K]) error {
		counting := &counting[K]{Sink: sink, late: e.late}
		defer counting.over.Store(true)
		return source.Run(ctx, e.Middle(counting))
	}
}

// counting counts the calls that come after the end of the source.
type counting[K comparable] struct {
	signals.Sink[K]
	over atomic.Bool
	late *atomic.Int64
}

func (c *counting[K]) count() {
	if c.over.Load() {
		c.late.Add(1)
	}
}

func (c *counting[K]) Changed(key K, position int64)     { c.count(); c.Sink.Changed(key, position) }
func (c *counting[K]) Missed(cause error)                { c.count(); c.Sink.Missed(cause) }
func (c *counting[K]) Subscribed(s signals.Subscription) { c.count(); c.Sink.Subscribed(s) }
func (c *counting[K]) Heard(probe uint64)                { c.count(); c.Sink.Heard(probe) }

// Check is a check of the suite.
type Check[K comparable] struct {
	Name string
	Run  func(ctx context.Context, e Engine[K]) error
	// Skip returns why the check does not apply to e; empty: it applies.
	Skip func(e Engine[K]) string
}

// Checks returns the suite.
func Checks[K comparable]() []Check[K] {
	check := func(name string, run func(context.Context, Engine[K]) error) Check[K] {
		return Check[K]{
			Name: name,
			Run:  func(ctx context.Context, e Engine[K]) error { return run(ctx, e.withDefaults()) },
			Skip: func(Engine[K]) string { return "" },
		}
	}
	overflow := check("says so after an overflow", saysOverflow[K])
	overflow.Skip = func(e Engine[K]) string {
		if e.Overflow == nil {
			return "the engine never drops hints of a slow source"
		}
		return ""
	}
	outage := check("an outage shows, and loses no wait", survivesOutage[K])
	outage.Skip = func(e Engine[K]) string {
		if e.Stop == nil || e.Start == nil {
			return "the engine cannot be stopped"
		}
		return ""
	}
	rights := check("rights that are taken away show, and lose no wait", survivesRevocation[K])
	rights.Skip = func(e Engine[K]) string {
		if e.Revoke == nil || e.Restore == nil {
			return "the engine has no rights to take away"
		}
		return ""
	}
	deafness := []Check[K]{
		check("does not stand where the engine delivers nothing", standsNotWhereDeaf[K]),
		check("an engine that delivers nothing any more shows, and loses no wait", survivesDeafness[K]),
	}
	for i := range deafness {
		deafness[i].Skip = func(e Engine[K]) string {
			if e.Deafen == nil || e.Undeafen == nil {
				return "the engine delivers, or breaks the connection"
			}
			return ""
		}
	}
	elsewhere := check("no wait is lost whose key is written elsewhere after a gap", hearsFromElsewhere[K])
	elsewhere.Skip = func(e Engine[K]) string {
		if len(e.Elsewhere) == 0 {
			return "the engine is one server, or one partition"
		}
		return ""
	}
	return append([]Check[K]{
		check("stands before it says so", standsFirst[K]),
		check("no hint is lost that comes after the re-check, at a reconnect", hearsAfterRecheck[K]),
		check("no wait is lost at a cut", losesNothing[K]),
		overflow,
		outage,
		rights,
		elsewhere,
		check("ends with its context", endsWithContext[K]),
		check("leaves no goroutine", leavesNothing[K]),
	}, deafness...)
}

// Run runs every check as a subtest, each with an engine of its own.
func Run[K comparable](t *testing.T, open func(t *testing.T) Engine[K]) {
	for _, c := range Checks[K]() {
		t.Run(c.Name, func(t *testing.T) {
			e := open(t)
			if why := c.Skip(e); why != "" {
				t.Skip(why)
			}
			if err := c.Run(t.Context(), e); err != nil {
				t.Error(err)
			}
		})
	}
}
