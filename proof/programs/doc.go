// Package programs draws small programs that use a purgatory, and runs them under random
// schedules (see package explore) with oracles that hold for every program. README.md says
// what they check; make explore runs them.
package programs
