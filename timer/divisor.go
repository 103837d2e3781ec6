package timer

import "math/bits"

// divisor is a number d > 0 by which non-negative numbers are divided: by a
// multiplication, which takes a tenth of the time of a division (Granlund &
// Montgomery, Division by Invariant Integers using Multiplication, 1994, theorem 4.2
// with N = 63: with d ≤ 2^l and m·d between 2^(63+l) and 2^(63+l) + 2^l, the quotient of
// any x < 2^63 is m·x / 2^(63+l), rounded down).
type divisor struct {
	m uint64
	l uint8
}

func newDivisor(d int64) divisor {
	l := bits.Len64(uint64(d - 1))
	hi, lo := uint64(1)<<l>>1, uint64(0)
	if l == 0 {
		lo = 1 << 63
	}
	m, _ := bits.Div64(hi, lo, uint64(d)) // below 2^64, for d > 2^(l-1)
	return divisor{m: m + 1, l: uint8(l)}
}

// quotient returns x/d; x ≥ 0.
func (d divisor) quotient(x int64) int64 {
	hi, lo := bits.Mul64(uint64(x), d.m)
	return int64((hi<<1 | lo>>63) >> (d.l & 63))
}
