package main

import (
	"sync"
	"time"
)

// ledger is what the producers know: which produce is open, and how each was answered. It finds the produce that is answered
// twice or never. It is safe for concurrent use.
type ledger struct {
	latency [numCodes]durations // from sending a produce to its answer, by code

	mu struct {
		sync.Mutex
		sent         int64
		open         map[int64]openProduce
		answered     [numCodes]int64
		twice        []int64 // produces whose answer came when they were open no more
		acknowledged []acknowledged
		sealed       bool          // no produce will be sent any more
		settled      chan struct{} // closed when sealed and nothing is open
	}
}

// openProduce is a produce without an answer.
type openProduce struct {
	sentAt  time.Time
	records []newRecord
}

// acknowledged is a record that the producer was told is safe.
type acknowledged struct {
	newRecord
	offset int64
}

func newLedger() *ledger {
	l := new(ledger)
	l.mu.open = make(map[int64]openProduce)
	l.mu.settled = make(chan struct{})
	return l
}

// open enters a produce that is about to be sent, and returns its ID.
func (l *ledger) open(records []newRecord, now time.Time) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sent++
	l.mu.open[l.mu.sent] = openProduce{sentAt: now, records: records}
	return l.mu.sent
}

// answer enters the answer to a produce.
func (l *ledger) answer(r produceResponse, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.mu.open[r.ID]
	if !ok {
		l.mu.twice = append(l.mu.twice, r.ID)
		return
	}
	delete(l.mu.open, r.ID)
	l.mu.answered[r.Code]++
	l.latency[r.Code].add(now.Sub(p.sentAt))
	for i, offset := range r.Offsets {
		l.mu.acknowledged = append(l.mu.acknowledged, acknowledged{newRecord: p.records[i], offset: offset})
	}
	l.settleLocked()
}

// seal says that no produce will be sent any more. The channel is closed when none is open.
func (l *ledger) seal() (settled <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.sealed = true
	l.settleLocked()
	return l.mu.settled
}

func (l *ledger) settleLocked() {
	if !l.mu.sealed || len(l.mu.open) > 0 {
		return
	}
	select {
	case <-l.mu.settled:
	default:
		close(l.mu.settled)
	}
}

// tally is how many produces were sent, and how many were answered with each code.
type tally struct {
	sent     int64
	answered [numCodes]int64
}

func (l *ledger) tally() tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	return tally{sent: l.mu.sent, answered: l.mu.answered}
}

// acknowledgedRecords is how many records producers were told are safe.
func (l *ledger) acknowledgedRecords() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.acknowledged)
}
