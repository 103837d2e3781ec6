// Acksall is a replicated log that answers acks=all produces through the purgatory.
//
// Every broker leads some partitions and follows the others: it fetches them from their leaders. Producers send their produces
// over TCP, one after the other, and do not wait for the answers. A produce whose records are not yet on every in-sync replica
// waits in its broker's produce purgatory, under every partition that it touched:
//
//	producer ── produce ──► leader: append ──► TryCompleteElseWatchAt(op, timeout, partitions and offsets...)
//	follower ── fetch ────► leader: high watermark moves ──► CheckAndCompleteUpTo(partition, offset) ──► answer: satisfied
//	                        nothing for the timeout ───────► expiration ────────────────────► answer: timed out
//	                        leader steps down ─────────────► CancelForKey(partition) ───────► answer: not leader
//
// This file is the one to copy: what a broker does. replica.go is its log, tcp.go its connections. load.go makes produces and
// faults. verify.go compares what producers were told with what the brokers hold.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// partition is what produces and fetches wait for: the watch key of both purgatories.
type partition int

func (p partition) String() string { return fmt.Sprintf("orders-%d", int(p)) }

type partitionPurgatory = purgatory.Purgatory[partition]

// errNotLeader is the cause with which a leader that steps down cancels what waits for a partition.
var errNotLeader = errors.New("not leader")

// delayedProduce is a produce with acks=all that waits until every in-sync replica has its records. It is watched under each
// partition that it touched.
type delayedProduce struct {
	operation.DelayedOperation
	id       int64
	deadline time.Time
	offsets  []int64
	answer   func(produceResponse) // never blocks: callbacks run on the goroutine that brought the news
	late     func(time.Duration)   // takes note of how late a timeout was answered

	waiting []appended // the records that are not yet known to be replicated; TryComplete crosses them off
	code    code
}

// TryComplete crosses off what has been replicated, and says yes when nothing is left, or when a partition ends the wait.
// The purgatory never runs it twice at once, so the fields need no lock.
func (d *delayedProduce) TryComplete() bool {
	d.waiting = slices.DeleteFunc(d.waiting, func(at appended) bool {
		if d.code != none {
			return false
		}
		c, ended := at.replica.verdict(at)
		d.code = c
		return ended
	})
	return len(d.waiting) == 0 || d.code != none
}

// OnComplete answers the producer.
func (d *delayedProduce) OnComplete() {
	r := produceResponse{ID: d.id}
	switch d.Outcome() {
	case operation.Satisfied:
		r.Code = d.code
	case operation.Expired:
		r.Code = requestTimedOut
	case operation.Cancelled:
		r.Code = notLeader
	default:
		r.Code = shuttingDown
	}
	if r.Code == none {
		r.Offsets = d.offsets
	}
	d.answer(r)
}

// OnExpiration runs after OnComplete, only when the timeout answered the produce.
func (d *delayedProduce) OnExpiration() { d.late(time.Since(d.deadline)) }

// String is what the debug page shows of a waiting produce. No other method runs meanwhile.
func (d *delayedProduce) String() string {
	left := make([]string, len(d.waiting))
	for i, at := range d.waiting {
		left[i] = fmt.Sprintf("%v offset %d", at.replica.id, at.offset)
	}
	return fmt.Sprintf("produce %d waits for %s", d.id, strings.Join(left, ", "))
}

// broker serves produces and fetches for the partitions it leads. What has to wait waits in one of its two purgatories:
// produces until their records are replicated, fetches until there are records.
type broker struct {
	id       int
	replicas []*replica // by partition; fixed from the start
	produces *partitionPurgatory
	fetches  *partitionPurgatory
	lagTime  time.Duration
	late     func(time.Duration)
	say      func(format string, args ...any)

	ctx      context.Context // ends when the broker stops
	cancel   context.CancelFunc
	patience context.Context // ends when the time of the stop is over: clients that do not take their answers are cut off
	cutOff   context.CancelFunc
	running  sync.WaitGroup // every goroutine of the broker
	listener net.Listener
}

func newBroker(id int, replicas []*replica, lagTime time.Duration, options ...purgatory.Option) (b *broker, err error) {
	b = &broker{id: id, replicas: replicas, lagTime: lagTime, late: func(time.Duration) {}, say: func(string, ...any) {}}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	b.patience, b.cutOff = context.WithCancel(context.Background())
	if b.produces, err = purgatory.New[partition](fmt.Sprintf("produce-%d", id), options...); err != nil {
		return nil, err
	}
	options = append(options[:len(options):len(options)], purgatory.WithTimeoutsExpected()) // a follower that has everything waits in vain
	if b.fetches, err = purgatory.New[partition](fmt.Sprintf("fetch-%d", id), options...); err != nil {
		return nil, errors.Join(err, b.produces.Close())
	}
	return b, nil
}

