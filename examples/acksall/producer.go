package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// producer sends produces at its rate, whatever becomes of those that it has sent already, to the brokers that it believes to
// be leaders. An answer "not leader" makes it ask again who leads; the produce itself is not repeated.
type producer struct {
	id         int
	rate       float64 // produces per second
	partitions int     // that one produce touches
	timeout    time.Duration
	ledger     *ledger
	layout     func() map[int][]topicPartition // which partitions each broker leads

	links   []*link // one to each broker
	readers sync.WaitGroup
	stale   atomic.Bool // the layout may have changed
}

// connect opens a connection to each broker and starts to read answers from it.
func (p *producer) connect(addresses []string) error {
	for _, address := range addresses {
		l, err := dial(address)
		if err != nil {
			p.hangUp()
			return fmt.Errorf("producer %d: %w", p.id, err)
		}
		p.links = append(p.links, l)
		p.readers.Go(func() { p.read(l) })
	}
	return nil
}

func (p *producer) read(l *link) {
	for {
		r, err := l.receive()
		if err != nil || r.Produce == nil {
			return
		}
		p.ledger.answer(*r.Produce, time.Now())
		if r.Produce.Code == notLeader {
			p.stale.Store(true)
		}
	}
}

// run produces until ctx ends. Every millisecond it sends what is due by then.
func (p *producer) run(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	targets := newTargets(p.layout())
	start := time.Now()
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if p.stale.CompareAndSwap(true, false) {
			targets = newTargets(p.layout())
		}
		for due := int(time.Since(start).Seconds() * p.rate); sent < due && ctx.Err() == nil; sent++ {
			broker, partitions := targets.pick(p.partitions)
			p.produce(broker, partitions, sent)
		}
	}
}

func (p *producer) produce(broker int, partitions []topicPartition, sequence int) {
	records := make([]newRecord, len(partitions))
	for i, tp := range partitions {
		records[i] = newRecord{Partition: tp, Value: fmt.Sprintf("producer %d, produce %d", p.id, sequence)}
	}
	id := p.ledger.open(records, time.Now())
	// A produce that cannot be sent stays open in the ledger, and is found there in the end.
	_ = p.links[broker].send(request{Produce: &produceRequest{ID: id, Timeout: p.timeout, Records: records}})
}

// finish waits until the brokers have hung up and every answer of theirs is in the ledger.
func (p *producer) finish() {
	p.readers.Wait()
	p.hangUp()
}

// hangUp closes the connections without waiting for answers.
func (p *producer) hangUp() {
	for _, l := range p.links {
		l.close()
	}
	p.readers.Wait()
}

// targets is where produces go: a partition drawn at random, and others that the same broker leads.
type targets struct {
	leaders []int // of each partition
	led     map[int][]topicPartition
}

func newTargets(led map[int][]topicPartition) targets {
	t := targets{led: led}
	for leader, partitions := range led {
		for range partitions {
			t.leaders = append(t.leaders, leader)
		}
	}
	return t
}

// pick draws a broker, in proportion to how many partitions it leads, and at most n of these.
func (t targets) pick(n int) (broker int, partitions []topicPartition) {
	broker = t.leaders[rand.IntN(len(t.leaders))]
	led := t.led[broker]
	first := rand.IntN(len(led))
	for i := range min(n, len(led)) {
		partitions = append(partitions, led[(first+i)%len(led)])
	}
	return broker, partitions
}
