package nats_test

import (
	"context"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
	"github.com/delayedop/purgatory/signals/signalstest"
)

func TestConformanceOfABucket(t *testing.T)  { conforms(t, bucketEngine) }
func TestConformanceOfReplicas(t *testing.T) { conforms(t, replicasEngine) }
func TestConformanceOfSubjects(t *testing.T) { conforms(t, subjectEngine) }

func conforms(t *testing.T, open func(*testing.T) signalstest.Engine[string]) {
	t.Parallel()
	signalstest.Run(t, open)
}

func TestRandomCutsOfABucket(t *testing.T)  { losesNothing(t, bucketEngine(t)) }
func TestRandomCutsOfSubjects(t *testing.T) { losesNothing(t, subjectEngine(t)) }
func TestSubjectsWithoutReChecksLose(t *testing.T) {
	e := subjectEngine(t)
	e.Cuts, e.Patience = 300, time.Second
	var heard atomic.Bool
	e.Middle = func(s signals.Sink[string]) signals.Sink[string] { return deaf{s, &heard} }
	o, err := signalstest.RandomCuts(t.Context(), e)
	require.NoError(t, err)
	assert.Positive(t, o.Lost)
	t.Log(o)
}

func losesNothing(t *testing.T, e signalstest.Engine[string]) {
	t.Helper()
	o, err := signalstest.RandomCuts(t.Context(), e)
	require.NoError(t, err)
	assert.Zero(t, o.Lost)
	assert.Zero(t, o.Twice)
	assert.Equal(t, o.Waits, o.Answered)
	t.Log(o)
}

// deaf passes on the first subscription only.
type deaf struct {
	signals.Sink[string]
	heard *atomic.Bool
}

func (d deaf) Missed(error) {}

func (d deaf) Subscribed(s signals.Subscription) {
	if !d.heard.Swap(true) {
		d.Sink.Subscribed(s)
	}
}

// heard collects what a sink is told.
type heard struct {
	changes chan change
	gaps    chan error
	patient bool // the source may be deaf for an hour, because changes has no room
}

type change struct {
	key      string
	position int64
}

func newHeard() heard {
	return heard{changes: make(chan change, 10_000), gaps: make(chan error, 1000)}
}

func (h heard) Changed(key string, position int64) { h.changes <- change{key, position} }
func (h heard) Missed(cause error)                 { h.gaps <- cause }

// run runs source once, at a runner that tells h what it is told.
func run(ctx context.Context, source signals.Source[string], h heard) (err error) {
	r, err := signals.To[string](nobody{}, signals.WithAudit(0), signals.WithLag(0))
	if err != nil {
		return err
	}
	within, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	_ = r.Run(within, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		err = source.Run(ctx, telling{sink, h, r})
		cancel(nil) // it is not run again
		return err
	}))
	return err
}

// nobody are Waiters without a wait.
type nobody struct{}

func (nobody) SignalUpTo(string, int64) bool { return false }
func (nobody) Keys() iter.Seq[string]        { return func(func(string) bool) {} }

// telling tells h what the runner is told, and that its source stands.
type telling struct {
	signals.Sink[string]
	h heard
	r *signals.Runner[string]
}

func (t telling) Changed(key string, position int64) {
	t.h.Changed(key, position)
	t.Sink.Changed(key, position)
}

func (t telling) Missed(cause error) {
	t.h.Missed(cause)
	t.Sink.Missed(cause)
}

func (t telling) Subscribed(s signals.Subscription) {
	if t.h.patient {
		s.Limit = time.Hour
	}
	t.Sink.Subscribed(s)
}

func (t telling) Heard(probe uint64) {
	stood := t.r.Stats().Standing
	t.Sink.Heard(probe)
	if !stood && t.r.Stats().Standing {
		t.h.Missed(signals.ErrSubscribed)
	}
}

func receive[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(time.Minute):
		require.FailNow(t, "did not come", what)
	}
	return v
}

func runIn(t *testing.T, source signals.Source[string], sink heard) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, source, sink) }()
	return sync.OnceValue(func() error { cancel(); return <-done })
}

