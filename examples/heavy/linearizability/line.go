package linearizability

import (
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"
)

// step is what happens to a line: those who wait for items, or for units of a semaphore.
type step string

// The steps. A wait is two of them, so that the model sees who came first.
const (
	join step = "join" // somebody begins to wait
	gone step = "gone" // the context of a wait has ended
	end  step = "end"  // the wait is over
	put  step = "put"  // an item is added
	back step = "back" // an item that was taken is put back
	give step = "give" // units are given back
	calm step = "calm" // nothing is under way
	shut step = "shut" // the line is closed: what is left comes back
)

// event is the input of a step, result its output.
type event struct {
	step step
	who  byte
	of   byte // the tenant of who, from 0 to 2
	want int  // units that who waits for; 0: one item
	item byte // put, back
	n    int  // give
}

type result struct {
	took  bool // end; else who has left without anything
	item  byte
	items string // shut: the items that are left, in the order of the queue
	units int    // shut: the free units
}

// line is its state, as one who sees only the steps can know it. Each string is a list of bytes.
type line struct {
	waiting string // in order of arrival
	wants   string // how many units each of them wants
	tenants string // of whom each of them is
	left    string // whose context has ended
	items   string // in the order in which they were put back, and then in that in which they were put
	backs   int    // how many of them were put back
	units   int

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
func lineModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return line{} },
		Step: func(state, input, output any) (bool, any) {
			return state.(line).step(input.(event), output.(result))
		},
		DescribeOperation: func(input, output any) string {
			e, r := input.(event), output.(result)
			switch e.step {
			case put, back:
				return fmt.Sprintf("%s %d", e.step, e.item)
			case give:
				return fmt.Sprintf("give %d", e.n)
			case shut:
				return string(e.step) + fmt.Sprintf(": items %v, units %d", []byte(r.items), r.units)
			case end:
				return fmt.Sprintf("end %d -> took %v, item %d", e.who, r.took, r.item)
			}
			return fmt.Sprintf("%s %d (wants %d)", e.step, e.who, e.want)
		},
	}
}

// step reports whether e can have this result, and returns the state that it leads to.
func (l line) step(e event, r result) (ok bool, next line) {
	switch e.step {
	case join:
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
		l.tenants += string([]byte{e.of})
		l.waiting += string([]byte{e.who})
		l.wants += string([]byte{byte(e.want)})
	case gone:
		l.left += string([]byte{e.who})
	case put:
		l.items += string([]byte{e.item})
	case back:
		l.items = l.items[:l.backs] + string([]byte{e.item}) + l.items[l.backs:]
		l.backs++
	case give:
		l.units += e.n
	case calm:
		return !l.leftOver(), l
	case shut:
		ok = l.items == r.items && l.units == r.units
		l.items, l.backs, l.units = "", 0, 0
		return ok, l
	case end:
		at := strings.IndexByte(l.waiting, e.who)
		if at < 0 || r.took && (at != l.next() || strings.IndexByte(l.left, e.who) >= 0) {
			return false, l
		}
		if r.took {
			l.mark(l.tenants[at], l.tags[l.tenants[at]]+1)
		}
		l.waiting = l.waiting[:at] + l.waiting[at+1:]
		l.tenants = l.tenants[:at] + l.tenants[at+1:]
		l.wants = l.wants[:at] + l.wants[at+1:]
		switch {
		case !r.took:
		case e.want > l.units:
			return false, l
		case e.want > 0:
			l.units -= e.want
		case l.items == "" || l.items[0] != r.item:
			return false, l
		default:
			l.items, l.backs = l.items[1:], max(0, l.backs-1)
		}
	}
	return true, l
}

// leftOver reports whether the first in line waits although there is what it wants.
func (l line) leftOver() bool {
	if l.waiting == "" {
		return false
	}
	if want := int(l.wants[l.next()]); want > 0 {
		return want <= l.units
	}
	return l.items != ""
}
