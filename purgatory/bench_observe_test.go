package purgatory_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/delayedop/purgatory/purgatory"
)

// BenchmarkObserved is BenchmarkOperationLife on one key with what an operator may ask for switched on: what it adds is
// the price of looking.
//
//	go test -run '^$' -bench Observed -benchmem -count 10
func BenchmarkObserved(b *testing.B) {
	for _, v := range []struct {
		name string
		opts []purgatory.Option
	}{
		{"off", nil},
		{"histograms", []purgatory.Option{purgatory.WithHistograms()}},
		{"keys=512", []purgatory.Option{purgatory.WithKeyStats(512)}},
		{"slow=1s", []purgatory.Option{purgatory.WithSlowCallback(time.Second)}},
		{"diagnostics", []purgatory.Option{purgatory.WithDiagnostics()}},
		{"histograms,keys=512", []purgatory.Option{purgatory.WithHistograms(), purgatory.WithKeyStats(512)}},
	} {
		b.Run(v.name, func(b *testing.B) {
			p, err := purgatory.New[string]("bench", v.opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer p.Close()
			keys := benchKeys(500)
			var state benchState
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%benchBatch == 0 && n > 0 {
					completeBatch(b, p, &state, keys[n/benchBatch%len(keys)])
				}
				if _, err := p.TryCompleteElseWatch(&benchOperation{state: &state}, 30*time.Second, keys[(n/benchBatch+1)%len(keys)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func benchKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%d", i)
	}
	return keys
}
