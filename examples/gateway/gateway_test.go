package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/delayedop/purgatory/examples/internal/httpload/httploadtest"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/examples/internal/program/programtest"
	"github.com/delayedop/purgatory/internal/watchdog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(watchdog.Over(m)) }

// backend answers when it is told to.
type backend struct {
	entered chan struct{}
	finish  chan struct{}
}

func newBackend() *backend { return &backend{make(chan struct{}, 100), make(chan struct{})} }

func (b *backend) ServeHTTP(http.ResponseWriter, *http.Request) {
	b.entered <- struct{}{}
	<-b.finish
}

// ask makes a request on a goroutine of its own. The answer comes when the request has ended.
func ask(ctx context.Context, g *gateway) <-chan *httptest.ResponseRecorder {
	answer := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		answer <- w
	}()
	synctest.Wait()
	return answer
}

func open(t *testing.T, next http.Handler, l limits) *gateway {
	g, err := newGateway(next, l)
	require.NoError(t, err)
	return g
}

// drains reports whether the gateway sends away who comes, and not because its line is full.
func (g *gateway) drains() bool {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Code == http.StatusServiceUnavailable
}

// as is a request of a user.
func as(user string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(user, "")
	return r
}

func TestAFullGatewayRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		g := open(t, b, limits{slots: 1, line: 1, wait: time.Minute})
		first, second := ask(t.Context(), g), ask(t.Context(), g)
		third := <-ask(t.Context(), g)
		assert.Equal(t, http.StatusTooManyRequests, third.Code)
		assert.Equal(t, "1", third.Header().Get("Retry-After"))
		assert.Len(t, b.entered, 1, "the second waits")
		b.finish <- struct{}{}
		assert.Equal(t, http.StatusOK, (<-first).Code)
		b.finish <- struct{}{}
		assert.Equal(t, http.StatusOK, (<-second).Code)
		assert.Equal(t, 1, g.slots.Stats().Items)
	})
}

func TestARequestThatWaitsTooLongIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		g := open(t, b, limits{slots: 1, line: 1, wait: time.Minute})
		first, second := ask(t.Context(), g), ask(t.Context(), g)
		refused := <-second
		assert.Equal(t, http.StatusTooManyRequests, refused.Code)
		assert.Equal(t, "1", refused.Header().Get("Retry-After"))
		b.finish <- struct{}{}
		<-first
		assert.Equal(t, 1, g.slots.Stats().Items)
	})
}

func TestSlotsGoInOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		g := open(t, b, limits{slots: 1, line: 3, wait: time.Minute})
		running := ask(t.Context(), g)
		var line []<-chan *httptest.ResponseRecorder
		for range 3 {
			line = append(line, ask(t.Context(), g))
		}
		b.finish <- struct{}{}
		<-running
		for i, next := range line {
			synctest.Wait()
			for j, later := range line[i:] {
				assert.Empty(t, later, "request %d has been answered before %d", i+j, i)
			}
			b.finish <- struct{}{}
			assert.Equal(t, http.StatusOK, (<-next).Code)
		}
	})
}

// The requests of one user do not make another one wait for all of them, and leave places in the line.
func TestAFloodHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			user, _, _ := r.BasicAuth()
			order = append(order, user)
			time.Sleep(time.Second)
		})
		g := open(t, next, limits{slots: 1, line: 8, wait: time.Minute})
		for range 10 {
			go g.ServeHTTP(httptest.NewRecorder(), as("flood"))
			synctest.Wait()
		}
		assert.Equal(t, 4, g.slots.Stats().Waiting, "half of the line is left")
		for range 2 {
			go g.ServeHTTP(httptest.NewRecorder(), as("quiet"))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, []string{"flood", "flood", "quiet", "flood", "quiet", "flood", "flood"}, order)
	})
}

// A drain serves who waits, and sends away who comes; a drain that takes too long sends away who waits.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend()
		g := open(t, b, limits{slots: 1, line: 2, wait: time.Hour})
		running, second, third := ask(t.Context(), g), ask(t.Context(), g), ask(t.Context(), g)
		drained := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			drained <- g.drain(ctx, &http.Server{})
		}()
		synctest.Wait()
		late := <-ask(t.Context(), g)
		assert.Equal(t, http.StatusServiceUnavailable, late.Code)
		assert.Equal(t, "1", late.Header().Get("Retry-After"))
		b.finish <- struct{}{}
		assert.Equal(t, http.StatusOK, (<-running).Code)
		synctest.Wait()
		assert.Len(t, b.entered, 2, "the second got its slot in the drain")
		assert.ErrorIs(t, <-drained, context.DeadlineExceeded)
		assert.Equal(t, http.StatusServiceUnavailable, (<-third).Code)
		b.finish <- struct{}{}
		assert.Equal(t, http.StatusOK, (<-second).Code)
	})
}

