//go:build !interleave

package programs

// exact says that no goroutine goes on but at the scheduler's points.
const exact = false
