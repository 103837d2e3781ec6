package main

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// ledger knows of every record, by number, what became of it. Safe for
// concurrent use.
type ledger struct {
	mu struct {
		sync.Mutex
		records   []record
		latencies []time.Duration
		totals
	}
}

type record struct {
	sent     time.Time
	acked    bool
	consumed uint8
}

type totals struct{ produced, acked, failed, consumed, duplicates int }

// next enters a new record and returns its value: its number.
func (l *ledger) next() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	number := len(l.mu.records)
	l.mu.records = append(l.mu.records, record{sent: time.Now()})
	l.mu.produced++
	return append(binary.BigEndian.AppendUint64(nil, uint64(number)), make([]byte, 92)...)
}

func (l *ledger) answered(value []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.mu.records[binary.BigEndian.Uint64(value)]
	if err != nil {
		l.mu.failed++
		return
	}
	r.acked = true
	l.mu.acked++
	l.mu.latencies = append(l.mu.latencies, time.Since(r.sent))
}

func (l *ledger) read(value []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.mu.records[binary.BigEndian.Uint64(value)]
	if r.consumed++; r.consumed == 1 {
		l.mu.consumed++
	} else {
		l.mu.duplicates++
	}
}

func (l *ledger) totals() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.totals
}

// lost counts what was acknowledged and never came out again.
func (l *ledger) lost() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := 0
	for _, r := range l.mu.records {
		if r.acked && r.consumed == 0 {
			lost++
		}
	}
	return lost
}

// percentiles of the time from Produce to the answer that all replicas have it.
func (l *ledger) percentiles(ps ...float64) []time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.mu.latencies)
	found := make([]time.Duration, len(ps))
	for i, p := range ps {
		if n := len(l.mu.latencies); n > 0 {
			found[i] = l.mu.latencies[min(n-1, int(p/100*float64(n)))].Round(10 * time.Microsecond)
		}
	}
	return found
}
