package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/internal/httpload"
	"github.com/delayedop/purgatory/examples/internal/httpload/httploadtest"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/examples/internal/program/programtest"
	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

func open(t *testing.T, lease time.Duration) *service {
	s, err := newService(lease)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.close()) })
	return s
}

func (s *service) do(ctx context.Context, w http.ResponseWriter, method, target, body string) {
	s.routes().ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, target, strings.NewReader(body)))
}

func (s *service) status(t *testing.T, method, target, body string) int {
	w := httptest.NewRecorder()
	s.do(t.Context(), w, method, target, body)
	return w.Code
}

func (s *service) held(t *testing.T, method string, j job) int {
	return s.status(t, method, fmt.Sprintf("/claims/%d", j.Claim), "")
}

// claimAs claims on a goroutine of its own.
func (s *service) claimAs(ctx context.Context, query string) <-chan *httptest.ResponseRecorder {
	answer := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		s.do(ctx, w, http.MethodPost, "/claims?"+query, "")
		answer <- w
	}()
	synctest.Wait()
	return answer
}

func claimed(t *testing.T, w *httptest.ResponseRecorder) (j job) {
	t.Helper()
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &j))
	return j
}

func TestEachJobGoesToTheFirstWhoWaitsForItsType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, time.Hour)
		first := s.claimAs(t.Context(), "wait=1m&type=mail&type=print")
		second := s.claimAs(t.Context(), "wait=1m&type=mail")
		third := s.claimAs(t.Context(), "wait=1m&type=mail")
		for i, answer := range []<-chan *httptest.ResponseRecorder{first, second, third} {
			assert.Empty(t, answer)
			assert.Equal(t, http.StatusCreated, s.status(t, http.MethodPost, "/jobs/mail", "hello"))
			assert.Equal(t, job{ID: int64(2*i + 1), Claim: int64(2*i + 2), Type: "mail", Body: "hello"}, claimed(t, <-answer))
		}
		assert.Equal(t, http.StatusCreated, s.status(t, http.MethodPost, "/jobs/print", "page"))
		assert.Equal(t, counts{put: 4, handedOut: 3, left: 1}, s.counts(), "the first has its one job, and nobody else prints")
		assert.Equal(t, "page", claimed(t, <-s.claimAs(t.Context(), "wait=0s&type=scan&type=print")).Body)
	})
}

func TestNobodyPuts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, time.Hour)
		assert.Equal(t, http.StatusNoContent, (<-s.claimAs(t.Context(), "wait=1m&type=mail")).Code)
		waiting := s.claimAs(t.Context(), "wait=1m&type=mail")
		require.NoError(t, s.close())
		w := <-waiting
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Equal(t, "1", w.Header().Get("Retry-After"))
	})
}

func TestAWorkerThatFallsSilentGivesItsJobBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, time.Minute)
		s.status(t, http.MethodPost, "/jobs/mail", "first")
		silent := claimed(t, <-s.claimAs(t.Context(), "wait=0s&type=mail"))
		next := s.claimAs(t.Context(), "wait=2m&type=mail")
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		assert.Empty(t, next, "the lease has not ended")
		again := claimed(t, <-next)
		assert.Equal(t, silent.ID, again.ID)
		assert.Equal(t, http.StatusGone, s.held(t, http.MethodDelete, silent), "it is in another's hands")
		assert.Equal(t, http.StatusNoContent, s.held(t, http.MethodDelete, again))
		assert.Equal(t, http.StatusGone, s.held(t, http.MethodDelete, again), "a job is done once")
		time.Sleep(2 * time.Minute)
		assert.Equal(t, counts{put: 1, handedOut: 2, givenBack: 1, done: 1}, s.counts())
	})
}

// A lease that is extended does not end before its new end, and one that has ended is not extended, even if nobody has
// come yet to give the job back.
func TestAWorkerExtendsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, 20*time.Second)
		s.status(t, http.MethodPost, "/jobs/mail", "")
		j := claimed(t, <-s.claimAs(t.Context(), "wait=0s&type=mail"))
		next := s.claimAs(t.Context(), "wait=5m&type=mail")
		for range 2*leasesAtMost - 1 {
			time.Sleep(10 * time.Second)
			assert.Equal(t, http.StatusNoContent, s.held(t, http.MethodPut, j))
		}
		time.Sleep(10*time.Second - time.Nanosecond)
		assert.Empty(t, next)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, http.StatusGone, s.held(t, http.MethodPut, j), "nobody keeps a job for longer than ten leases")
		assert.Equal(t, j.ID, claimed(t, <-next).ID)
	})
}

// brokenPipe is the answer of a client that has left.
type brokenPipe struct{ *httptest.ResponseRecorder }

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestAWorkerThatCannotBeAnsweredGivesItsJobBackAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, time.Hour)
		s.status(t, http.MethodPost, "/jobs/mail", "")
		s.do(t.Context(), brokenPipe{httptest.NewRecorder()}, http.MethodPost, "/claims?wait=0s&type=mail", "")
		gone, leave := context.WithCancel(t.Context())
		leave()
		s.do(gone, httptest.NewRecorder(), http.MethodPost, "/claims?wait=0s&type=mail", "")
		assert.Equal(t, counts{put: 1, handedOut: 1, givenBack: 1, left: 1}, s.counts(), "one that has left gets no job")
	})
}

