package debug

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/delayedop/purgatory/purgatory"
)

// day is what the notes are made from.
type day struct {
	n  purgatory.Stats
	in purgatory.Inspection
	w  window
}

// ended has operations end in the last minute.
func (d *day) ended(all, expired, unchecked int64) {
	d.n.Accepted, d.n.Satisfied, d.n.Expired, d.n.Unchecked = all+d.n.Pending, all-expired, expired, unchecked
}

// keys has some be known that expired.
func (d *day) keys() {
	d.in.Unchecked = []purgatory.ExpiryReport{{Type: "*fetch", Key: "orders-3", Age: time.Second}, {Type: "*fetch", Key: "of last week", Age: time.Second}}
	d.in.NeverTrue = []purgatory.ExpiryReport{{Type: "*fetch", Key: "orders-7", Age: time.Second, Checks: 1_900_000}, {Type: "*fetch", Key: "orders-8"}}
}

// rising is what a person would call a rise.
var rising = [3]span{{300, 500}, {490, 700}, {690, 900}}

func TestASickDayHasItsNote(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(d *day)
		level string // empty: no note
		text  string
	}{
		{"nothing has ended yet", func(d *day) { d.n.Accepted, d.n.Pending = 7, 7 }, "", ""},

		{"nobody checks a key", func(d *day) { d.ended(10_000, 3, 3); d.keys() }, "trouble", "3 operations have expired in the last 60 s, and nobody had checked orders-3, of last week since they were registered: is a CheckAndComplete missing"},
		{"the only one that ended was unchecked", func(d *day) { d.ended(1, 1, 1); d.keys() }, "trouble", "1 operation has expired in the last 60 s, and nobody had checked orders-3 since"},
		{"nobody checks, and others are met at once or leave", func(d *day) { d.ended(50, 20, 20); d.n.Satisfied, d.n.GaveUp = 1, 1 }, "trouble", "20 operations have expired in the last 60 s, and nobody had checked their keys"},
		{"few unchecked of many", func(d *day) { d.ended(1000, 2, 2) }, "", ""},
		{"unchecked, as expected", func(d *day) { d.ended(20, 20, 20); d.n.TimeoutsExpected = true }, "", ""},
		{"unchecked last week", func(d *day) { d.ended(20, 20, 20); d.w.before, d.w.minute = d.n, d.n }, "", ""},
		{"unchecked since start", func(d *day) { d.ended(1000, 50, 50); d.w = window{} }, "look", "50 operations have expired since start, and nobody had checked"},
		{"few unchecked since start", func(d *day) { d.ended(100_000, 50, 50); d.w = window{} }, "", ""},
		{"all unchecked since start", func(d *day) { d.ended(1, 1, 1); d.w = window{} }, "trouble", "1 operation has expired since start"},

		{"checked, never true", func(d *day) { d.ended(100, 10, 0); d.keys() }, "trouble", "10 operations have expired in the last 60 s, of 100 that ended, and their conditions were never true: orders-7 (checked 1900000 times), orders-8. Does somebody hang"},
		{"checked, never true, some", func(d *day) { d.ended(1000, 10, 0) }, "look", "10 operations have expired in the last 60 s, of 1000 that ended, and their conditions were never true. Does"},
		{"checked, one in a thousand expires", func(d *day) { d.ended(10_000, 10, 0) }, "", ""},
		{"checked, few expire", func(d *day) { d.ended(5, 4, 0) }, "", ""},
		{"checked, as expected", func(d *day) { d.ended(100, 100, 0); d.n.TimeoutsExpected = true }, "", ""},
		{"checked, since start", func(d *day) { d.ended(100, 10, 0); d.w = window{} }, "look", "10 operations have expired since start, of 100"},

		{"clients give up", func(d *day) { d.ended(100, 0, 0); d.n.GaveUp = 94 }, "trouble", "94 % of the waits that ended in the last 60 s were given up, 94 of 100: their contexts ended"},
		{"they had gone before they came", func(d *day) { d.n.GaveUp = 20 }, "trouble", "100 % of the waits that ended in the last 60 s were given up, 20 of 20"},
		{"some clients give up", func(d *day) { d.ended(100, 0, 0); d.n.GaveUp = 49 }, "", ""},
		{"few give up", func(d *day) { d.ended(19, 0, 0); d.n.GaveUp = 19 }, "", ""},
		{"long polls whose clients go", func(d *day) { d.ended(100, 0, 0); d.n.GaveUp, d.n.TimeoutsExpected = 94, true }, "", ""},
		{"CancelForKey", func(d *day) { d.ended(100, 0, 0); d.n.Cancelled = 100 }, "", ""},

		{"a callback blocks", func(d *day) {
			d.n.Running, d.n.BlockedFor = 1, 4*time.Second
			d.in.Blocked = []purgatory.OperationReport{{Type: "*main.fetch", Key: "orders-0", Age: 4 * time.Second}}
		}, "trouble", "a method of *main.fetch, key orders-0, has been running for 4s: it blocks a worker, or the goroutine that called"},
		{"a callback blocks, and has just returned", func(d *day) { d.n.BlockedFor = 4 * time.Second }, "trouble", "a callback has been running for 4s"},
		{"blocked for a moment", func(d *day) { d.n.Running, d.n.BlockedFor = 9, 2*time.Second }, "", ""},
		{"callbacks of 5 ms run at every look", func(d *day) { d.n.Running, d.n.BlockedFor = 9, 5*time.Millisecond }, "", ""},

		{"expiries wait", func(d *day) { d.n.Due, d.n.OldestDue = 38, 3*time.Second }, "trouble", "38 expired operations wait for a free worker, one for 3s: callbacks that block, or too few workers"},
		{"a crowd has just expired", func(d *day) { d.n.Due, d.n.OldestDue = 500, 300*time.Millisecond }, "", ""},
		{"the reaper stalls, which the page says once", func(d *day) { d.n.ReaperStalls = 1 }, "", ""},

		{"panics", func(d *day) { d.n.Panics, d.w.before.Panics = 9, 7 }, "trouble", "2 panics in the last 4 min in operations' methods"},
		{"one panic since start", func(d *day) { d.n.Panics, d.w = 1, window{} }, "look", "1 panic since start"},
		{"panics of last week", func(d *day) { d.n.Panics, d.w.before.Panics = 9, 9 }, "", ""},

		{"full because of one key", func(d *day) {
			d.n.MaxPending, d.n.Pending, d.n.Watched, d.n.Rejected, d.n.RejectedFull = 10, 10, 10, 4, 4
			d.in.Busiest, d.in.Waiting = "orders-5", 9
		}, "trouble", "full: 4 operations were refused in the last 4 min, WithMaxPending is 10; most wait for orders-5: 9 of 10"},
		{"a key is full", func(d *day) { d.n.Rejected, d.n.RejectedFull = 4, 4 }, "trouble", "full: 4 operations were refused in the last 4 min, by WithMaxPendingPerKey"},
		{"nearly full", func(d *day) { d.n.MaxPending, d.n.Pending = 1000, 900 }, "look", "90 % full: 900 operations wait"},
		{"not full", func(d *day) { d.n.MaxPending, d.n.Pending = 1000, 700 }, "", ""},
		{"a bound that nobody reaches", func(d *day) { d.n.MaxPending, d.n.Pending = 1<<63-1, 3 }, "", ""},
		{"full last week", func(d *day) { d.n.Rejected, d.n.RejectedFull = 4, 4; d.w.before = d.n }, "", ""},
		{"refused", func(d *day) { d.n.Rejected = 1 }, "look", "1 operation was refused"},

		{"ever more wait", func(d *day) { d.w.pending = rising }, "look", "pending has grown from 300 to 900 in the last 4 min"},
		{"ever more wait for their timeouts", func(d *day) { d.w.pending, d.n.TimeoutsExpected = rising, true }, "", ""},
		{"a reconnect", func(d *day) { d.w.pending = [3]span{{300, 310}, {300, 900}, {890, 900}} }, "", ""},
		{"a reconnect that is just over", func(d *day) { d.w.pending = [3]span{{300, 310}, {890, 900}, {890, 900}} }, "", ""},
		{"a reconnect after a peak", func(d *day) { d.w.pending = [3]span{{300, 310}, {300, 600}, {890, 900}} }, "", ""},
		{"a reconnect before a peak", func(d *day) { d.w.pending = [3]span{{300, 310}, {890, 900}, {890, 1200}} }, "", ""},
		{"a reconnect that was over soon", func(d *day) { d.w.pending = [3]span{{300, 900}, {600, 900}, {890, 900}} }, "", ""},
		{"more wait, but less than before", func(d *day) { d.w.pending = [3]span{{300, 350}, {1500, 1600}, {800, 900}} }, "", ""},
		{"peaks rise", func(d *day) { d.w.pending = [3]span{{300, 500}, {310, 800}, {305, 1100}} }, "", ""},
		{"an eighth more of many wait", func(d *day) { d.w.pending = [3]span{{800, 860}, {860, 920}, {901, 990}} }, "look", "from 800 to 990"},
		{"some more of many wait", func(d *day) { d.w.pending = [3]span{{800, 860}, {860, 920}, {900, 990}} }, "", ""},
		{"an eighth more wait", func(d *day) { d.w.pending = [3]span{{400, 430}, {440, 470}, {500, 530}} }, "", ""},
		{"an eighth more of many wait, for a minute", func(d *day) {
			d.w.pending, d.w.length = [3]span{{800, 860}, {860, 920}, {901, 990}}, 61*time.Second
		}, "", ""},
		{"ever more wait, for a minute", func(d *day) { d.w.pending, d.w.length = rising, 61*time.Second }, "look", "from 300 to 900 in the last 61 s"},
		{"a callback runs for as long as it may", func(d *day) { d.n.Running, d.n.BlockedFor = 1, blockedLimit }, "", ""},
		{"a callback runs for longer", func(d *day) { d.n.Running, d.n.BlockedFor = 1, blockedLimit+1 }, "trouble", "a callback has been running for 3s"},
		{"expiries wait for as long as they may", func(d *day) { d.n.Due, d.n.OldestDue = 1, dueLimit }, "", ""},
		{"expiries wait for longer", func(d *day) { d.n.Due, d.n.OldestDue = 1, dueLimit+1 }, "trouble", "1 expired operation waits for a free worker, one for 1s"},
		{"five of five hundred expire", func(d *day) { d.ended(500, 5, 0) }, "look", "5 operations have expired in the last 60 s, of 500"},
		{"five of 501 expire", func(d *day) { d.ended(501, 5, 0) }, "", ""},
		{"five of 51 expire", func(d *day) { d.ended(51, 5, 0) }, "look", "5 operations have expired"},
		{"five of 50 expire", func(d *day) { d.ended(50, 5, 0) }, "trouble", "5 operations have expired"},
		{"two unchecked of twenty", func(d *day) { d.ended(20, 2, 2) }, "trouble", "2 operations have expired"},
		{"two unchecked of twenty-one", func(d *day) { d.ended(21, 2, 2) }, "", ""},
		{"three unchecked of 300 since start", func(d *day) { d.ended(300, 3, 3); d.w = window{} }, "look", "3 operations have expired since start"},
		{"three unchecked of 301 since start", func(d *day) { d.ended(301, 3, 3); d.w = window{} }, "", ""},
		{"half give up", func(d *day) { d.ended(100, 0, 0); d.n.GaveUp = 50 }, "trouble", "50 % of the waits"},
		{"full to four fifths", func(d *day) { d.n.MaxPending, d.n.Pending = 1000, 800 }, "", ""},
		{"fuller than four fifths", func(d *day) { d.n.MaxPending, d.n.Pending = 1000, 801 }, "look", "80 % full: 801 operations wait"},
		{"just enough wait", func(d *day) { d.w.pending = [3]span{{1, 50}, {51, 100}, {101, 161}} }, "look", "pending has grown from 1 to 161"},
		{"twice as many wait", func(d *day) { d.w.pending = [3]span{{100, 130}, {150, 180}, {200, 230}} }, "", ""},
		{"more than twice as many wait", func(d *day) { d.w.pending = [3]span{{100, 130}, {150, 180}, {201, 230}} }, "look", "from 100 to 230"},
		{"many unchecked", func(d *day) {
			d.ended(20, 7, 7)
			for i := range 7 {
				d.in.Unchecked = append(d.in.Unchecked, purgatory.ExpiryReport{Key: string(rune('a' + i))})
			}
		}, "trouble", "nobody had checked a, b, c, d, e since they were registered"},

		{"few wait", func(d *day) { d.w.pending = [3]span{{1, 50}, {51, 100}, {100, 160}} }, "", ""},
	} {
		d := &day{w: window{length: 4 * time.Minute, minuteLength: time.Minute}}
		c.make(d)
		got := notes(&d.n, &d.in, &d.w)
		if c.level == "" {
			assert.Empty(t, got, c.name)
			assert.Equal(t, stateOK, state(got))
			continue
		}
		if assert.Len(t, got, 1, c.name) {
			assert.Equal(t, c.level, got[0].Level, c.name)
			assert.Equal(t, c.level, state(got))
			assert.Contains(t, got[0].Text, c.text, c.name)
		}
	}
}

