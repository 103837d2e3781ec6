package linearizability

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// step is what happens to a line: those who wait for items, or for units of a semaphore.
type step string

// The steps. A wait is two of them, so that the model sees who came first, and a Shutdown, too.
const (
	join    step = "join"    // somebody begins to wait
	gone    step = "gone"    // the context of a wait has ended
	halt    step = "stop"    // Stop was called
	end     step = "end"     // the wait is over
	put     step = "put"     // an item, or units, are added
	back    step = "back"    // an item, or units, that were taken are put back
	hand    step = "hand"    // an item, or a unit, is for one who waits, or for nobody
	advance step = "advance" // the clock goes on by a timeout
	count   step = "count"   // what Stats says
	drain   step = "drain"   // nobody may come any more
	cut     step = "cut"     // Shutdown returns
	shut    step = "shut"    // the line is closed: what is left comes back
	calm    step = "calm"    // nothing is under way
	over    step = "over"    // the same, and everybody has heard how his wait has ended
)

// fate is how a call has ended, or a wait.
type fate byte

const (
	yes       fate = 'y' // it has what it wants
	no        fate = 'n' // hand, stop: there was nobody
	expired   fate = 'e'
	left      fate = 'l' // its context has ended
	cancelled fate = 'c' // by Stop
	full      fate = 'f'
	closed    fate = 'd'
	cutOff    fate = 's' // by Shutdown
)

// When a wait ends.
const (
	atOnce = 0
	never  = 255
)

// event is the input of a step, result its output.
type event struct {
	step  step
	who   byte
	of    byte // the tenant of who, from 0 to 2
	want  int  // units that who waits for; 0: one item
	until byte // join: when it ends, in timeouts from now; or atOnce, or never
	item  byte // put, back, hand
	n     int  // put, back, hand of units
}

type result struct {
	fate  fate
	item  byte
	items string // shut: the items that are left, in the order of the queue
	units int    // shut: the free units
	stats stats
}

// stats is what is counted: units that come and go, requests that have ended, and what there is.
type stats struct {
	put, back, handed, refusedUnits int
	served, expired, left, refused  int
	waiting, kept                   int
	of                              [3]int // who wait, by tenant
}

// line is its state, as one who sees only the steps can know it. Each string is a list of bytes.
type line struct {
	maxWaiting, maxItems int // 0: no limit

	waiting string // in order of arrival
	wants   string // how many units each of them wants
	tenants string // of whom each of them is
	until   string // when each of them expires, on clock
	left    string // whose context has ended
	fates   string // those who have ended and have yet to hear of it: who, and the fate
	items   string // in the order in which they were put back, and then in that in which they were put
	backs   int    // how many of them were put back
	units   int
	clock   byte
	drained bool // nobody may come
	closed  bool
	counts  stats // but for what there is

	// Start-time fair queueing: each tenant's tag, and when it was set; see package queue. With one tenant, the first who has
	// come is next.
	tags  [3]int
	since [3]int
}

// next returns the index of the one who is next, -1 if nobody waits.
func (l *line) next() int {
	best := -1
	for i := range l.tenants {
		of := l.tenants[i]
		if strings.IndexByte(l.tenants, of) < i {
			continue // not the first of its tenant
		}
		if best < 0 || l.before(of, l.tenants[best]) {
			best = i
		}
	}
	return best
}

func (l *line) before(a, b byte) bool {
	return l.tags[a] < l.tags[b] || l.tags[a] == l.tags[b] && l.since[a] < l.since[b]
}

// mark sets the tag of a tenant. Equal tags are served in the order in which they were set: only that order counts.
func (l *line) mark(of byte, tag int) {
	l.tags[of] = tag
	for i := range l.since {
		if l.since[i] > l.since[of] {
			l.since[i]--
		}
	}
	l.since[of] = len(l.since)
}

// lineModel is a line that begins empty.
func lineModel(maxWaiting, maxItems int) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return line{maxWaiting: maxWaiting, maxItems: maxItems} },
		Step: func(state, input, output any) (bool, any) {
			return state.(line).step(input.(event), output.(result))
		},
		DescribeOperation: func(input, output any) string {
			e, r := input.(event), output.(result)
			switch e.step {
			case put, back, hand:
				return fmt.Sprintf("%s item %d, units %d -> %c", e.step, e.item, e.n, r.fate)
			case shut:
				return fmt.Sprintf("shut -> items %v, units %d", []byte(r.items), r.units)
			case end:
				return fmt.Sprintf("end %d -> %c, item %d", e.who, r.fate, r.item)
			case halt:
				return fmt.Sprintf("stop %d -> %c", e.who, r.fate)
			case join:
				return fmt.Sprintf("join %d (wants %d, until %d, tenant %d)", e.who, e.want, e.until, e.of)
			case count:
				return fmt.Sprintf("count -> %+v", r.stats)
			}
			return fmt.Sprintf("%s %d", e.step, e.who)
		},
	}
}

