package purgatorytest

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// stuckAfter is how long nothing must have moved before a TryComplete that waits for a lock counts as
// stuck, and sure how much later it must still wait.
var stuckAfter, sure = 10 * time.Second, time.Second

// watch looks at the stacks of all goroutines when something that may block is under way, and nothing
// has begun or ended for stuckAfter. If a TryComplete waits for a lock then, and still does a moment
// later, watch ends the program: the test cannot go on, and may not be able to say so. It is safe for
// concurrent use.
type watch struct {
	mu struct {
		sync.Mutex
		underWay int
		moved    int // how often something has begun or ended
		timer    *time.Timer
	}
}

// move notes that something begins, with 1, or has ended, with -1.
func (w *watch) move(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.underWay += n
	w.mu.moved++
	switch {
	case w.mu.timer == nil:
		w.mu.timer = time.AfterFunc(stuckAfter, w.look)
	case w.mu.underWay == 0:
		w.mu.timer.Stop()
	default:
		w.mu.timer.Reset(stuckAfter)
	}
}

// still returns how often something has moved, and whether something is under way.
func (w *watch) still() (moved int, underWay bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.moved, w.mu.underWay > 0
}

func (w *watch) look() {
	before, underWay := w.still()
	first := locked()
	if !underWay || len(first) == 0 {
		return
	}
	time.Sleep(sure)
	if after, _ := w.still(); after != before {
		return
	}
	for id, stack := range locked() {
		if first[id] != "" {
			panic("purgatorytest: a TryComplete waits for a lock, and nothing has moved for " + (stuckAfter + sure).String() +
				". Does a goroutine check a key, or move the clock, while it holds the lock that the condition takes? Then use Signal.\n\n" + stack + "\n")
		}
	}
}

// waitsForLock matches the first line of a goroutine that waits for a lock; its first group is the
// goroutine's number.
var waitsForLock = regexp.MustCompile(`^goroutine (\d+)[^\[]*\[(?:sync\.(?:RW)?Mutex\.R?Lock|semacquire)\b`)

// locked returns the stacks of the goroutines on which a TryComplete waits for a lock, by number.
func locked() map[string]string {
	all := make([]byte, 1<<20)
	for n := runtime.Stack(all, true); ; n = runtime.Stack(all, true) {
		if n < len(all) {
			all = all[:n]
			break
		}
		all = make([]byte, 2*len(all))
	}
	found := make(map[string]string)
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if head := waitsForLock.FindStringSubmatch(stack); head != nil && strings.Contains(stack, "internal/machine.(*Machine).Try(") {
			found[head[1]] = stack
		}
	}
	return found
}

// writers has the locks that conditions take. It is safe for concurrent use.
type writers struct {
	mu    sync.Mutex
	locks []*sync.RWMutex
}

func (w *writers) add(lock *sync.RWMutex) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.locks = append(w.locks, lock)
}

// wait returns when a writer waits for each of the locks that somebody holds: then nobody gets a read lock before that one has let
// go, not even the same goroutine.
func (w *writers) wait() {
	w.mu.Lock()
	locks := slices.Clone(w.locks)
	w.mu.Unlock()
	for _, lock := range locks {
		through := make(chan struct{})
		go func() {
			lock.Lock()
			lock.Unlock() //nolint:staticcheck // it has only to come
			close(through)
		}()
		for waits := false; !waits; {
			select {
			case <-through:
				waits = true
			default:
				if waits = !lock.TryRLock(); !waits {
					lock.RUnlock()
					runtime.Gosched()
				}
			}
		}
	}
}
