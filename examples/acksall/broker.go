package main

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/purgatory"
)

// partitionPurgatory holds requests that wait for something to happen to a partition.
type partitionPurgatory = purgatory.DelayedOperationPurgatory[topicPartition]

// maxFetchRecords bounds what one fetch returns of one partition.
const maxFetchRecords = 1000

// broker serves produces and fetches for the partitions it leads, and fetches the others from their leaders. What has to wait
// waits in one of its two purgatories: produces until their records are replicated, fetches until there are records.
type broker struct {
	id       int
	listener net.Listener
	replicas map[topicPartition]*replica // fixed from the start
	produces *partitionPurgatory
	fetches  *partitionPurgatory
	fetchers []*fetcher // one for each other broker
	lagTime  time.Duration
	lateness *durations // of timeouts, past the deadline of their produce
	events   *console

	ctx     context.Context // ends when the broker stops
	cancel  context.CancelFunc
	running sync.WaitGroup // every goroutine of the broker

	mu struct {
		sync.Mutex
		sessions map[*session]bool
		stopped  bool
	}
}

func newBroker(id int, replicas map[topicPartition]*replica, lagTime time.Duration, events *console, page *debugserver.Server) (*broker, error) {
	b := &broker{id: id, replicas: replicas, lagTime: lagTime, lateness: new(durations), events: events}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.mu.sessions = make(map[*session]bool)
	var err error
	if b.produces, err = purgatory.New[topicPartition](name("produce", id), page.Options()...); err != nil {
		return nil, err
	}
	if b.fetches, err = purgatory.New[topicPartition](name("fetch", id), page.Options()...); err != nil {
		return nil, errors.Join(err, b.produces.Close())
	}
	if b.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, b.produces.Close(), b.fetches.Close())
	}
	return b, nil
}

func (b *broker) address() string { return b.listener.Addr().String() }

// start accepts connections, looks for lagging followers and fetches from the given leaders.
func (b *broker) start(fetchers []*fetcher) {
	b.fetchers = fetchers
	b.running.Go(b.accept)
	b.running.Go(b.watchLag)
	for _, f := range fetchers {
		b.running.Go(func() { f.run(b.ctx) })
	}
}

func (b *broker) accept() {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return // stopping: the listener is closed
		}
		s := newSession(conn)
		b.mu.Lock()
		if b.mu.stopped {
			b.mu.Unlock()
			conn.Close()
			return
		}
		b.mu.sessions[s] = true
		b.mu.Unlock()
		b.running.Go(func() {
			s.serve(b.handle)
			b.mu.Lock()
			delete(b.mu.sessions, s)
			b.mu.Unlock()
		})
	}
}

// handle sees to it that a request is answered, now or later; false if it is none that this cluster knows.
func (b *broker) handle(r request, to *reply) (ok bool) {
	switch {
	case r.Produce != nil:
		b.produce(*r.Produce, to.produced)
	case r.Fetch != nil && b.holds(r.Fetch.Partitions):
		to.fetched(b.fetch(*r.Fetch))
	default:
		return false
	}
	return true
}

// holds reports whether the broker has a replica of all the partitions that a fetch names.
func (b *broker) holds(positions []fetchPosition) bool {
	return !slices.ContainsFunc(positions, func(at fetchPosition) bool { return b.replicas[at.Partition] == nil })
}

// produce appends the records and lets the request wait until they are replicated.
func (b *broker) produce(r produceRequest, answer func(produceResponse)) {
	d := &delayedProduce{id: r.ID, answer: answer, late: b.lateness.add}
	refused := none
	var keys []purgatory.KeyPosition[topicPartition] // each with the high watermark that it takes
	for _, record := range r.Records {
		at, c := b.append(record)
		if c != none {
			refused = c
			break
		}
		d.waiting = append(d.waiting, at)
		d.offsets = append(d.offsets, at.offset)
		keys = append(keys, purgatory.KeyPosition[topicPartition]{Key: record.Partition, Position: at.offset + 1})
	}
	for _, at := range keys {
		b.fetches.CheckAndComplete(at.Key)
	}
	if refused != none || len(keys) == 0 {
		answer(produceResponse{ID: r.ID, Code: refused})
		return
	}
	d.deadline = time.Now().Add(r.Timeout)
	if _, err := b.produces.TryCompleteElseWatchAt(d, r.Timeout, keys...); err != nil {
		// Not accepted: no callback will ever run, so the answer is given here.
		answer(produceResponse{ID: r.ID, Code: shuttingDown})
	}
}