// step reports whether e can have this result, and returns the state that it leads to.
func (l line) step(e event, r result) (ok bool, next line) {
	switch e.step {
	case join:
		l.join(e)
	case gone:
		l.left += string([]byte{e.who})
	case halt:
		at := strings.IndexByte(l.waiting, e.who)
		if ok = (at >= 0) == (r.fate == yes); ok && at >= 0 {
			l.drop(at, cancelled)
		}
		return ok, l
	case end:
		ok = l.end(e, r)
		return ok, l
	case put, back, hand:
		ok = l.give(e, r)
		return ok, l
	case advance:
		l.clock++
	case count:
		return !l.leftOver() && r.stats == l.stats(), l
	case calm:
		return !l.leftOver(), l
	case over:
		return l.waiting == "" && l.fates == "", l
	case drain:
		l.drained = true
	case cut:
		ok = r.fate != yes || l.waiting == ""
		l.close(cutOff)
		return ok, l
	case shut:
		ok = l.items == r.items && l.units == r.units
		l.close(closed)
		l.items, l.backs, l.units = "", 0, 0
		return ok, l
	}
	return true, l
}

func (l *line) tell(who byte, f fate) { l.fates += string([]byte{who, byte(f)}) }

func (l *line) join(e event) {
	switch waits := strings.Count(l.tenants, string([]byte{e.of})); {
	case strings.IndexByte(l.left, e.who) >= 0:
		l.tell(e.who, left)
		return
	case l.drained:
		l.tell(e.who, closed)
		return
	case l.maxWaiting > 0 && e.until != atOnce && waits >= l.maxWaiting-len(l.waiting):
		l.counts.refused++
		l.tell(e.who, full)
		return
	}
	if l.waiting == "" {
		l.tags = [3]int{}
	}
	if strings.IndexByte(l.tenants, e.of) < 0 {
		tag := l.tags[e.of]
		if next := l.next(); next >= 0 {
			tag = max(tag, l.tags[l.tenants[next]])
		}
		l.mark(e.of, tag)
	}
	until := e.until
	if until != atOnce && until != never {
		until += l.clock
	}
	l.tenants += string([]byte{e.of})
	l.waiting += string([]byte{e.who})
	l.wants += string([]byte{byte(e.want)})
	l.until += string([]byte{until})
}

// drop takes the one at an index out of the line. yes, expired and left are told at once, others later.
func (l *line) drop(at int, f fate) {
	who := l.waiting[at]
	for _, list := range []*string{&l.waiting, &l.tenants, &l.wants, &l.until} {
		*list = (*list)[:at] + (*list)[at+1:]
	}
	switch f {
	case yes:
		l.counts.served++
	case expired:
		l.counts.expired++
	case left:
		l.counts.left++
	default:
		l.counts.left++
		l.tell(who, f)
	}
}

// suits reports whether there is what the one at an index wants, and whose turn it is.
func (l *line) suits(at int) bool {
	if at != l.next() {
		return false
	}
	if want := int(l.wants[at]); want > 0 {
		return want <= l.units
	}
	return l.items != ""
}

func (l *line) end(e event, r result) bool {
	for i := 0; i < len(l.fates); i += 2 {
		if l.fates[i] == e.who {
			told := fate(l.fates[i+1]) == r.fate
			l.fates = l.fates[:i] + l.fates[i+2:]
			return told
		}
	}
	at := strings.IndexByte(l.waiting, e.who)
	if at < 0 {
		return false
	}
	until, hasLeft := l.until[at], strings.IndexByte(l.left, e.who) >= 0
	switch r.fate {
	case yes:
		if hasLeft || until != atOnce && until <= l.clock || !l.suits(at) {
			return false
		}
		l.mark(l.tenants[at], l.tags[l.tenants[at]]+1)
		if e.want > 0 {
			l.units -= e.want
			l.counts.handed += e.want
		} else {
			if l.items[0] != r.item {
				return false
			}
			l.items, l.backs = l.items[1:], max(0, l.backs-1)
			l.counts.handed++
		}
	case left:
		if !hasLeft {
			return false
		}
	case expired:
		if until == atOnce && l.suits(at) || until > l.clock {
			return false
		}
	default:
		return false
	}
	l.drop(at, r.fate)
	return true
}

// give is put, back and hand.
func (l *line) give(e event, r result) bool {
	if l.closed || r.fate == closed {
		return l.closed && r.fate == closed
	}
	n := max(e.n, 1)
	switch next := l.next(); e.step {
	case put:
		if fits := l.maxItems == 0 || n <= l.maxItems-l.kept(); !fits {
			l.counts.refusedUnits += n
			return r.fate == full
		}
	case hand:
		// Those who have left, or are late, have been sent away by whoever comes with an item.
		if finds := next >= 0 && int(l.wants[next]) <= l.units+1; !finds {
			return r.fate == no
		}
	}
	switch {
	case r.fate != yes:
		return false
	case e.n > 0:
		l.units += e.n
	case e.step == back:
		l.items = l.items[:l.backs] + string([]byte{e.item}) + l.items[l.backs:]
		l.backs++
	default:
		l.items += string([]byte{e.item})
	}
	if e.step == back {
		l.counts.back += n
	} else {
		l.counts.put += n
	}
	return true
}

func (l *line) kept() int { return len(l.items) + l.units }

func (l *line) close(f fate) {
	if l.closed {
		return
	}
	for l.waiting != "" {
		l.drop(0, f)
	}
	l.drained, l.closed = true, true
}

func (l *line) stats() stats {
	s := l.counts
	s.waiting, s.kept = len(l.waiting), l.kept()
	for _, of := range []byte(l.tenants) {
		s.of[of]++
	}
	return s
}

// leftOver reports whether somebody waits although he would not: the first in line, and there is what he wants, or one whose
// timeout is 0.
func (l *line) leftOver() bool {
	return strings.IndexByte(l.until, atOnce) >= 0 || l.waiting != "" && l.suits(l.next())
}
