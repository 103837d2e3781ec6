package broker

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// besideFetches is a broker with a producer, acks=1, on a partition from which
// consumers wait for 64 MiB.
type besideFetches struct {
	*bench
	producer *connected
	to       int32
	records  []byte
	fetching int64 // how many wait
}

func newBesideFetches(b *testing.B, waiting int) *besideFetches {
	w := newBench(b, 2, func(c *Config) { c.MaxFetchBytes = 1 << 30 })
	led := w.alone()
	for range waiting {
		w.start(w.dial(), w.awaitBytes(64<<20, led[0]))
	}
	w.waiting(w.fetches, int64(waiting))
	records := batchtest.Build(1, make([]byte, 100))
	return &besideFetches{w, w.dial(), led[0], records, int64(waiting)}
}

// produce sends n requests, one after the other, and returns how long they took.
func (f *besideFetches) produce(n int) time.Duration {
	start := time.Now()
	for range n {
		if _, err := f.producer.Do(f.ctx, produceTo("alone", f.to, f.records)); err != nil {
			f.t.Fatal(err)
		}
	}
	return time.Since(start)
}

// BenchmarkProduceBesideFetches is what waiting fetches cost a producer. Brokers
// with none, with 50 and with 300 of them take turns, a few milliseconds each, so
// that whatever else the machine does slows all of them alike; each is compared
// with the first within a round, and the median over the rounds is reported. The
// second broker has no fetches either: its figure is the noise.
//
//	go test ./broker -run xxx -bench BesideFetches -benchtime 300x
func BenchmarkProduceBesideFetches(b *testing.B) {
	const turn, mostRounds = 200, 800 // beyond that the fetches may have what they wait for
	if b.N > mostRounds {
		b.Fatalf("at most %d rounds", mostRounds)
	}
	var all []*besideFetches
	for _, waiting := range []int{0, 0, 50, 300} {
		w := newBesideFetches(b, waiting)
		w.produce(5 * turn)
		all = append(all, w)
	}
	took := make([][]time.Duration, len(all))
	b.ResetTimer()
	for round := range b.N {
		for i := range all {
			next := (round + i) % len(all)
			took[next] = append(took[next], all[next].produce(turn))
		}
	}
	b.StopTimer()
	first := slices.Clone(took[0])
	slices.Sort(first)
	b.ReportMetric(turn/first[b.N/2].Seconds(), "produces/s")
	for i, name := range []string{"", "%-noise", "%-with-50", "%-with-300"} {
		if i > 0 {
			b.ReportMetric(100*(medianRatio(took[i], took[0])-1), name)
		}
		stats := all[i].fetches.Stats()
		require.Equal(b, all[i].fetching, stats.Pending)
		require.Zero(b, stats.Checks)
	}
}

// medianRatio is the median of what a takes in terms of b, round by round.
func medianRatio(a, b []time.Duration) float64 {
	var ratios []float64
	for i := range a {
		ratios = append(ratios, float64(a[i])/float64(b[i]))
	}
	slices.Sort(ratios)
	return ratios[len(ratios)/2]
}
