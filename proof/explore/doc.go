// Package explore runs scenarios on the library's code under schedules of its choice. A
// scenario is a handful of goroutines, or a hundred, and a check of what must hold when all
// of them have ended.
//
// The package replaces Go's scheduler for the goroutines of a scenario. It needs the build tag
// interleave: with it each lock, each atomic operation and each sched.Yield of the library is
// a point at which another goroutine may go on, and internal/sched calls this package there.
// One goroutine runs at a time. Goroutines are coroutines (see iter.Pull), which switch in
// 0.2 µs, and which later runs use again.
//
// There are three ways to choose schedules:
//
//   - [Exploration.Explore] runs every schedule with a bounded number of preemptions.
//   - PCT gives each goroutine a random priority, and the goroutine with the highest one runs.
//     At d-1 random points the running goroutine gets the lowest priority. A defect of depth d
//     needs d events to happen in a certain order. With n goroutines and k points a schedule
//     of PCT meets it with a probability of at least 1/(n·k^(d-1)). (S. Burckhardt,
//     P. Kothari, M. Musuvathi, S. Nagarakatte: A Randomized Scheduler with Probabilistic
//     Guarantees of Finding Bugs, ASPLOS 2010.)
//   - A random walk lets any goroutine go on, with equal probability, at each point or at a
//     random fraction of the points.
//
// [Exploration.Random] alternates between PCT, of depth 1 to 5, and random walks.
//
// A schedule is a list of moves, each of which says at which of its points a goroutine is
// interrupted, and by which one. [Exploration.Replay] repeats a schedule, and
// [Exploration.Shrink] finds a schedule with as few moves as possible that still fails.
package explore
