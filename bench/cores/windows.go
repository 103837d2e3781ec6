package main

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A machine that other programs use too takes a processor away for milliseconds at a time. So a figure comes from short
// slices of a window, and only from those in which every stream of work has gone on all the time.
const slice = 250 * time.Microsecond

// stream is the progress of a goroutine, or of several that stand in for each other.
type stream struct {
	over  *atomic.Bool
	begun time.Time
	marks []mark
	n     int64 // operations so far
	calls int
	every int // calls between two marks
	left  int // calls until the window is over; not above 0: it is over when it is told so
	laps  []float64
	lap   time.Duration // when the last one was over
}

// lapped notes that n operations are over that many goroutines do in turns: the rate of a lap stands for that of its slices.
func (s *stream) lapped(n int) {
	at := time.Since(s.begun)
	if !s.over.Load() {
		s.laps = append(s.laps, float64(n)/(at-s.lap).Seconds())
	}
	s.lap = at
}

type mark struct {
	at time.Duration
	n  int64
}

// more counts n operations. It reports whether the window goes on.
func (s *stream) more(n int64) bool {
	s.n += n
	if s.calls++; s.calls >= s.every {
		s.calls = 0
		at := time.Since(s.begun)
		if last := len(s.marks) - 1; last >= 0 {
			switch took := at - s.marks[last].at; { // marks come 5 to 50 µs after each other
			case took < 5*time.Microsecond:
				s.every = 2*s.every + 1
			case took > 50*time.Microsecond:
				s.every /= 2
			}
		}
		s.marks = append(s.marks, mark{at, s.n})
	}
	if s.left--; s.left == 0 {
		s.over.Store(true)
	}
	return !s.over.Load()
}

// window is what goroutines did in a short time.
type window struct {
	took     time.Duration
	rates    []float64      // operations in a second, of each slice that counts
	counts   map[int64]bool // the numbers of these slices
	whole    float64        // the rate of the whole window
	lockWait float64        // seconds that goroutines wait for locks, in a second of a processor
}

// aWindow runs goroutines until a time has passed. The collector does not run meanwhile. Those with the same number of stream
// stand in for each other.
func aWindow(goroutines int, d time.Duration, streamOf func(worker int) int, run func(worker int, s *stream)) (w window) {
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	waited := lockWait()
	streams, took := perform(goroutines, 0, func(over *atomic.Bool) {
		time.Sleep(d)
		over.Store(true)
	}, run)
	w.took = took
	w.lockWait = (lockWait() - waited) / w.took.Seconds() / float64(runtime.GOMAXPROCS(0))
	together := map[int][]stream{}
	for worker, s := range streams {
		w.whole += float64(s.n) / w.took.Seconds()
		together[streamOf(worker)] = append(together[streamOf(worker)], s)
	}
	w.slice(together)
	if laps := streams[0].laps; len(laps) > 1 {
		w.rates = laps[1:] // goroutines begin in the first one
	}
	return w
}

// perform has goroutines run until their window is over: when end, which they run beside, sets over, or one of them has made so
// many calls of more (0: any number).
func perform(goroutines, calls int, end func(over *atomic.Bool), run func(worker int, s *stream)) (streams []stream, took time.Duration) {
	var (
		over  atomic.Bool
		done  sync.WaitGroup
		begin = make(chan struct{})
		start time.Time
	)
	streams = make([]stream, goroutines)
	for worker := range streams {
		streams[worker].marks = make([]mark, 0, 256)
		done.Go(func() {
			<-begin
			s := &streams[worker]
			s.over, s.begun, s.left = &over, start, calls
			run(worker, s)
		})
	}
	start = time.Now()
	close(begin)
	end(&over)
	done.Wait()
	return streams, time.Since(start)
}

// slice finds the slices that count.
func (w *window) slice(together map[int][]stream) {
	w.counts = map[int64]bool{}
	operations := map[int64]float64{}
	seen := map[int64]int{}
	last := int64(w.took/slice) - 1
	for _, streams := range together {
		var times []time.Duration
		for _, s := range streams {
			for i, m := range s.marks {
				times = append(times, m.at)
				if i > 0 {
					before := s.marks[i-1]
					spread(operations, before.at, m.at, float64(m.n-before.n))
				}
			}
		}
		slices.Sort(times)
		gone := map[int64]bool{} // slices in which the stream stood still
		for i := 1; i < len(times); i++ {
			if times[i]-times[i-1] > slice/2 {
				for at := int64(times[i-1] / slice); at <= int64(times[i]/slice); at++ {
					gone[at] = true
				}
			}
		}
		if len(times) > 0 {
			for at := int64(times[0]/slice) + 1; at < int64(times[len(times)-1]/slice); at++ {
				if !gone[at] {
					seen[at]++
				}
			}
		}
	}
	for at := int64(1); at < last; at++ {
		if seen[at] == len(together) {
			w.counts[at] = true
			w.rates = append(w.rates, operations[at]/slice.Seconds())
		}
	}
}

// spread adds operations to the slices between two times, to each its part.
func spread(into map[int64]float64, from, to time.Duration, n float64) {
	for at := int64(from / slice); at <= int64(to/slice); at++ {
		begin, end := max(from, time.Duration(at)*slice), min(to, time.Duration(at+1)*slice)
		if to > from {
			into[at] += n * float64(end-begin) / float64(to-from)
		}
	}
}

func lockWait() float64 {
	sample := []metrics.Sample{{Name: "/sync/mutex/wait/total:seconds"}}
	metrics.Read(sample)
	return sample[0].Value.Float64()
}

// enough is how many slices make a figure.
const enough = 100

// figure is the rate that one slice in twenty exceeds: what else runs on a machine makes slices slower, also on the other thread
// of a core.
type figure struct {
	rate, lockWait float64
	slices         int // below enough the figure is a guess; with none it is the best window's
}

func typical(windows []window) (f figure) { return atLevel(windows, 19, 20) }

// atLevel is typical for another level.
func atLevel(windows []window, level, of int) (f figure) {
	var rates []float64
	for _, w := range windows {
		rates = append(rates, w.rates...)
	}
	// Locks are waited for long where a processor was taken away from who held one: the calmest windows say more.
	windows = slices.Clone(windows)
	slices.SortFunc(windows, func(a, b window) int { return cmp.Compare(len(b.rates), len(a.rates)) })
	calm := windows[:(len(windows)+2)/3]
	for _, w := range calm {
		f.lockWait += w.lockWait / float64(len(calm))
	}
	if f.slices = len(rates); f.slices == 0 {
		for _, w := range windows {
			f.rate = max(f.rate, w.whole)
		}
		return f
	}
	slices.Sort(rates)
	f.rate = rates[len(rates)*level/of]
	return f
}

// alone is the number of the stream of a goroutine for which no other stands in.
func alone(worker int) int { return worker }
