package sched

var began = Now()

// InBubble reports whether its caller runs in a bubble of testing/synctest, where time begins in the year 2000.
// A channel must not leave the bubble in which it was made, and none must come into one.
func InBubble() bool { return Since(began) < 0 }
