package purgatory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/timer"
)

// What it costs to make and close a purgatory: one of many on a shared timer, and a whole one.
func BenchmarkNewClose(b *testing.B) {
	shared, err := timer.NewSystemTimer()
	require.NoError(b, err)
	defer shared.Stop()
	for name, opts := range map[string][]purgatory.Option{
		"shared timer, no reaper": {purgatory.WithTimer(shared), purgatory.WithoutReaper()},
		"default":                 nil,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p, err := purgatory.New[string]("one of many", opts...)
				if err != nil {
					b.Fatal(err)
				}
				_ = p.Close()
			}
		})
	}
}