// Workers leave and the service closes while jobs are put: each job is left, or in the hands of a
// worker that was answered.
func TestNoJobIsLost(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		s := open(t, time.Hour)
		var clients sync.WaitGroup
		for i := range 6 {
			clients.Go(func() {
				for range 3 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*50*time.Microsecond)
					s.do(ctx, httptest.NewRecorder(), http.MethodPost, "/claims?wait=1s&type=mail&type=print", "")
					cancel()
				}
			})
		}
		for i := range 10 {
			require.Equal(t, http.StatusCreated, s.status(t, http.MethodPost, "/jobs/"+types[i%2], ""))
		}
		require.NoError(t, s.close())
		clients.Wait()
		require.Equal(t, http.StatusServiceUnavailable, s.status(t, http.MethodPost, "/jobs/scan", ""))
		c := s.counts()
		require.EqualValues(t, 10, c.left, "%+v: after close every job has been given back", c)
		require.Equal(t, c.put+c.givenBack, c.handedOut+c.left, "%+v", c)
	}
}

// Over real connections, a drain ends no claim without an answer: each is told to come back, and no job is lost.
func TestADrainAnswersEveryClaim(t *testing.T) {
	const claims = 200
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	for range rounds {
		s := open(t, time.Hour)
		server, err := httpload.Serve("", s.routes())
		require.NoError(t, err)
		answers := httploadtest.Send(t, server.URL, claims, "POST /claims?wait=5m&type=mail")
		httploadtest.Until(t, func() bool { return s.jobs.Stats().Waiting == claims })
		drained := make(chan error, 1)
		go func() { drained <- s.drain(server.HTTP) }()
		_, refused := s.put("mail", "") // a job that comes in the drain goes to a claim, is left, or is refused
		given := 0
		for _, a := range answers() {
			if a.Status == http.StatusOK {
				given++
				continue
			}
			require.Equal(t, http.StatusServiceUnavailable, a.Status)
			require.Equal(t, "1", a.Header.Get("Retry-After"))
		}
		require.LessOrEqual(t, given, 1)
		require.NoError(t, <-drained)
		if c := s.counts(); refused == nil {
			require.EqualValues(t, 1, c.left, "%+v", c)
		}
	}
}

func TestBadRequests(t *testing.T) {
	s := open(t, time.Hour)
	for target, want := range map[string]int{
		"POST /claims?wait=1s": http.StatusBadRequest,
		"POST /claims?wait=1s" + strings.Repeat("&type=a", maxTypes+1): http.StatusBadRequest,
		"POST /claims?type=a":          http.StatusBadRequest,
		"POST /claims?type=a&wait=-1s": http.StatusBadRequest,
		"POST /claims?type=a&wait=6m":  http.StatusBadRequest,
		"DELETE /claims/x":             http.StatusBadRequest,
		"DELETE /claims/7":             http.StatusGone,
		"PUT /claims/7":                http.StatusGone,
	} {
		method, path, _ := strings.Cut(target, " ")
		assert.Equal(t, want, s.status(t, method, path, ""), target)
	}
	assert.Equal(t, http.StatusRequestEntityTooLarge, s.status(t, http.MethodPost, "/jobs/a", strings.Repeat("x", maxBody+1)))
	assert.Zero(t, s.counts())
}

func TestProgram(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"-duration", "500ms", "-workers", "20", "-rate", "200", "-lease", "100ms"}, &out, &errs), "%s%s", &out, &errs)
	assert.Contains(t, out.String(), "OK: every job that was put was done once")
	assert.Contains(t, out.String(), ", left 0\n")
}

func TestALoadThatPutsNothingFails(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Equal(t, program.Failed, run(t.Context(), []string{"-duration", "0s"}, &out, &errs), "%s", &out)
	assert.Contains(t, errs.String(), "jobs: nothing was put")
}

func TestTheVerdictNoticesWhatIsMissing(t *testing.T) {
	for want, spoil := range map[string]func(*load, *counts){
		"nothing was put":                   func(_ *load, c *counts) { c.put = 0 },
		"nothing was handed out":            func(_ *load, c *counts) { c.handedOut = 0 },
		"nobody left":                       func(_ *load, c *counts) { c.givenBack = 0 },
		"nobody left: this run":             func(l *load, _ *counts) { l.left = 0 },
		"counts 1 as done, and the workers": func(_ *load, c *counts) { c.done = 1 },
		"as done, and the workers 1":        func(l *load, _ *counts) { delete(l.done, 1) },
		"job 2 was done 2 times":            func(l *load, _ *counts) { l.done[2] = 2 },
	} {
		l := &load{left: 1, done: map[int64]int{1: 1, 2: 1}}
		c := counts{put: 2, handedOut: 3, givenBack: 1, done: 2}
		require.NoError(t, l.verdict(c))
		spoil(l, &c)
		assert.ErrorContains(t, l.verdict(c), want)
	}
}

func TestServeUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errs bytes.Buffer
	assert.Zero(t, run(ctx, []string{"-listen", "127.0.0.1:0"}, &out, &errs), errs.String())
	assert.Contains(t, out.String(), "put 0, handed out 0, of these given back 0, done 0, left 0\n")
}

func TestBadFlags(t *testing.T) {
	programtest.RefusesFlags(t, run, map[string]string{
		"-lease 0s":     "-lease 0s: allowed is 1ms to 1h0m0s",
		"-workers 0":    "-workers 0: allowed is 1 to 10000",
		"-rate 0":       "-rate 0: allowed is 1 to 100000",
		"-duration -1s": "-duration -1s: allowed is 0s to 1h0m0s",
	})
}

func TestAnAddressInUse(t *testing.T) { programtest.RefusesAddress(t, run) }
