package timers

import "time"

// Rest waits until our timer has placed what it puts off when many entries come at once. It does so within a second of the
// first of them.
type Rest struct{ asked time.Time }

// AtRest reports whether two seconds have passed since the first call.
func (r *Rest) AtRest() bool {
	if r.asked.IsZero() {
		r.asked = time.Now()
	}
	return time.Since(r.asked) > 2*time.Second
}
