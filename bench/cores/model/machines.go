package model

import "math/bits"

// EPYC returns a machine of AMD's third generation with so many cores: eight to a cache, 64 to a socket. The ways of a line
// are those that github.com/nviennot/core-to-core-latency has for the 7R13: 23, 107 and 197 ns. That a thread that sleeps
// needs 5 µs to wake up is the usual figure for Linux; a spin of Go's mutex is 30 PAUSE instructions of 20 ns or so.
func EPYC(cores int) Machine {
	return Machine{Cores: cores, PerGroup: 8, PerSocket: 64, Near: 23, Across: 107, Far: 197, Slow: 1, Pause: 600, Switch: 200, Wake: 5000}
}

// Here returns a machine of one or two processors between which a line takes so long, and on which work takes so much
// longer if both have some.
func Here(cores int, line, slow float64) Machine {
	m := EPYC(cores)
	m.Near, m.Slow = line, slow
	return m
}

// Parts returns the costs of an operation whose whole life takes so long. The holds were measured on two processors, with
// lists that are in the cache (Read: that are not); see bench/NOTES.md.
func Parts(total float64) Costs {
	return Costs{
		Total: total, Watch: 15, Unlink: 6, Find: 3, Add: 15, Stop: 10, Read: 210, Hold: 8,
		Shards:      func(cores int) int { return power(min(max(32*cores, 64), 4096)) },
		TimerShards: func(cores int) int { return power(min(8*cores, 256)) },
	}
}

// power rounds up to a power of two.
func power(n int) int { return 1 << bits.Len(uint(n-1)) }
