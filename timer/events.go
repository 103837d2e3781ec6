package timer

// Messages of the records that a timer logs (see [WithLogger]). They do not change
// between releases.
const (
	// EventRefused: the executor of [WithExecutor] returned an error, panicked or called
	// runtime.Goexit. The timer offers the work again. Level Warn; attribute error.
	EventRefused = "purgatory.executor.refused"
	// EventManyTimers: the process has more than 64 running SystemTimers. Logged once per
	// process. Level Warn; attributes timers (their number) and hint.
	EventManyTimers = "purgatory.timers.many"
)
