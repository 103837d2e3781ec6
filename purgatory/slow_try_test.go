package purgatory

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/timer"
)

// slowSecond is an operation whose second try is slow. That try comes after the timeout was
// scheduled and the operation was watched.
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

// The timeout counts from the registration, however long its second try takes.
func TestASlowTryMovesNoDeadline(t *testing.T) {
	for _, slow := range []time.Duration{0, time.Second, 3 * time.Second, 4500 * time.Millisecond, 6 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			const timeout = 5 * time.Second
			p, err := New[string]("test", WithTimerOptions(timer.WithShards(1)))
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
