package purgatory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// The timeout passes during the second try of the registration, 2 s before that try ends.
func TestAnExpiryDuringTheRegistrationIsAsLateAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := purgatory.New[string]("p", purgatory.WithHistograms())
		require.NoError(t, err)
		defer p.Close()
		o := &op{}
		o.try = func() bool {
			if o.tries.Load() == 2 {
				time.Sleep(3 * time.Second)
			}
			return false
		}
		_, err = p.TryCompleteElseWatch(o, time.Second, "k")
		require.NoError(t, err)
		synctest.Wait()
		s := p.Stats()
		require.EqualValues(t, 1, s.Expired)
		assert.InDelta(t, 2, s.Late.Sum, 0.01)
	})
}
