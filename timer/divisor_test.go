package timer

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestDivisorDivides compares quotients with those of the / operator, at multiples of the
// divisor, just below them, and at random numbers.
func TestDivisorDivides(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	check := func(d int64) {
		divisor := newDivisor(d)
		compare := func(x int64) {
			if q := divisor.quotient(x); q != x/d {
				t.Fatalf("%d / %d is %d, not %d", x, d, x/d, q)
			}
		}
		for _, x := range []int64{0, 1, d - 1, d, math.MaxInt64 - 1, math.MaxInt64, math.MaxInt64 / d * d, math.MaxInt64/d*d - 1} {
			compare(x)
		}
		for range 100 {
			x := random.Int64() >> random.IntN(63)
			compare(x)
			compare(x / d * d)
			compare(max(x/d*d-1, 0))
		}
	}
	for d := range int64(2000) {
		check(d + 1)
	}
	for shift := range 63 {
		power := int64(1) << shift
		for _, d := range []int64{power - 1, power, power + 1} {
			check(max(d, 1))
		}
	}
	for _, d := range []int64{1e3, 1e6, 1e9, 60e9, math.MaxInt64 / 2, math.MaxInt64 - 1, math.MaxInt64} {
		check(d)
	}
	for range 2000 {
		check(max(random.Int64()>>random.IntN(63), 1))
	}
}
