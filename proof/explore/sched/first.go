//go:build interleave

package sched

// First receives from a, b or c, and returns 0, 1 or 2. If several are ready, Dice says which comes first.
func First(a, b, c <-chan struct{}) int {
	Yield()
	all := [...]<-chan struct{}{a, b, c}
	sleep("waits", func() bool { return ready(a) || ready(b) || ready(c) })
	at := int(Dice(int64(len(all))))
	for !ready(all[at]) {
		at = (at + 1) % len(all)
	}
	<-all[at]
	return at
}
