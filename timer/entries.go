package timer

// Entries are the entries of a timer, with the methods that schedule and cancel them. Package purgatory calls these directly: what a call
// through an interface is given would be allocated.
type Entries = store

// EntriesOf returns the entries of t.
func EntriesOf(t Timer) *Entries { return t.core() }