func TestABucketGoesOnWithTheNextRevision(t *testing.T) {
	b := startBroker(t)
	e := b.bucketEngine()
	h := newHeard()
	source := e.Source()
	stop := runIn(t, source, h)
	require.ErrorIs(t, receive(t, h.gaps, "the first Missed"), signals.ErrSubscribed)
	require.NoError(t, e.Write(t.Context(), "a", 1))
	require.Equal(t, change{"a", 1}, receive(t, h.changes, "a"))
	_ = stop()
	require.NoError(t, e.Write(t.Context(), "b", 1)) // nobody hears that
	require.NoError(t, e.Write(t.Context(), "c", 1))
	stop = runIn(t, source, h)
	assert.Equal(t, change{"b", 2}, receive(t, h.changes, "b"))
	assert.Equal(t, change{"c", 3}, receive(t, h.changes, "c"))
	_ = stop()
}

func TestABucketThatWasMadeAnewIsHeardFromItsFirstRevision(t *testing.T) {
	b := startBroker(t)
	e := b.bucketEngine()
	js, err := jetstream.New(b.connect("admin"))
	require.NoError(t, err)
	h := newHeard()
	source := e.Source()
	stop := runIn(t, source, h)
	_ = receive(t, h.gaps, "the first Missed")
	for i := range 20 {
		require.NoError(t, e.Write(t.Context(), "a", int64(i)))
		receive(t, h.changes, "a")
	}
	_ = stop()
	require.NoError(t, js.DeleteKeyValue(t.Context(), bucket))
	require.Eventually(t, func() bool { // the server removes the old one's files later
		_, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: bucket})
		return err == nil
	}, 30*time.Second, 10*time.Millisecond)
	stop = runIn(t, source, h)
	_ = receive(t, h.gaps, "Missed")
	require.NoError(t, e.Write(t.Context(), "b", 1))
	assert.Equal(t, change{"b", 1}, receive(t, h.changes, "b"))
	_ = stop()
}

// Other programs write keys with '=' as they are.
func TestAKeyOfAnotherProgramKeepsItsName(t *testing.T) {
	b := startBroker(t)
	b.bucketEngine()
	js, err := jetstream.New(b.connect("stranger"))
	require.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), bucket)
	require.NoError(t, err)
	h := startHearing(t, natssignals.KeyValue(b.connect("source"), bucket))
	h.awaitStanding(t, true)
	for _, key := range []string{"x=41y", "orders.17", "abc==", "n=10", "page=20.x", "plain"} {
		asleep, answered := h.await(t.Context(), key, func() bool { _, err := kv.Get(t.Context(), key); return err == nil })
		receive(t, asleep, "the first read")
		_, err := kv.Put(t.Context(), key, nil)
		require.NoError(t, err)
		require.NoError(t, receive(t, answered, "the answer to a wait for "+key))
	}
}

// Anybody who may write to the bucket may give a message the header of a heartbeat.
func TestAnEntryThatLooksLikeAHeartbeatIsAHint(t *testing.T) {
	b := startBroker(t)
	e := b.bucketEngine()
	h := newHeard()
	stop := runIn(t, e.Source(), h)
	_ = receive(t, h.gaps, "the first Missed")
	m := nats.NewMsg("$KV." + bucket + ".a")
	m.Header.Set("Status", "100")
	require.NoError(t, b.connect("stranger").PublishMsg(m))
	assert.Equal(t, change{"a", 1}, receive(t, h.changes, "the entry with a status"))
	require.NoError(t, e.Write(t.Context(), "b", 1))
	assert.Equal(t, change{"b", 2}, receive(t, h.changes, "the one after it"))
	assert.Empty(t, h.gaps, "nothing was missing")
	_ = stop()
}

