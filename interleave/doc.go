// Package interleave runs small scenarios on the real code under every schedule: the
// operation's state machine, the watcher lists, the purgatory's verbs, its workers, and
// the timer behind a manual clock. It has only tests, most with the build tag
// interleave, under which internal/sched decides at each lock and before each atomic access which
// goroutine goes on. See docs/proof.md; make interleave runs it.
package interleave
