package signals_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

// store is a state that another process writes. The channel stands for the engine that carries
// its hints.
type store struct {
	mu    sync.Mutex
	state map[string]string
	hints chan string
}

func (s *store) write(key, value string) {
	s.mu.Lock()
	s.state[key] = value
	s.mu.Unlock()
	s.hints <- key // after the change
}

func (s *store) read(_ context.Context, key string) (value string, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok = s.state[key]
	return value, ok, nil
}

// source listens to the store. It says Missed once the subscription is confirmed, and from then
// on passes on each hint.
func (s *store) source() signals.Source[string] {
	return signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		sink.Missed(signals.ErrSubscribed)
		for {
			select {
			case key := <-s.hints:
				sink.Changed(key, signals.Unknown)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// A request waits until another process has written its key.
func ExampleTo() {
	p, err := purgatory.New[string]("orders")
	if err != nil {
		panic(err)
	}
	defer p.Close()
	hints, err := signals.To(p)
	if err != nil {
		panic(err)
	}
	db := &store{state: make(map[string]string), hints: make(chan string, 1)}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = hints.Run(ctx, db.source()) })
	running.Go(func() { db.write("order-7", "paid") })

	value, err := signals.AwaitRead(ctx, p, time.Minute, func(ctx context.Context) (string, bool, error) {
		return db.read(ctx, "order-7")
	}, "order-7")
	fmt.Println(value, err)
	stop()
	running.Wait()
	// Output: paid <nil>
}

// ready is a probe: it answers 503 while no hints arrive.
func ready(hints *signals.Runner[string]) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if s := hints.Stats(); !s.Standing {
			http.Error(w, fmt.Sprintf("no hints: %v", s.Err), http.StatusServiceUnavailable)
		}
	}
}

// A replica is ready when its source of hints stands.
func ExampleRunner_Stats() {
	p, err := purgatory.New[string]("orders")
	if err != nil {
		panic(err)
	}
	defer p.Close()
	hints, err := signals.To(p)
	if err != nil {
		panic(err)
	}
	probe := func() int {
		w := httptest.NewRecorder()
		ready(hints)(w, nil)
		return w.Code
	}
	fmt.Println("before:", probe())

	db := &store{state: make(map[string]string), hints: make(chan string, 1)}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = hints.Run(ctx, db.source()) })
	for probe() != http.StatusOK {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	stop()
	running.Wait()
	fmt.Println("afterwards:", probe())
	// Output:
	// before: 503
	// ready
	// afterwards: 503
}
