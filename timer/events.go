package timer

// EventManyTimers is the message of a record that a timer logs (see [WithLogger]) if the process
// has more than 64 running SystemTimers. Logged once per process. Level Warn; attributes timers
// (their number) and hint. The message does not change between releases.
const EventManyTimers = "purgatory.timers.many"
