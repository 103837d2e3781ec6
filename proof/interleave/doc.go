// Package interleave runs small scenarios on the library's code under every schedule with a
// bounded number of preemptions. The scenarios cover the operation's state machine, the
// watcher lists, the purgatory's verbs and workers, and the timer behind a manual clock.
//
// The package has only tests, most of them with the build tag interleave. With that tag,
// internal/sched chooses at each lock, and at each operation of its atomic types, which goroutine goes on.
// README.md says what is checked; make interleave runs the tests.
package interleave
