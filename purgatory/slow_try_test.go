package purgatory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowSecond takes its time for the second try, which is the one between being watched
// and getting a timeout.
type slowSecond struct {
	probe
	tries   int
	second  func()
	expired func()
}

func (o *slowSecond) TryComplete() bool {
	if o.tries++; o.tries == 2 {
		o.second()
	}
	return false
}

func (o *slowSecond) OnExpiration() { o.expired() }

// The timeout runs from the registration on, however long a try takes in it.
func TestASlowTryMovesNoDeadline(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Second, 3 * time.Second, 4500 * time.Millisecond, 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 5 * time.Second
			p, err := New[string]("test", WithTimerShards(1))
			require.NoError(t, err)
			defer p.Close()
			var took time.Duration
			start := p.timer.Now()
			o := &slowSecond{
				second: func() {
					time.Sleep(slow)
					_, err := p.TryCompleteElseWatch(&probe{}, time.Hour, "another")
					assert.NoError(t, err)
				},
				expired: func() { took = p.timer.Now() - start },
			}
			_, err = p.TryCompleteElseWatch(o, timeout, "key")
			require.NoError(t, err)
			time.Sleep(time.Minute)
			synctest.Wait()
			assert.GreaterOrEqual(t, took, timeout)
			assert.LessOrEqual(t, took, max(timeout, slow)+time.Millisecond, "a try that took %s", slow)
		})
	}
}
