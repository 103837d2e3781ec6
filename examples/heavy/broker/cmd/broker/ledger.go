package main

import (
	"encoding/binary"
	"fmt"
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
		latencies []time.Duration // from Produce to the answer that all replicas have it
		failed    int
	}
}

type record struct {
	sent           time.Time
	acked          bool
	inGroup, inLog int // how often the group has read it, and the log has it
}

// next enters a new record and returns its value: its number, and padding.
func (l *ledger) next() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.records = append(l.mu.records, record{sent: time.Now()})
	return append(binary.BigEndian.AppendUint64(nil, uint64(len(l.mu.records)-1)), make([]byte, 92)...)
}

func (l *ledger) with(value []byte, do func(*record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(&l.mu.records[binary.BigEndian.Uint64(value)])
}

func (l *ledger) answered(value []byte, err error) {
	l.with(value, func(r *record) {
		if err != nil {
			l.mu.failed++
			return
		}
		r.acked = true
		l.mu.latencies = append(l.mu.latencies, time.Since(r.sent))
	})
}

func (l *ledger) group(value []byte) { l.with(value, func(r *record) { r.inGroup++ }) }
func (l *ledger) log(value []byte)   { l.with(value, func(r *record) { r.inLog++ }) }

// totals are how many records each is true of.
type totals struct{ produced, acked, failed, read, again, lost, twice, behind int }

func (l *ledger) totals() totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := totals{produced: len(l.mu.records), acked: len(l.mu.latencies), failed: l.mu.failed}
	for _, r := range l.mu.records {
		count(&t.read, r.inGroup > 0)
		count(&t.again, r.inGroup > 1)
		count(&t.lost, r.acked && r.inLog == 0)
		count(&t.twice, r.inLog > 1)
		count(&t.behind, r.acked && r.inGroup == 0)
	}
	return t
}

func count(n *int, is bool) {
	if is {
		*n++
	}
}

// complete says whether everything that was acknowledged has been read.
func (l *ledger) complete() bool {
	t := l.totals()
	return t.lost == 0 && t.behind == 0
}

func (l *ledger) verdict() error {
	switch t := l.totals(); {
	case t.acked == 0:
		return errNothing
	case t.lost > 0:
		return errLost
	case t.twice > 0:
		return errTwice
	case t.behind > 0:
		return errBehind
	}
	return nil
}

func (l *ledger) line() string {
	t := l.totals()
	return fmt.Sprintf("%8d produced %8d acknowledged %8d read by the group", t.produced, t.acked, t.read)
}

func (l *ledger) table() string {
	t := l.totals()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.mu.latencies)
	at := func(part float64) time.Duration {
		if len(l.mu.latencies) == 0 {
			return 0
		}
		return l.mu.latencies[int(part*float64(len(l.mu.latencies)-1))].Round(10 * time.Microsecond)
	}
	return fmt.Sprintf(`produced      %8d
acknowledged  %8d   p50 %v   p99 %v   max %v
failed        %8d
lost          %8d   (acknowledged, and not in the log)
twice         %8d   (in the log)
not read      %8d   (by the group, though acknowledged)
read again    %8d   (by the group, after a change of its members)
`, t.produced, t.acked, at(0.5), at(0.99), at(1), t.failed, t.lost, t.twice, t.behind, t.again)
}
