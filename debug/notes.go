package debug

import (
	"fmt"
	"math"
	"time"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Note is something that deserves a look.
type Note struct {
	Level string `json:"level"` // "trouble" or "look"
	Text  string `json:"text"`
}

// When numbers deserve a note.
const (
	lateLimit     = 100 * time.Millisecond // a tick is 1 ms; a tenth of a second is no scheduling hiccup
	fewExpiries   = 3                      // of a key, before their only cause is remarkable
	dueLimit      = 64                     // expired operations that find no worker
	wastedPercent = 90
	fewChecks     = 1000 // before their waste is remarkable
	fewPending    = 100  // before their growth is
)

// notes says what is remarkable about a purgatory, over the minutes that samples cover.
func notes(samples []sample, s *purgatory.Stats, in *purgatory.Inspection) []Note {
	all := []Note{}
	trouble := func(format string, args ...any) { all = append(all, Note{"trouble", fmt.Sprintf(format, args...)}) }
	look := func(format string, args ...any) { all = append(all, Note{"look", fmt.Sprintf(format, args...)}) }
	var before purgatory.Stats
	if len(samples) > 0 {
		before = samples[0].stats
	}

	if n := suspects(in.Expiring); n > 0 {
		trouble("%d of the keys shown ended only by timeout: does anybody call CheckAndComplete for such a key?", n)
	}
	late := s.Late.Since(&before.Late)
	if q := late.Quantile(0.99); q > lateLimit {
		bound := fmt.Sprintf("up to %v", q)
		if q == math.MaxInt64 {
			bound = "minutes"
		}
		trouble("timeouts are late: the slowest hundredth by %s. Stalled process, or callbacks that block the workers?", bound)
	}
	if in.Wheels.Due > dueLimit {
		trouble("at least %d expired operations wait for a free worker", in.Wheels.Due)
	}
	if s.Panics > 0 {
		trouble("%d panics in operations' methods, see the log", s.Panics)
	}
	if n := len(samples); n > 60 && s.Pending > fewPending && s.Pending > 2*before.Pending && s.Pending > samples[n/2].stats.Pending {
		look("pending has more than doubled in the last minutes. For produces that is trouble, for fetches it may be load")
	}
	checks, wasted := s.Checks-before.Checks, s.WastedChecks-before.WastedChecks
	if checks > fewChecks && 100*wasted > wastedPercent*checks {
		look("%d %% of the checks lately found nothing to do: a key that too many share, or positions to wait for (CheckAndCompleteUpTo)?", 100*wasted/checks)
	}
	return all
}

func suspects(keys []purgatory.KeyReport) (n int) {
	for i := range keys {
		if keys[i].OnlyTimeouts() && keys[i].Ended[operation.Expired] >= fewExpiries {
			n++
		}
	}
	return n
}
