package httpload

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func TestClientsOfAServer(t *testing.T) {
	s, err := Serve("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Method", r.Method)
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.Copy(w, r.Body)
	}))
	require.NoError(t, err)
	l := New(3)
	var answers []Answer
	for range 3 { // each makes two requests
		n := 0
		l.Go(1, func() bool {
			a, err := l.Do(t.Context(), http.MethodPut, s.URL+"/x", "hello")
			l.Note(err)
			l.Count(func() { answers = append(answers, a) })
			n++
			return n < 2
		})
	}
	var out strings.Builder
	require.NoError(t, l.Judge(&out, func() error { return nil }, "all is well"))
	assert.Equal(t, "OK: all is well\n", out.String())
	assert.Len(t, answers, 6)
	for _, a := range answers {
		assert.Equal(t, http.StatusTeapot, a.Status)
		assert.Equal(t, http.MethodPut, a.Header.Get("Method"))
		assert.Equal(t, "hello", string(a.Text))
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.Until(ended))
	require.NoError(t, s.HTTP.Shutdown(t.Context()))
	assert.ErrorIs(t, s.Until(t.Context()), http.ErrServerClosed)
	_, err = l.Do(t.Context(), http.MethodGet, s.URL, "")
	assert.Error(t, err)
}

// A load is judged by the errors of its clients and by its own verdict.
func TestJudge(t *testing.T) {
	lost, late := errors.New("lost"), errors.New("late")
	for _, errs := range [][]error{{lost, nil}, {nil, late}, {lost, late}} {
		var out strings.Builder
		l := New(1)
		l.Go(1, func() bool { l.Note(errs[0]); return false })
		err := l.Judge(&out, func() error { return errs[1] }, "all is well")
		assert.Empty(t, out.String())
		for _, want := range errs {
			if want != nil {
				assert.ErrorIs(t, err, want)
			}
		}
	}
}

func TestProgressIsALineEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		n := 0
		Progress(ctx, &out, func() string { n++; return strings.Repeat("x", n) })
		assert.Equal(t, "x\nxx\nxxx\n", out.String())
	})
}
