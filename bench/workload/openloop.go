package workload

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/delayedop/purgatory/bench/meter"
	"github.com/delayedop/purgatory/bench/purgatories"
	"github.com/delayedop/purgatory/bench/result"
)

// openLoop measures P4, the shape of Kafka's own purgatory test: requests arrive in a Poisson process whatever becomes of
// them, each watched under 3 of 100 keys with a timeout of 200 ms, and ended by force after a log-normal time. It asks for
// the processor time per request at given rates, and for the highest rate that is held.
func openLoop(r *Run) {
	rates := []int{20_000, 50_000, 100_000, 200_000}
	if r.Quick {
		rates = rates[2:3]
	}
	peers := r.operations(purgatories.Ours, purgatories.Timers, purgatories.CB)
	for _, rate := range rates {
		params := fmt.Sprintf("mix=20-60ms/rate=%d", rate)
		r.each("P4  "+params, r.longRounds(), peers, func(round int, peer string) {
			o := offer(purgatories.New(peer), arrivals(min(rate, arrivalTable)), rate, 6*r.Window)
			r.add("P4", params, peer, round, o.arrived, o.metrics())
		})
	}
	r.each("P4  highest rate", r.longRounds(), r.operations(), func(round int, peer string) { highest(r, round, peer) })
}

// arrivalTable is how many requests are drawn at most; they come again and again.
const arrivalTable = 1 << 18

// ladder holds the rates that are tried for the highest, and usual is the one that is tried first.
var (
	ladder = []int{50_000, 100_000, 200_000, 300_000, 400_000, 500_000, 700_000, 850_000, 1_000_000, 1_200_000, 1_500_000, 2_000_000}
	usual  = slices.Index(ladder, 500_000)
)

// climb returns the highest rung that holds: it goes up from the usual one until a rung falls, or down until one holds.
// It is -1 if none does.
func climb(holds func(rate int) bool) int {
	at := usual
	for ; at >= 0 && !holds(ladder[at]); at-- {
	}
	if at < usual {
		return at
	}
	for at+1 < len(ladder) && holds(ladder[at+1]) {
		at++
	}
	return at
}

// highest looks for the highest rung of the ladder that is held for a short while, and makes sure of it by holding it for
// the whole ten seconds, or the next below that it does hold.
func highest(r *Run, round int, peer string) {
	table := arrivals(arrivalTable)
	try := func(rate int, window time.Duration) offered { return offer(purgatories.New(peer), table, rate, window) }
	metrics, arrived := map[string]float64{result.Held: 0}, int64(0)
	for best := climb(func(rate int) bool { return try(rate, 20*r.Window).held() }); best >= 0; best-- {
		o := try(ladder[best], 10*time.Second)
		maps.Copy(metrics, o.metrics())
		if o.held() {
			metrics[result.Held], arrived = o.rate(), o.arrived
			break
		}
	}
	r.add("P4", "mix=20-60ms/highest", peer, round, arrived, metrics)
}

// offered is what came of offering requests at a rate.
type offered struct {
	target  int
	arrived int64
	forced  int64
	window  time.Duration
	cost    meter.Cost
	lag     time.Duration // how far completions were behind at the end
}

func (o offered) rate() float64 { return float64(o.arrived) / o.window.Seconds() }

// slack is how far a generator, and its completer, may be behind at the end: 1 % of ten seconds. A shorter window has the
// same, or a pause of a few milliseconds would decide.
const slack = 100 * time.Millisecond

// held says whether 99 % of ten seconds' requests were offered, and their completions did not fall behind either.
func (o offered) held() bool {
	behind := o.window - time.Duration(float64(o.arrived)/float64(o.target)*float64(time.Second))
	return behind <= slack && o.lag < slack
}

func (o offered) metrics() map[string]float64 {
	return map[string]float64{
		result.CPUOp:    float64(o.cost.CPU) / float64(o.arrived),
		result.Rate:     o.rate(),
		result.AllocsOp: float64(o.cost.Mallocs) / float64(o.arrived),
		result.BytesOp:  float64(o.cost.Bytes) / float64(o.arrived),
	}
}

// offer runs the open loop with one generator for a window.
func offer(p purgatories.Purgatory, table []arrival, rate int, window time.Duration) offered {
	lane := purgatories.NewLane()
	c := newCompleter(p)
	meter.Prefault(int(min(int64(rate)*int64(requestTimeout/time.Millisecond)*300/1000, 512<<20)))
	s := meter.Start()
	c.start()
	o := offered{target: rate, window: window}
	o.arrived = generate(p, lane, c, table, rate, window)
	o.forced, o.lag = c.stop()
	for stopped := time.Now(); p.Pending() > 0; time.Sleep(10 * time.Millisecond) { // the last ones expire
		if time.Since(stopped) > 30*time.Second {
			panic(fmt.Sprintf("%d requests with a timeout of %s never ended", p.Pending(), requestTimeout))
		}
	}
	o.cost = s.Stop() // of requests from arrival to their end, all of them
	p.Close()
	return o
}

// hopeless is how many seconds a generator is behind when it gives up. It has offered less than 99 % of ten seconds then,
// so that the rate counts as not held.
const hopeless = 1

// generate submits requests as they arrive, those of a millisecond together: a generator that slept for every single one
// would measure the scheduler. One that has fallen behind does not sleep; what it has not offered by the end was not held.
func generate(p purgatories.Purgatory, lane *purgatories.Lane, c *completer, table []arrival, rate int, window time.Duration) int64 {
	var (
		n     int64
		due   float64 // arrival of the next request, in seconds
		start = time.Now()
		mean  = 1 / float64(rate)
	)
	for {
		now := time.Since(start)
		if now >= window {
			return n
		}
		for until := now.Seconds(); due <= until; n++ {
			a := &table[n%int64(len(table))]
			op := p.Submit(lane, requestTimeout, a.keys)
			if a.latency < int32(requestTimeout/time.Millisecond) {
				c.at(now+time.Duration(a.latency)*time.Millisecond, op)
			}
			due += a.gap * mean
			if n%256 == 255 {
				now = time.Since(start) // one that is behind submits no request in the past
				if now >= window || now.Seconds()-due > hopeless {
					return n + 1
				}
			}
		}
		if ahead := due - time.Since(start).Seconds(); ahead > 0 {
			time.Sleep(max(time.Millisecond, time.Duration(ahead*1e9)))
		}
	}
}
