package recipes

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/delayedop/purgatory/purgatory"
)

// TestAWaitByKeyDoesWhatAMapOfChannelsDoes, and what is left after both.
func TestAWaitByKeyDoesWhatAMapOfChannelsDoes(t *testing.T) {
	type documents interface {
		await(ctx context.Context, id string, seen int, timeout time.Duration) (int, error)
		change(id string)
	}
	type end struct {
		version int
		err     error
	}
	behaves := func(t *testing.T, d documents, late error) {
		t.Helper()
		ends := make(chan end, 3)
		await := func(ctx context.Context, id string, seen int) {
			v, err := d.await(ctx, id, seen, time.Minute)
			ends <- end{v, err}
		}
		go await(t.Context(), "a", 0)
		go await(t.Context(), "a", 0)
		synctest.Wait()
		d.change("b")
		synctest.Wait()
		require.Empty(t, ends)
		d.change("a")
		assert.Equal(t, end{1, nil}, <-ends)
		assert.Equal(t, end{1, nil}, <-ends)
		await(t.Context(), "a", 0)
		assert.Equal(t, end{1, nil}, <-ends, "at once")

		began := time.Now()
		await(t.Context(), "a", 1)
		assert.ErrorIs(t, (<-ends).err, late)
		assert.Equal(t, time.Minute, time.Since(began).Round(10*time.Millisecond))
		ctx, leave := context.WithCancelCause(t.Context())
		gone := errors.New("the client has gone")
		time.AfterFunc(time.Second, func() { leave(gone) })
		await(ctx, "a", 1)
		assert.ErrorIs(t, (<-ends).err, gone)
	}
	t.Run("channels", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := &byChannel{version: map[string]int{}, waiting: map[string][]chan struct{}{}}
			behaves(t, d, errLate)
			assert.Len(t, d.waiting["a"], 2, "channels that nobody receives from")
		})
	})
	t.Run("keys", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p, err := purgatory.New[string]("documents")
			require.NoError(t, err)
			defer p.Close()
			behaves(t, &byKey{version: map[string]int{}, waiting: p}, purgatory.ErrExpired)
			assert.Zero(t, p.NumDelayed())
		})
	})
}
