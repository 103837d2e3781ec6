package nats_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// A PONG of the source's server does not say that the other servers know of the subscription.
// The hint is published at another one as soon as the source has said Missed; there are no
// audits. What is lost in that moment is seen by the re-checks that follow a gap.
func TestAHintAtAnotherServerRightAfterMissed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		lag  time.Duration
	}{{"default", 2 * time.Second}, {"without repeats", 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cluster := startCluster(t)
			cluster.delay(30*time.Millisecond, 0)
			brokers := cluster.brokers
			nc, writer := brokers[0].connect("source"), brokers[1].connect("writer")
			source, err := natssignals.Subjects(nc, "hints.test")
			require.NoError(t, err)
			missed := make(chan chan struct{}, 100)
			h := startHearing(t, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
				time.Sleep(150 * time.Millisecond) // until the other servers know that the last subscription has gone
				return source.Run(ctx, &pausing{Sink: sink, missed: missed})
			}), signals.WithLag(c.lag))
			lost := 0
			for i := range rounds(10) {
				key, written := fmt.Sprint("key", i), new(atomic.Bool)
				var goOn chan struct{}
				if i == 0 {
					close(receive(t, missed, "the first Missed"))
				}
				asleep, answered := h.await(t.Context(), key, written.Load)
				receive(t, asleep, "the first read")
				before := h.Stats().Rechecks
				brokers[0].cut(nc)
				goOn = receive(t, missed, "Missed")
				close(goOn) // the runner re-checks
				eventually(t, func() bool { return h.Stats().Rechecks > before })
				written.Store(true)
				require.NoError(t, natssignals.Hint(writer, "hints.test", key, signals.Unknown))
				require.NoError(t, writer.Flush())
				patience := 30 * time.Second
				if c.lag == 0 {
					patience = 100 * time.Millisecond
				}
				select {
				case err := <-answered:
					require.NoError(t, err)
				case <-time.After(patience):
					lost++
				}
				for len(missed) > 0 {
					close(<-missed)
				}
			}
			t.Logf("%d of %d lost", lost, rounds(10))
			if c.lag > 0 {
				assert.Zero(t, lost)
			} else {
				assert.Positive(t, lost, "without the re-checks that follow a gap")
			}
		})
	}
}

// pausing waits, when the source has heard itself first, until the test lets it go on.
type pausing struct {
	signals.Sink[string]
	missed chan chan struct{}
	stands bool
}

func (p *pausing) Heard(probe uint64) {
	p.Sink.Heard(probe)
	if p.stands {
		return
	}
	p.stands = true
	goOn := make(chan struct{})
	p.missed <- goOn
	<-goOn
}

// accident is which routes of three servers are cut at a time.
type accident struct {
	name string
	cut  [][2]int
}

var accidents = []accident{
	{"one route", [][2]int{{1, 0}}},
	{"a server is cut off", [][2]int{{2, 0}, {2, 1}}},
	{"all routes", [][2]int{{1, 0}, {2, 0}, {2, 1}}},
}

// apart reports whether a message gets from one server to the other.
func (a accident) apart(i, j int) bool {
	return slices.Contains(a.cut, [2]int{i, j}) || slices.Contains(a.cut, [2]int{j, i})
}

