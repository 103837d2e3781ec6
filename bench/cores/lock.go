package main

import (
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/delayedop/purgatory/purgatory"
)

// lockWord is the state word of a sync.Mutex: see internal/sync/mutex.go of Go.
type lockWord struct{ state *atomic.Int32 }

const (
	lockHeld     = 1
	lockStarving = 4
	lockWaiters  = 3 // how far the number of waiters is shifted
)

func (w lockWord) held() bool     { return w.state.Load()&lockHeld != 0 }
func (w lockWord) starving() bool { return w.state.Load()&lockStarving != 0 }

// mutexWord returns the state word of the mutex at m: its first word.
func mutexWord(m unsafe.Pointer) lockWord { return lockWord{(*atomic.Int32)(m)} }

// shardLock returns the lock of the one shard of p that is in use. It looks into the library by reflection, since nothing
// that the library offers says whether a lock is in starvation mode.
func shardLock(p *purgatory.Purgatory[string]) lockWord {
	slots := reflect.ValueOf(p).Elem().FieldByName("watchers").Elem().FieldByName("slots")
	for i := range slots.Len() {
		slot := slots.Index(i) // an atomic.Pointer
		at := slot.FieldByName("v")
		if at.IsNil() {
			continue
		}
		shard := slot.Type().Field(0).Type.Elem().Elem() // of its field _ [0]*T
		mu := reflect.NewAt(shard, at.UnsafePointer()).Elem().FieldByName("mu").FieldByName("Mutex")
		return mutexWord(unsafe.Pointer(mu.UnsafeAddr()))
	}
	panic("no shard is in use")
}

// contended returns how often a lock was released while somebody waited for it, by a function of some name or what it calls.
// The fraction of the mutex profile must be 1.
func contended(function string) (handOvers int64) {
	var records []runtime.BlockProfileRecord
	for n, ok := 256, false; !ok; n += 64 {
		records = make([]runtime.BlockProfileRecord, n)
		if n, ok = runtime.MutexProfile(records); ok {
			records = records[:n]
		}
	}
	for _, r := range records {
		for frames, more := runtime.CallersFrames(r.Stack()), true; more; {
			var frame runtime.Frame
			if frame, more = frames.Next(); strings.Contains(frame.Function, function) {
				handOvers += r.Count
				break
			}
		}
	}
	return handOvers
}
