package debug

import (
	"math"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// A source may be a type of the user's, and call the page.
func TestASourceMayCallThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := pageWith(Options{Idle: -1})
		guest := &stranger{name: "guest", stats: func() purgatory.Stats { return purgatory.Stats{} }}
		var calls atomic.Int64
		require.NoError(t, page.Add(&stranger{name: "p", stats: func() purgatory.Stats {
			calls.Add(1)
			require.NoError(t, page.Add(guest))
			page.Remove(guest)
			return purgatory.Stats{}
		}}))
		require.NoError(t, page.AddSignals(signalsOf(func() signals.Stats {
			page.Remove(guest)
			return signals.Stats{}
		})))
		time.Sleep(5*time.Second + time.Millisecond)
		assert.EqualValues(t, 6, calls.Load())
		assert.Len(t, page.view(nil).Purgatories[0].History, 6)
		page.Close()
	})
}

// A source that hangs holds up neither Close nor the other goroutines that change the page.
func TestASourceThatHangsHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		page := pageWith(Options{Idle: -1})
		var hangs atomic.Bool
		goOn := make(chan struct{})
		require.NoError(t, page.Add(&stranger{name: "p", stats: func() purgatory.Stats {
			if hangs.Load() {
				<-goOn
			}
			return purgatory.Stats{}
		}}))
		hangs.Store(true)
		time.Sleep(time.Second + time.Millisecond)
		page.Remove(&stranger{})
		page.Close()
		close(goOn)
	})
}

// JSON has no NaN, which a source may return: the request then fails, in each format that is JSON.
func TestAViewThatIsNoJSONIsAnError(t *testing.T) {
	page := pageWith(Options{}, &stranger{name: "p", stats: func() (n purgatory.Stats) {
		n.Waited = new([operation.NumOutcomes]purgatory.Histogram)
		n.Waited[1].Sum = math.NaN()
		return n
	}})
	defer page.Close()
	for _, format := range []string{"html", "json"} {
		answer := get(t, page, "/?format="+format)
		assert.Equal(t, http.StatusInternalServerError, answer.Code, format)
		assert.Contains(t, answer.Body.String(), "NaN", format)
	}
}