// produce appends the records and lets the request wait until they are replicated.
func (b *broker) produce(r produceRequest, answer func(produceResponse)) {
	d := &delayedProduce{id: r.ID, answer: answer, late: b.late}
	refused := none
	var keys []purgatory.KeyPosition[partition] // each with the high watermark that it takes
	for _, record := range r.Records {
		at, c := b.replicas[record.Partition].append(record.Value)
		if c != none {
			refused = c
			break
		}
		d.waiting = append(d.waiting, at)
		d.offsets = append(d.offsets, at.offset)
		b.fetches.CheckAndCompleteUpTo(record.Partition, at.offset+1) // few followers: a produce can pay for them
		keys = append(keys, purgatory.KeyPosition[partition]{Key: record.Partition, Position: at.offset + 1})
	}
	if refused != none || len(keys) == 0 {
		answer(produceResponse{ID: r.ID, Code: refused})
		return
	}
	d.deadline = time.Now().Add(r.Timeout)
	if _, err := b.produces.TryCompleteElseWatchAt(d, r.Timeout, keys...); err != nil {
		// Not accepted: no callback will ever run, so the answer is given here. The purgatory has no
		// bound, so it is closed.
		answer(produceResponse{ID: r.ID, Code: shuttingDown})
	}
}

// fetch notes how far the follower has come, which may be what produces wait for. Then it waits until there are records.
func (b *broker) fetch(ctx context.Context, r fetchRequest) fetchResponse {
	p := b.replicas[r.Partition]
	joined, moved := p.noteFetch(r, time.Now())
	if moved {
		b.advance(p)
	}
	if joined {
		b.say("  * broker %d: follower %d has caught up with %v and is in sync again", b.id, r.Follower, p.id)
	}
	news := func() bool {
		_, news := p.read(r)
		return news
	}
	err := b.fetches.AwaitAt(ctx, fetchWait, news, purgatory.KeyPosition[partition]{Key: r.Partition, Position: r.Offset + 1})
	if errors.Is(err, purgatory.ErrClosed) {
		return fetchResponse{Code: shuttingDown}
	}
	answer, _ := p.read(r) // with news, after the time, or because leadership has moved: the answer is what there is
	return answer
}

const fetchWait = 200 * time.Millisecond // that a fetch waits for records

// follow fetches a partition from the leader of an epoch, until that epoch is over here or the broker stops. hold says how long
// the next fetch is held back.
func (b *broker) follow(leader *broker, id partition, epoch int, hold func() time.Duration) {
	for {
		b.pause(hold())
		f, ok := b.replicas[id].next(epoch)
		if !ok || b.ctx.Err() != nil {
			return
		}
		if answer := leader.fetch(b.ctx, f); answer.Code == none {
			b.replicas[id].apply(f, answer)
		} else {
			b.pause(5 * time.Millisecond) // or it would spin while nobody leads
		}
	}
}

// pause returns after a while, or when the broker stops.
func (b *broker) pause(d time.Duration) {
	if d > 0 {
		ctx, cancel := context.WithTimeout(b.ctx, d)
		defer cancel()
		<-ctx.Done()
	}
}

// advance ends the produces that a partition's high watermark has come far enough for. Those further up are not looked at.
func (b *broker) advance(p *replica) { b.produces.CheckAndCompleteUpTo(p.id, p.end()) }

// watchLag drops followers from the in-sync sets of the partitions this broker leads, once they have lagged too long.
func (b *broker) watchLag() {
	every := time.NewTicker(max(b.lagTime/10, time.Millisecond))
	defer every.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return
		case <-every.C:
		}
		for _, p := range b.replicas {
			for _, follower := range p.dropLagging(time.Now(), b.lagTime) {
				b.say("  * broker %d: follower %d has lagged for %v and is out of sync: %v", b.id, follower, b.lagTime, p.id)
				b.advance(p)
			}
		}
	}
}

// resign gives up a partition, if an in-sync follower can take it over. The produces that wait there are answered at once;
// one that is just being registered sees in its TryComplete that this broker leads no more.
func (b *broker) resign(id partition) (successor int, insync map[int]bool, cancelled int, ok bool) {
	successor, insync, ok = b.replicas[id].resign()
	if !ok {
		return successor, nil, 0, false
	}
	cancelled = b.produces.CancelForKey(id, errNotLeader)
	b.fetches.CancelForKey(id, errNotLeader)
	return successor, insync, cancelled, true
}

// stop ends the broker: whatever still waits is answered, and every goroutine has ended when it returns. When ctx ends, it
// cuts off the clients that do not take their answers.
func (b *broker) stop(ctx context.Context) error {
	b.cancel()
	defer b.cutOff()
	defer context.AfterFunc(ctx, b.cutOff)()
	if b.listener != nil {
		b.listener.Close()
	}
	// The connections wait for their answers, and the purgatories give them: so these come first.
	err := errors.Join(b.produces.Close(), b.fetches.Close())
	b.running.Wait()
	return errors.Join(err, b.produces.Shutdown(ctx), b.fetches.Shutdown(ctx))
}
