package workload

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// mix is a log-normal distribution of the time to completion, given by its median and third quartile.
type mix struct {
	name     string
	p50, p75 time.Duration
}

var mixes = []mix{
	{"20-60ms", 20 * time.Millisecond, 60 * time.Millisecond},
	{"200-400ms", 200 * time.Millisecond, 400 * time.Millisecond},
}

// thirdQuartile is where the standard normal distribution has three quarters of its mass below.
const thirdQuartile = 0.6744897501960817

// sigma is the log-normal's shape: the third quartile is p50 * exp(sigma * thirdQuartile).
func (m mix) sigma() float64 {
	return math.Log(float64(m.p75)/float64(m.p50)) / thirdQuartile
}

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
func (m mix) arrivals(n int) []arrival {
	rng := random(100)
	names := make([]string, requestKeysOf)
	for i := range names {
		names[i] = fmt.Sprintf("key-%d", i)
	}
	sigma := m.sigma()
	table := make([]arrival, n)
	sum := 0.0
	for i := range table {
		latency := float64(m.p50/time.Millisecond) * math.Exp(sigma*rng.NormFloat64())
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
