package purgatory

import "github.com/delayedop/purgatory/internal/sched"

// ActionQueue defers calls of a purgatory's methods until the caller has released a lock.
// These methods run operations' methods on the goroutine that calls them, and those may take
// that lock. So add the call while you hold the lock, and run it when you have released it:
//
//	g.mu.Lock()
//	g.state = stable
//	g.actions.Add(func() { p.CheckAndComplete(g.name) })
//	g.mu.Unlock()
//	g.actions.Run()
//
// Actions run one at a time, in the order in which they were added, whichever goroutines
// add and run them. If you use one queue for each lock, this is the order in which the
// lock was held. An action may be any function, such as one that sends a reply.
//
// When Run returns, an action may still wait for another goroutine to run it. So do not
// read its result after Run. Use the result in the action, the error of
// TryCompleteElseWatch for example:
//
//	g.actions.Add(func() {
//		if _, err := p.TryCompleteElseWatch(op, timeout, g.name); err != nil {
//			op.reply <- err // buffered
//		}
//	})
//
// An ActionQueue is safe for concurrent use. Its zero value is empty and ready to use.
type ActionQueue struct {
	mu struct { // lock level 8, taken with no other held
		sched.Mutex
		actions []func()
		running bool
	}
}

// maxActions is the largest number of actions that Run runs on its caller's goroutine. A
// new goroutine runs the rest. Otherwise goroutines that add actions all the time could
// keep Run from returning.
const maxActions = 128

// Add adds an action, to be run by Run. Call it while you hold your lock. It does not
// block. It panics if action is nil.
func (q *ActionQueue) Add(action func()) {
	if action == nil {
		panic("purgatory: ActionQueue.Add(nil)")
	}
	q.mu.Lock()
	q.mu.actions = append(q.mu.actions, action)
	q.mu.Unlock()
}

// Run runs the actions that were added, and those that are added meanwhile. Call it when
// you have released your lock. If the code in between may panic, defer Run before you take
// the lock. If a goroutine is running actions already, that goroutine runs them all and Run
// returns at once; so does a Run that an action calls. After 128 actions Run hands the
// rest to a new goroutine, which ends when there are no more.
//
// A panic in an action goes to Run's caller, and a new goroutine runs the other actions. A
// panic on that goroutine ends the program.
func (q *ActionQueue) Run() {
	q.mu.Lock()
	running := q.mu.running
	q.mu.running = true
	q.mu.Unlock()
	if !running {
		q.run()
	}
}

// run runs up to maxActions actions, and starts a goroutine for the rest. Run has set
// running.
func (q *ActionQueue) run() {
	done := false
	defer func() {
		if !done { // more than maxActions, or an action has panicked or called runtime.Goexit
			sched.Go(q.run)
		}
	}()
	for range maxActions {
		action := q.next()
		if action == nil {
			done = true
			return
		}
		action()
	}
}

// next takes the next action. If there is none, it clears running under the same lock, so
// that the Run after the next Add runs the action.
func (q *ActionQueue) next() (action func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.actions) == 0 {
		q.mu.actions, q.mu.running = nil, false
		return nil
	}
	action = q.mu.actions[0]
	q.mu.actions[0] = nil
	q.mu.actions = q.mu.actions[1:]
	return action
}