// Over real connections, SIGTERM ends nobody's request without an answer: those in line are served within the
// grace, or get 503 and are told to come back.
func TestADrainAnswersEverybody(t *testing.T) {
	const line = 200
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	for grace, want := range map[time.Duration]int{0: http.StatusServiceUnavailable, time.Hour: http.StatusOK} {
		for range rounds {
			b := newBackend()
			b.entered = make(chan struct{}, line+1)
			g := open(t, b, limits{slots: 1, line: line, wait: time.Hour})
			serving, sigterm := context.WithCancel(t.Context())
			started, served := make(chan string, 1), make(chan error, 1)
			go func() {
				served <- g.serve(serving, "127.0.0.1:0", grace, io.Discard, func(url string) { started <- url })
			}()
			answers := httploadtest.Send(t, <-started, line+1, "GET /")
			httploadtest.Until(t, func() bool { return g.slots.Stats().Waiting == line })
			sigterm()
			httploadtest.Until(t, g.drains)
			if grace == 0 {
				httploadtest.Until(t, func() bool { return g.slots.Stats().Waiting == 0 })
			}
			close(b.finish)
			got := make(map[int]int)
			for _, a := range answers() {
				got[a.Status]++
				if a.Status == http.StatusServiceUnavailable {
					require.Equal(t, "1", a.Header.Get("Retry-After"))
				}
			}
			if grace == 0 {
				require.Equal(t, map[int]int{http.StatusOK: 1, want: line}, got)
				require.ErrorIs(t, <-served, context.DeadlineExceeded)
			} else {
				require.Equal(t, map[int]int{want: line + 1}, got)
				require.NoError(t, <-served)
			}
		}
	}
}

// Clients leave, slots come free and the gateway drains, all at once: no slot is lost, and each serves a request.
func TestNoSlotIsLost(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for round := range rounds {
		const slots = 2
		var served atomic.Int64
		next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
		g := open(t, next, limits{slots: slots, line: 8, wait: time.Millisecond})
		var clients sync.WaitGroup
		for i := range 8 {
			clients.Go(func() {
				for range 4 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
					g.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
					cancel()
				}
			})
		}
		if round%2 == 0 {
			require.NoError(t, g.drain(t.Context(), &http.Server{}))
			clients.Wait()
		} else {
			clients.Wait()
			require.Equal(t, slots, g.slots.Stats().Items)
		}
		require.Equal(t, served.Load(), g.slots.Stats().Served)
	}
}

func TestProgram(t *testing.T) {
	var out, errs bytes.Buffer
	assert.Zero(t, run(t.Context(), []string{"-duration", "300ms", "-slots", "2", "-line", "3", "-clients", "20", "-service", "5ms"}, &out, &errs), "%s%s", &out, &errs)
	assert.Contains(t, out.String(), "OK: never more than 2 at the backend")
	assert.Contains(t, out.String(), "sent away in the drain")
}

// A load that leaves the gateway room shows nothing.
func TestALoadWithoutRefusalsFails(t *testing.T) {
	var out, errs bytes.Buffer
	args := []string{"-duration", "50ms", "-slots", "1", "-line", "3", "-clients", "2", "-service", "5ms"}
	assert.Equal(t, program.Failed, run(t.Context(), args, &out, &errs), "%s", &out)
	assert.Contains(t, errs.String(), "gateway: no request was refused")
}

func TestTheVerdictNoticesWhatIsMissing(t *testing.T) {
	for want, spoil := range map[string]func(*load, *gateway){
		"no request was served":                      func(l *load, _ *gateway) { l.served = 0 },
		"no request was refused":                     func(l *load, _ *gateway) { l.refused = 0 },
		"nobody waited when the drain began":         func(l *load, _ *gateway) { l.drained = 0 },
		"4 requests were at the backend at a time":   func(l *load, _ *gateway) { l.most = 4 },
		"2 requests were served, and 1 answers came": func(l *load, _ *gateway) { l.served = 2 },
		"1 requests were served with 2 slots":        func(_ *load, g *gateway) { g.ServeHTTP(httptest.NewRecorder(), as("x")) },
	} {
		l := &load{served: 1, refused: 1, drained: 1, most: 3, answered: make([]time.Duration, 1)}
		g := open(t, http.NotFoundHandler(), limits{slots: 3, line: 1, wait: time.Second})
		g.ServeHTTP(httptest.NewRecorder(), as("x"))
		require.NoError(t, l.verdict(g))
		spoil(l, g)
		assert.ErrorContains(t, l.verdict(g), want)
	}
}

func TestBadLimits(t *testing.T) {
	for _, l := range []limits{{slots: 0, line: 1, wait: 1}, {slots: 1, line: 0, wait: 1}, {slots: 1, line: 1, wait: 0}} {
		_, err := newGateway(http.NotFoundHandler(), l)
		assert.ErrorContains(t, err, "{slots:", "%+v", l)
	}
}

func TestBadFlags(t *testing.T) {
	programtest.RefusesFlags(t, run, map[string]string{
		"-slots 0":         "-slots 0: allowed is 1 to 1000000",
		"-line 0":          "-line 0: allowed is 1 to 1000000",
		"-wait 0s":         "-wait 0s: allowed is 1ms to 1h0m0s",
		"-grace -1s":       "-grace -1s: allowed is 0s to 1h0m0s",
		"-clients 0":       "-clients 0: allowed is 1 to 10000",
		"-duration 2h":     "-duration 2h0m0s: allowed is 0s to 1h0m0s",
		"-service -1s":     "-service -1s: allowed is 0s to 1m0s",
		"-backend nowhere": `-backend "nowhere": must have a host`,
	})
}

func TestAnAddressInUse(t *testing.T) { programtest.RefusesAddress(t, run) }
