// Package prefetch requests cache lines before they are written.
//
// It takes about a hundred nanoseconds to load a cache line that another processor has
// written last, and the atomic instruction that takes or releases a lock waits for the loads
// before it. Lines that are requested together arrive together, instead of one after the
// other.
//
// This pays where operations on several keys are registered on one processor and ended on
// another: a mix of registrations and completions at 200,000 a second takes 0.86 to 0.94 of
// the processor time that it takes without. The build tag purego replaces the assembly by
// functions that do nothing.
//
// A prefetch is a hint to the processor: it changes no memory, and an address that is not
// mapped is no error.
package prefetch

// Most is the number of lists beyond the first for which lines are requested at once. With
// more, the processor could evict the first lines before they are used.
const Most = 8
