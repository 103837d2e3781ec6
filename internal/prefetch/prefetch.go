// Package prefetch asks for cache lines before they are needed.
//
// A line that another processor has written last takes a hundred nanoseconds to come, and a lock that is taken or
// given back waits for those before it: lines that are asked for together come together instead of one after the other.
//
// These are hints. The processor that gets one reads and writes nothing of the program's for it, and an address that
// is no longer, or never was, anybody's memory is no error.
package prefetch
