package timer

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// script decodes bytes into calls of a model's methods.
type script struct {
	data []byte
	m    *model
	size int64
}

func (s *script) byte() byte {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return b
}

func (s *script) item() *modelItem { return s.m.items[int(s.byte())%len(s.m.items)] }

// span returns a duration: zero, negative, a number of ticks or of buckets of some level, 1 ns
// beside those, or up to the largest duration.
func (s *script) span(tick int64) time.Duration {
	kind, n := s.byte(), int64(s.byte())
	beside := n%3 - 1
	ticks := func(k int64) time.Duration {
		if k > math.MaxInt64/tick {
			return math.MaxInt64
		}
		return time.Duration(k*tick + beside)
	}
	switch kind % 10 {
	case 0:
		return 0
	case 1:
		return time.Duration(n)
	case 2:
		return time.Duration(-n * tick)
	case 3, 4:
		return ticks(n / 3)
	case 5, 6: // a whole number of buckets of some level
		span := int64(1)
		for range n >> 3 % 8 {
			if span > math.MaxInt64/256/s.size {
				break
			}
			span *= s.size
		}
		return ticks(span * (1 + n%5))
	case 7:
		return time.Duration(math.MaxInt64 >> (n % 63))
	case 8:
		return time.Duration(math.MaxInt64 - n)
	default:
		var b [8]byte
		s.data = s.data[copy(b[:], s.data):]
		return time.Duration(binary.LittleEndian.Uint64(b[:]))
	}
}

var (
	fuzzTicks = []time.Duration{
		time.Millisecond, 1, 2, 3, 7, 1000, 20 * time.Millisecond, time.Second, time.Hour,
		math.MaxInt64 / 2, math.MaxInt64,
	}
	fuzzShards = []int{1, 2, 4, 64}
)

// runScript decodes a timer's options and the start of its clock from data, then the calls.
func runScript(t testing.TB, data []byte) {
	s := &script{data: data}
	tick := fuzzTicks[int(s.byte())%len(fuzzTicks)]
	shards := fuzzShards[int(s.byte())%len(fuzzShards)]
	s.size = int64(s.byte()) + 2
	if s.byte()%16 == 0 {
		s.size *= 5
	}
	if shards == 64 {
		s.size = 2 + s.size%8 // a step checks every bucket of every shard, so there should be few
	}
	limit := max(0, int(s.byte())-200)
	s.m = &model{}
	start := s.span(int64(tick))
	s.m = newModel(t, 24, start, WithTick(tick), WithWheelSize(int(s.size)), WithShards(shards), WithMaxPending(limit))
	if tick < Never/32 && s.byte()%2 == 0 { // let entries be young at deadlines that scripts often use
		for i := range s.m.timer.shards {
			shard := s.m.timer.shard(i)
			shard.far = 16 * int64(tick)
			shard.youngWait = shard.far/8 + shard.far/8/int64(shards)*int64(i+1)
		}
	}
	for step := 0; len(s.data) > 0 && step < 200; step++ {
		s.step(true)
		s.m.check()
	}
	s.m.advance(math.MaxInt64)
	s.m.check()
	s.m.stop()
}

// step makes one call. Inside a task, outer is false: then step adds nothing that is due
// at once and gives no task anything to do, so that the script ends.
func (s *script) step(outer bool) {
	m, tick := s.m, s.m.tick
	switch s.byte() % 12 {
	case 0, 1, 2:
		it := s.item()
		if deadline := s.after(s.span(tick)); outer || deadline > m.now {
			m.add(it, deadline)
		}
	case 3:
		m.cancel(s.item())
	case 4:
		m.extend(s.item(), s.after(s.span(tick)))
	case 5: // an earlier or later deadline, near the old one
		it := s.item()
		m.extend(it, it.deadline+time.Duration(int8(s.byte()))*time.Duration(tick/16+1))
	case 6:
		from, n := int(s.byte())%len(m.items), int(s.byte())%8
		m.cancelAll(m.items[from:min(from+n, len(m.items))])
	case 7: // an absolute deadline, possibly in the past
		m.extend(s.item(), s.span(tick))
	case 8, 9:
		m.advance(s.span(tick))
	case 10:
		if it := s.item(); outer {
			program := s.data[:min(12, len(s.data))]
			s.data = s.data[len(program):]
			it.onFire = func(*modelItem) {
				inner := &script{data: program, m: m, size: s.size}
				inner.step(false)
				inner.step(false)
				if len(inner.data) > 0 && inner.data[0]%4 == 0 {
					panic("a task's")
				}
			}
		}
	case 11: // what Handle.Reset does
		it := s.item()
		deadline := s.after(s.span(tick))
		if it.scheduled {
			m.extend(it, deadline)
		} else if outer || deadline > m.now {
			m.add(it, deadline)
		}
	}
}

// after returns a deadline d from now. It is in the past if d is negative.
func (s *script) after(d time.Duration) time.Duration {
	if d < 0 {
		return max(0, s.m.now+max(d, -s.m.now))
	}
	return Deadline(s.m.now, d)
}

// FuzzWheel compares a ManualTimer with a plain model. go test runs the inputs in testdata.
func FuzzWheel(f *testing.F) {
	f.Add([]byte("\x00\x00\x12\x01\x00\x03\x20\x00\x01\x03\x10\x08\x03\x30"))
	f.Fuzz(func(t *testing.T, data []byte) { runScript(t, data) })
}

// TestRandomScripts runs the fuzz target on random bytes from a fixed seed.
func TestRandomScripts(t *testing.T) {
	scripts := 400
	if testing.Short() {
		scripts = 20
	}
	for seed := range scripts {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		data := make([]byte, 100+rng.IntN(400))
		for i := range data {
			data[i] = byte(rng.Uint32())
		}
		runScript(t, data)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
