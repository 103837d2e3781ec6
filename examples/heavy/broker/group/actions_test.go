package group

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
)

func TestActionsRunInTheOrderOfTheLockOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 2000
		var mu sync.Mutex
		var q actions
		var got []int
		var inside atomic.Int32
		next := 0
		for range 8 {
			go func() {
				for {
					mu.Lock()
					n := next
					if n == all {
						mu.Unlock()
						return
					}
					next++
					q.add(func() {
						assert.EqualValues(t, 1, inside.Add(1))
						got = append(got, n)
						runtime.Gosched()
						inside.Add(-1)
					})
					mu.Unlock()
					q.run()
				}
			}()
		}
		synctest.Wait()
		assert.Len(t, got, all)
		for i, n := range got {
			assert.Equal(t, i, n)
		}
	})
}

// Actions that are added without end, each by the one before, keep nobody from returning and nest in no stack.
func TestActionsThatAddActionsGoOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q actions
		n, stop := 0, make(chan struct{})
		var again func()
		again = func() {
			if n++; n == 10*maxActions {
				return
			}
			if n == maxActions+1 {
				<-stop
			}
			q.add(again)
			q.run()
		}
		q.add(again)
		q.run() // returns although the action after those that it runs itself blocks
		synctest.Wait()
		assert.Equal(t, maxActions+1, n)
		close(stop)
		synctest.Wait()
		assert.Equal(t, 10*maxActions, n)
	})
}

func TestAnActionThatPanicsStopsNoOtherAction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q actions
		n := 0
		q.add(func() { panic("boom") })
		for range 300 {
			q.add(func() { n++ })
		}
		assert.Panics(t, q.run)
		synctest.Wait()
		assert.Equal(t, 300, n)
	})
}