func (b *broker) append(n newRecord) (appended, code) {
	r := b.replicas[n.Partition]
	if r == nil {
		return appended{}, notLeader
	}
	at, moved, c := r.append(n.Value)
	if moved {
		b.advance(n.Partition)
	}
	return at, c
}

// advance ends the produces that a partition's high watermark has come far enough for. Those further up are not looked at.
func (b *broker) advance(tp topicPartition) {
	b.produces.CheckAndCompleteUpTo(tp, b.replicas[tp].highWatermark())
}

// fetch notes how far the follower has come, which may be what produces wait for, and waits until there is something to
// answer.
func (b *broker) fetch(r fetchRequest) fetchResponse {
	keys := make([]topicPartition, len(r.Partitions))
	var joined []topicPartition
	now := time.Now()
	for i, at := range r.Partitions {
		keys[i] = at.Partition
		in, moved := b.replicas[at.Partition].noteFetch(r.Follower, at, now)
		if in {
			joined = append(joined, at.Partition)
		}
		if moved {
			b.advance(at.Partition)
		}
	}
	if len(joined) > 0 {
		b.events.eventf("broker %d: follower %d has caught up and is in sync again: %s", b.id, r.Follower, listed(joined))
	}
	news := func() bool {
		for _, at := range r.Partitions {
			if b.replicas[at.Partition].hasNews(at) {
				return true
			}
		}
		return false
	}
	// However the wait ends, with news, by time, or because leadership moved or the broker stops, the answer is what there is.
	_ = b.fetches.Await(b.ctx, r.MaxWait, news, keys...)
	answer := fetchResponse{Partitions: make([]fetched, len(r.Partitions))}
	for i, at := range r.Partitions {
		answer.Partitions[i] = b.replicas[at.Partition].read(at, maxFetchRecords)
	}
	return answer
}

// watchLag drops followers from the in-sync sets of the partitions this broker leads, once they have lagged too long.
func (b *broker) watchLag() {
	every := time.NewTicker(max(b.lagTime/10, time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-every.C:
			b.dropLagging(time.Now())
		}
	}
}

func (b *broker) dropLagging(now time.Time) {
	dropped := make(map[int][]topicPartition)
	for tp, r := range b.replicas {
		late, moved := r.dropLagging(now, b.lagTime)
		for _, follower := range late {
			dropped[follower] = append(dropped[follower], tp)
		}
		if moved {
			b.advance(tp)
		}
	}
	for follower, partitions := range dropped {
		b.events.eventf("broker %d: follower %d has lagged for %v and is no longer in sync: %s", b.id, follower, b.lagTime, listed(partitions))
	}
}

// resign gives up a partition, if an in-sync follower can take it over. The produces that wait there are answered at once;
// one that is just being registered sees in its TryComplete that this broker leads no more.
func (b *broker) resign(tp topicPartition) (successor, cancelled int, ok bool) {
	successor, ok = b.replicas[tp].resign()
	if !ok {
		return successor, 0, false
	}
	cancelled = b.produces.CancelForKey(tp, errNotLeader)
	b.fetches.CancelForKey(tp, errNotLeader)
	return successor, cancelled, true
}

// assume takes up a role for a partition and tells the fetcher that may now have more to ask for.
func (b *broker) assume(tp topicPartition, a assignment) {
	b.replicas[tp].assume(a, time.Now())
	for _, f := range b.fetchers {
		if f.leader == a.leader {
			f.wake()
		}
	}
}

// stop ends the broker: whatever still waits is answered, and every goroutine has ended when it returns.
func (b *broker) stop(ctx context.Context) error {
	b.cancel()
	b.listener.Close()
	b.mu.Lock()
	b.mu.stopped = true
	for s := range b.mu.sessions {
		s.hangUp()
	}
	b.mu.Unlock()
	// The sessions wait for their answers, and the purgatories give them.
	err := errors.Join(b.produces.Close(), b.fetches.Close())
	b.running.Wait()
	return errors.Join(err, b.produces.Shutdown(ctx), b.fetches.Shutdown(ctx))
}