// Routes between three servers are cut, so that no client's connection breaks, and what is
// published at one is not heard at another. A source at each hears by the others' heartbeats
// that something was lost.
func TestACutOfARouteIsAGapOnceItIsMended(t *testing.T) {
	t.Parallel()
	for _, a := range accidents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			var sources []hearing
			var writers []*nats.Conn
			for _, b := range c.brokers {
				source, err := natssignals.Subjects(b.connect("source"), "hints.test")
				require.NoError(t, err)
				sources = append(sources, startHearing(t, source))
				writers = append(writers, b.connect("writer"))
			}
			for _, s := range sources {
				s.awaitStanding(t, true)
			}
			for round := range rounds(2) {
				time.Sleep(2500 * time.Millisecond) // each source has heard the others' heartbeats
				// A second before the first wait: on a busy machine a source may notice a gap, or re-check everything
				// because of an earlier one, at any moment, and tries what waits for a while after it has counted that.
				noticed := func(s hearing) [2]int64 {
					stats := s.Stats()
					return [2]int64{stats.Gaps, stats.Rechecks}
				}
				var before [][2]int64
				for _, s := range sources {
					before = append(before, noticed(s))
				}
				time.Sleep(time.Second)
				var state sync.Map
				type waiting struct {
					key            string
					source, writer int
					answered       chan error
				}
				var waits []waiting
				for i := range 45 {
					w := waiting{key: fmt.Sprint("key ", round, i), source: i % 3, writer: i / 3 % 3}
					var asleep chan struct{}
					asleep, w.answered = sources[w.source].await(t.Context(), w.key, func() bool { _, ok := state.Load(w.key); return ok })
					receive(t, asleep, "the first read")
					waits = append(waits, w)
				}
				c.cut(a.cut...)
				for _, w := range waits {
					state.Store(w.key, true)
					require.NoError(t, natssignals.Hint(writers[w.writer], "hints.test", w.key, signals.Unknown))
				}
				for i, w := range waits {
					if !a.apart(w.source, w.writer) {
						require.NoError(t, receive(t, w.answered, "the answer to a hint that need not go over a route that is cut"))
						waits[i].answered = nil
					}
				}
				time.Sleep(1500 * time.Millisecond) // at least one heartbeat is lost, too
				for _, w := range waits {
					if early := len(w.answered); noticed(sources[w.source]) == before[w.source] {
						assert.Zero(t, early, "the route from %d to %d is cut, and nothing was noticed", w.writer, w.source)
					}
				}
				c.mend()
				for _, w := range waits {
					if w.answered != nil {
						require.NoError(t, receive(t, w.answered, fmt.Sprintf("the answer at %d, once the routes are mended: %+v", w.source, sources[w.source].Stats())))
					}
				}
				for _, s := range sources {
					assert.True(t, s.Stats().Standing)
				}
			}
		})
	}
}

// A source that subscribes while a route is cut has never heard the one at the other end. What is
// published there is lost until the route is mended, and that it is heard then is a gap.
func TestASourceThatBeginsWhileARouteIsCut(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	c.cut([2]int{1, 0})
	var sources []hearing
	for _, b := range c.brokers[:2] {
		source, err := natssignals.Subjects(b.connect("source"), "hints.test")
		require.NoError(t, err)
		sources = append(sources, startHearing(t, source))
	}
	for _, s := range sources {
		s.awaitStanding(t, true)
	}
	time.Sleep(4500 * time.Millisecond) // each of them has sent heartbeats
	var written atomic.Bool
	var answers []chan error
	for _, s := range sources {
		asleep, answered := s.await(t.Context(), "a", written.Load)
		receive(t, asleep, "the first read")
		answers = append(answers, answered)
	}
	written.Store(true)
	writer := c.brokers[2].connect("writer")
	c.cut([2]int{1, 0}, [2]int{2, 0}, [2]int{2, 1}) // nobody hears the writer
	require.NoError(t, natssignals.Hint(writer, "hints.test", "a", signals.Unknown))
	require.NoError(t, writer.Flush())
	c.mend()
	for _, answered := range answers {
		require.NoError(t, receive(t, answered, "the answer, once the route is mended"))
	}
}