// One cause, one trouble: what waited for the goroutine that is blocked points to it.
func TestABlockedCallbackExplainsExpiries(t *testing.T) {
	d := &day{w: window{length: 4 * time.Minute, minuteLength: time.Minute}}
	d.ended(591, 292, 200)
	d.n.Running, d.n.BlockedFor = 9, 4*time.Second
	d.w.pending = rising
	got := notes(&d.n, &d.in, &d.w)
	if assert.Len(t, got, 2) {
		assert.Contains(t, got[0].Text, "has been running for 4s")
		assert.Equal(t, Note{stateLook, "292 operations have expired in the last 60 s: the blocked callbacks may be why"}, got[1])
	}
	d.ended(591, 4, 4)
	assert.Len(t, notes(&d.n, &d.in, &d.w), 1)
}

func TestTheWorstNoteComesFirst(t *testing.T) {
	d := &day{w: window{length: 4 * time.Minute, minuteLength: time.Minute}}
	d.n.Rejected, d.n.GaveUp, d.n.MaxPending, d.n.Pending = 1, 20, 10, 10
	got := notes(&d.n, &d.in, &d.w)
	if assert.Len(t, got, 3) {
		assert.Equal(t, []string{stateTrouble, stateLook, stateLook}, []string{got[0].Level, got[1].Level, got[2].Level})
	}
}

