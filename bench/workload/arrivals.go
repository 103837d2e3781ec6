package workload

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The time to completion is log-normal: medianLatency is its median in ms, and a quarter takes over 60 ms, which is
// medianLatency * exp(sigma * 0.67449), since the standard normal distribution has three quarters of its mass below 0.67449.
const (
	medianLatency = 20
	sigma         = 1.62881 // ln(60/20) / 0.67449
)

// arrival is one request of the open loop, drawn before the clock starts.
type arrival struct {
	gap     float64 // to the one before, of a Poisson process with rate 1
	latency int32   // ms after arrival; beyond the timeout it never comes
	keys    []string
}

const (
	requestKeys    = 3
	requestKeysOf  = 100
	requestTimeout = 200 * time.Millisecond
)

// arrivals draws a table of n requests. Keys are drawn for every request, not once per run.
func arrivals(n int) []arrival {
	rng := random(100)
	names := make([]string, requestKeysOf)
	for i := range names {
		names[i] = fmt.Sprintf("key-%d", i)
	}
	table := make([]arrival, n)
	sum := 0.0
	for i := range table {
		latency := medianLatency * math.Exp(sigma*rng.NormFloat64())
		a := arrival{gap: rng.ExpFloat64(), latency: int32(min(latency, 1e6))}
		for len(a.keys) < requestKeys {
			if key := names[rng.IntN(requestKeysOf)]; !slices.Contains(a.keys, key) {
				a.keys = append(a.keys, key)
			}
		}
		table[i] = a
		sum += a.gap
	}
	for i := range table {
		table[i].gap *= float64(n) / sum // so that a generator that keeps up has offered the rate
	}
	return table
}