// A route breaks and is mended at once, as where servers find each other by gossip. Heartbeats may miss nothing, and
// so nobody notices that hints were lost. The audit sees their changes, which is on by default.
func TestAShortBreakOfARouteIsSeenByTheAudit(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	source, err := natssignals.Subjects(c.brokers[0].connect("source"), "hints.test")
	require.NoError(t, err)
	asked := make(chan time.Duration, 10)
	p, err := purgatory.New[string]("test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	r, err := signals.To(p)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = r.Run(ctx, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
			return source.Run(ctx, asking{sink, asked})
		}))
	}()
	t.Cleanup(func() { cancel(); <-over })
	h := hearing{Runner: r, p: p}
	h.awaitStanding(t, true)
	assert.Equal(t, 15*time.Second, receive(t, asked, "a subscription"))
	time.Sleep(5 * time.Second) // the re-checks that follow the subscription are over, and an audit begins them anew
	writer := c.brokers[1].connect("writer")
	var state sync.Map
	var answers []chan error
	for i := range 30 {
		key := fmt.Sprint("key", i)
		asleep, answered := h.await(t.Context(), key, func() bool { _, ok := state.Load(key); return ok })
		receive(t, asleep, "the first read")
		answers = append(answers, answered)
	}
	c.cut([2]int{1, 0}, [2]int{2, 1})
	for i := range answers {
		state.Store(fmt.Sprint("key", i), true)
		require.NoError(t, natssignals.Hint(writer, "hints.test", fmt.Sprint("key", i), signals.Unknown))
	}
	require.NoError(t, writer.Flush())
	c.mend()
	for _, answered := range answers {
		require.NoError(t, receive(t, answered, "the answer"))
	}
	assert.Zero(t, r.Stats().Gaps, "nobody has noticed a gap")
	assert.Positive(t, r.Stats().Audits)
}

// asking tells for which audits a source asks.
type asking struct {
	signals.Sink[string]
	audits chan time.Duration
}

func (a asking) Subscribed(s signals.Subscription) {
	a.audits <- s.Audit
	a.Sink.Subscribed(s)
}

// Routes between the three servers of a bucket are cut while its keys are written at each.
func TestACutOfARouteLosesNothingOfABucket(t *testing.T) {
	t.Parallel()
	for _, a := range accidents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c, buckets := startReplicas(t)
			var sources []hearing
			for _, b := range c.brokers {
				// A replica that is cut off from the stream's leader answers reads from before the cut until it has caught up.
				sources = append(sources, startHearing(t, natssignals.KeyValue(b.connect("source"), bucket), signals.WithLag(20*time.Second)))
			}
			for _, s := range sources {
				s.awaitStanding(t, true)
			}
			for round := range rounds(2) {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				var reading, going sync.WaitGroup
				const n = 45
				answers, writes := make([]error, n), make([]error, n)
				key := func(i int) string { return fmt.Sprintf("key-%d-%d", round, i) }
				for i := range n {
					reading.Add(1)
					going.Go(func() {
						var once sync.Once
						_, answers[i] = signals.AwaitRead(ctx, sources[i%3].p, time.Hour, func(ctx context.Context) (ok, done bool, err error) {
							defer once.Do(reading.Done)
							err = insist(ctx, func(ctx context.Context) error {
								_, err := buckets[i%3].Get(ctx, key(i))
								if errors.Is(err, jetstream.ErrKeyNotFound) {
									return nil
								}
								ok = err == nil
								return err
							})
							return ok, ok, err
						}, key(i))
					})
				}
				reading.Wait()
				c.cut(a.cut...)
				for i := range n {
					going.Go(func() {
						writes[i] = insist(ctx, func(ctx context.Context) error {
							_, err := buckets[i/3%3].Put(ctx, key(i), nil)
							return err
						})
					})
				}
				time.Sleep(time.Duration(round%3+1) * 2 * time.Second) // up to the silence that ends a source
				c.mend()
				going.Wait()
				cancel()
				for i := range n {
					assert.NoError(t, writes[i], "write %d", i)
					assert.NoError(t, answers[i], "the wait for %s at server %d, written at %d", key(i), i%3, i/3%3)
				}
				for _, s := range sources {
					s.awaitStanding(t, true)
				}
			}
		})
	}
}