// watched returns a sample a second, each of numbers that of sets.
func watched(count int, of func(second int64, n *purgatory.Stats)) []sample[purgatory.Stats] {
	samples := make([]sample[purgatory.Stats], count)
	for i := range samples {
		samples[i].at = noon.Add(time.Duration(i) * time.Second)
		of(int64(i), &samples[i].stats)
	}
	return samples
}

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func TestTheWindowHasTheLastMinutes(t *testing.T) {
	samples := watched(180, func(second int64, n *purgatory.Stats) {
		n.Expired, n.Pending = 10*second, second
	})
	at := func(seconds int) *window {
		return windowOf(samples[:seconds], noon.Add(time.Duration(seconds)*time.Second))
	}
	assert.Equal(t, &window{}, at(5), "it has not watched for long")
	w := at(50)
	assert.Equal(t, []any{50 * time.Second, 50 * time.Second, [3]span{}}, []any{w.length, w.minuteLength, w.pending})
	w = at(180)
	assert.Equal(t, []any{3 * time.Minute, time.Minute}, []any{w.length, w.minuteLength})
	assert.Equal(t, []any{int64(0), int64(1200), [3]span{{0, 59}, {60, 119}, {120, 179}}}, []any{w.before.Expired, w.minute.Expired, w.pending})

	assert.Equal(t, [3]span{}, windowOf(samples[:2], noon.Add(time.Hour)).pending, "the process was stopped")

	for length, name := range map[time.Duration]string{
		0: "since start", 90 * time.Second: "in the last 90 s", 2 * time.Minute: "in the last 2 min", 144 * time.Second: "in the last 2.4 min",
	} {
		assert.Equal(t, name, spanOf(length))
	}
}

// After a stop of the process with nothing to expire nothing was late. Otherwise it is one note, of all purgatories.
func TestAStallIsANoteIfTimeoutsWereLate(t *testing.T) {
	s := stalls{}
	samples := watched(60, func(second int64, n *purgatory.Stats) { n.Expired = second; n.ReaperStalls = second / 30 })
	idle := watched(60, func(second int64, n *purgatory.Stats) { n.ReaperStalls = second / 30 })
	s.add("idle", idle, &idle[59].stats)
	assert.Empty(t, s.notes())
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		s.add(name, samples, &samples[59].stats)
	}
	assert.Equal(t, []Note{{stateLook, "6 timeouts of a, b, c, d, e and 1 more late in the last minutes: the process stalled. Does it get the CPU?"}}, s.notes())
	s = stalls{}
	s.add("a", samples, &purgatory.Stats{Expired: 99, ReaperStalls: 9})
	assert.Contains(t, s.notes()[0].Text, "41 timeouts", "since the last sample, too")
}
