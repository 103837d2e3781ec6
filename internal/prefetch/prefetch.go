// Package prefetch asks for cache lines before they are needed.
//
// A line that another processor has written last takes a hundred nanoseconds to come, and a lock that is taken or
// given back waits for those before it: lines that are asked for together come together instead of one after the other.
//
// These are hints. Nothing is read or written at the address of one, and an address that is no longer, or never was,
// anybody's memory is no error.
package prefetch

// Most is for how many lists beyond the first it is worth asking at once: with more, the first lines could be gone again
// before they are used.
const Most = 8
