//go:build interleave

package programs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/delayedop/purgatory/proof/explore"
)

// shrinkSchedules is how many schedules of a smaller program are tried before it counts as
// sound; where one part is left out, so many more that few needless parts stay.
const (
	shrinkSchedules     = 300
	shrinkLastSchedules = 3000
)

// shrink leaves out parts of p, in large groups first, as long as what is left fails under some
// schedule, and then looks for its shortest failing schedule. It stops when the time of the
// flag -shrink is over.
func shrink(p *program, r explore.Result, seed uint64) (kept parts, small explore.Result) {
	for n := range p.parts() {
		kept = append(kept, n)
	}
	began, schedules := time.Now(), shrinkSchedules
	over := func() bool { return time.Since(began) > *patience }
	for size := len(kept) / 2; ; size = max(1, size/2) {
		fewer := false
		if size == 1 {
			schedules = shrinkLastSchedules
		}
		for at := 0; at < len(kept) && !over(); {
			some := slices.Delete(slices.Clone(kept), at, min(at+size, len(kept)))
			e := exploration(some.of(p))
			found := e.Replay(r.Schedule)
			if found.Failure == nil {
				found = e.Random(seed, schedules)
			}
			if found.Failure == nil {
				at += max(1, size)
				continue
			}
			kept, r, fewer = some, found, true
		}
		if over() {
			return kept, r
		}
		if size <= 1 && !fewer {
			return kept, exploration(kept.of(p)).Shrink(r)
		}
	}
}

// parts are numbers of a program's parts, in ascending order.
type parts []int

// of returns the program that has only these parts of p.
func (k parts) of(p *program) *program {
	return p.without(func(n int) bool { _, kept := slices.BinarySearch(k, n); return !kept })
}

// token returns a failure as one word: the program's seed, the parts that it needs, and the
// schedule.
func token(seed uint64, kept parts, schedule string) string {
	var words []string
	for _, n := range kept {
		words = append(words, fmt.Sprint(n))
	}
	return fmt.Sprintf("%x/%s/%s", seed, strings.Join(words, "."), schedule)
}

// parse is the inverse of token.
func parse(text string) (seed uint64, kept parts, schedule string, err error) {
	words := strings.Split(text, "/")
	if len(words) != 3 {
		return 0, nil, "", fmt.Errorf("%q is not what a failure has printed", text)
	}
	if _, err = fmt.Sscanf(words[0], "%x", &seed); err != nil {
		return 0, nil, "", err
	}
	for part := range strings.SplitSeq(words[1], ".") {
		var n int
		if _, err = fmt.Sscan(part, &n); err != nil {
			return 0, nil, "", err
		}
		kept = append(kept, n)
	}
	return seed, kept, words[2], nil
}
