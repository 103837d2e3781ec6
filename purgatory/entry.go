package purgatory

import (
	"unsafe"

	"github.com/delayedop/purgatory/internal/machine"
	"github.com/delayedop/purgatory/timer"
)

// entryOf returns m's entry in the type that a timer takes.
//
// The conversions here are safe: an operation's machine begins with its entry, and a TaskEntry
// consists of an entry.
func entryOf(m *machine.Machine) *timer.TaskEntry {
	return (*timer.TaskEntry)(unsafe.Pointer(m.Entry()))
}

// entriesOf returns the entries of machines. The result shares its memory with machines.
func entriesOf(machines []*machine.Machine) []*timer.TaskEntry {
	return unsafe.Slice((**timer.TaskEntry)(unsafe.Pointer(unsafe.SliceData(machines))), len(machines))
}

// These fail to compile unless both types have the same size.
var (
	_ [unsafe.Sizeof(timer.TaskEntry{}) - unsafe.Sizeof(*(*machine.Machine)(nil).Entry())]struct{}
	_ [unsafe.Sizeof(*(*machine.Machine)(nil).Entry()) - unsafe.Sizeof(timer.TaskEntry{})]struct{}
)