func TestSubjectsCarryThePosition(t *testing.T) {
	b := startBroker(t)
	nc := b.connect("both")
	source, err := natssignals.Subjects(nc, "hints.orders")
	require.NoError(t, err)
	h := newHeard()
	stop := runIn(t, source, h)
	_ = receive(t, h.gaps, "the first Missed")
	require.NoError(t, natssignals.Hint(nc, "hints.orders", "a.b > *", 17))
	require.NoError(t, natssignals.Hint(nc, "hints.orders", "unknown", signals.Unknown))
	require.NoError(t, nc.Publish("hints.orders.not=an=escape", nil)) // a stranger's
	require.NoError(t, natssignals.Hint(nc, "hints.others", "elsewhere", 1))
	require.NoError(t, nc.Publish("hints.orders.last", []byte("no number")))
	assert.Equal(t, change{"a.b > *", 17}, receive(t, h.changes, "the first"))
	assert.Equal(t, change{"unknown", signals.Unknown}, receive(t, h.changes, "the second"))
	assert.Equal(t, change{"last", signals.Unknown}, receive(t, h.changes, "the last"))
	assert.ErrorIs(t, stop(), context.Canceled)
}

func TestASubscriptionThatIsRefusedIsAnError(t *testing.T) {
	b := startBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{"other.>", "_INBOX.>"}},
		}}}
	})
	nc := b.connect("refused", nats.UserInfo("u", "p"))
	source, err := natssignals.Subjects(nc, "hints.orders")
	require.NoError(t, err)
	h := newHeard()
	assert.ErrorIs(t, run(t.Context(), source, h), nats.ErrPermissionViolation)
	assert.Empty(t, h.gaps, "it never stood")
}

func TestASourceEndsWithItsConnection(t *testing.T) {
	b := startBroker(t)
	b.bucketEngine()
	nc := b.connect("closed")
	subjects, err := natssignals.Subjects(nc, "hints")
	require.NoError(t, err)
	ended := make(chan error, 2)
	h := newHeard()
	for _, s := range []signals.Source[string]{subjects, natssignals.KeyValue(nc, bucket)} {
		go func() { ended <- run(t.Context(), s, h) }()
	}
	_ = receive(t, h.gaps, "Missed")
	_ = receive(t, h.gaps, "Missed")
	nc.Close()
	assert.Error(t, receive(t, ended, "the end"))
	assert.Error(t, receive(t, ended, "the end"))
	assert.Error(t, run(t.Context(), natssignals.KeyValue(b.connect("other"), "no-such-bucket"), h))
}

// While the sink is slow, a key takes one place however often it changes: there is room for each
// key once.
func TestHintsCoalesceByKeyWhileTheyQueue(t *testing.T) {
	const keys, changes = 100, 10_000
	defer natssignals.SetMaxKeys(keys + 1)()
	for name, open := range map[string]func(*testing.T) signalstest.Engine[string]{"bucket": bucketEngine, "subjects": subjectEngine} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			h := heard{make(chan change), make(chan error, changes), true} // no room
			ended := make(chan error, 1)
			ctx, cancel := context.WithCancel(t.Context())
			go func() { ended <- run(ctx, e.Source(), h) }()
			_ = receive(t, h.gaps, "the first Missed")
			for i := range changes {
				require.NoError(t, e.Write(t.Context(), key(i%keys), int64(i)))
			}
			require.NoError(t, e.Write(t.Context(), "the end", 1))
			all := map[string]bool{}
			for !all["the end"] {
				select {
				case c := <-h.changes:
					if !strings.Contains(c.key, "=") { // otherwise it is the other name of one
						all[c.key] = true
					}
				case err := <-h.gaps:
					require.FailNow(t, "hints were dropped", "%v", err)
				case err := <-ended:
					require.FailNow(t, "hints were dropped, and the source has ended", "%v", err)
				case <-time.After(time.Minute):
					require.FailNow(t, "the last hint has not come")
				}
			}
			assert.Len(t, all, keys+1)
			cancel()
			for {
				select {
				case <-h.changes: // what it still had
				case err := <-ended:
					assert.ErrorIs(t, err, context.Canceled)
					assert.Empty(t, h.gaps, "hints were dropped")
					return
				}
			}
		})
	}
}
