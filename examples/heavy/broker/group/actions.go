package group

import "sync"

// actions are calls that are put off until their caller has released a lock: the methods of a purgatory run
// operations' methods on the goroutine that calls them, and those take that lock. Add a call while you hold
// the lock, and run it when you have released it.
//
// Actions run one at a time, in the order in which they were added, which with one actions for each lock is the
// order in which the lock was held. When run returns, an action may still wait for another goroutine to run it. So
// nobody reads its result after run: the action does what follows from it.
//
// The zero value is empty and ready to use. It is safe for concurrent use.
type actions struct {
	mu struct {
		sync.Mutex
		calls   []func()
		running bool
	}
}

// maxActions is the largest number of actions that run runs on its caller's goroutine. A new goroutine runs the
// rest. Otherwise goroutines that add actions all the time could keep run from returning.
const maxActions = 128

// add adds an action, to be run by run. It does not block.
func (a *actions) add(action func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.calls = append(a.mu.calls, action)
}

// run runs the actions that were added, and those that are added meanwhile. If a goroutine is running actions
// already, that goroutine runs them all and run returns at once; so does a run that an action calls.
func (a *actions) run() {
	a.mu.Lock()
	running := a.mu.running
	a.mu.running = true
	a.mu.Unlock()
	if !running {
		a.runSome()
	}
}

// runSome runs up to maxActions actions, and starts a goroutine for the rest. run has set running.
func (a *actions) runSome() {
	done := false
	defer func() {
		if !done { // more than maxActions, or an action has panicked
			go a.runSome()
		}
	}()
	for range maxActions {
		action := a.next()
		if action == nil {
			done = true
			return
		}
		action()
	}
}

// next takes the next action. If there is none, it clears running under the same lock, so that the run after
// the next add runs the action.
func (a *actions) next() (action func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.mu.calls) == 0 {
		a.mu.calls, a.mu.running = nil, false
		return nil
	}
	action = a.mu.calls[0]
	a.mu.calls[0] = nil
	a.mu.calls = a.mu.calls[1:]
	return action
}
