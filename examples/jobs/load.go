package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// load puts jobs and works on them. Some workers leave while they wait, and some fall silent with a job in their hands.
type load struct {
	duration      time.Duration
	workers, rate int

	url    string
	client *http.Client

	mu     sync.Mutex
	done   map[int64]int // by job: how often the service has accepted it as done
	left   int           // workers that left while they waited
	silent int           // workers that fell silent with a job
	errs   []error
}

var types = []string{"mail", "print", "scan"}

// run returns an error if a promise was broken, or if nothing happened that could have broken one.
func (l *load) run(ctx context.Context, s *service, url string, out io.Writer) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, l.workers
	defer transport.CloseIdleConnections()
	l.url, l.client, l.done = url, &http.Client{Transport: transport}, make(map[int64]int)

	working, stop := context.WithCancel(context.Background())
	var workers sync.WaitGroup
	for range l.workers {
		workers.Go(func() {
			for working.Err() == nil {
				l.note(l.work(working))
			}
		})
	}
	l.note(l.put(ctx, s, out))
	for end := time.Now().Add(time.Minute); s.counts().done < s.counts().put && time.Now().Before(end); { // leases end
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	workers.Wait()
	fmt.Fprintf(out, "%d workers left while they waited, %d fell silent with a job\n", l.left, l.silent)
	if err := errors.Join(append(l.errs, l.verdict(s.counts()))...); err != nil {
		return err
	}
	fmt.Fprintln(out, "OK: every job that was put was done once, and those of workers that left were handed out again")
	return nil
}

// put puts jobs until the time is up, or ctx ends, and prints the counts each second.
func (l *load) put(ctx context.Context, s *service, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, l.duration)
	defer cancel()
	next := time.NewTicker(time.Second / time.Duration(l.rate))
	defer next.Stop()
	progress := time.NewTicker(time.Second)
	defer progress.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-progress.C:
			c := s.counts()
			fmt.Fprintf(out, "put %5d   handed out %5d   left %3d   workers that wait %3d\n", c.put, c.handedOut, c.left, s.workers.NumDelayed())
		case <-next.C:
			// Not under ctx: whether a job was put must be known.
			url := l.url + "/jobs/" + types[rand.N(len(types))]
			if status, text, err := l.do(context.Background(), http.MethodPost, url, "a job"); err != nil {
				return err
			} else if status != http.StatusCreated {
				return fmt.Errorf("a put: status %d, %s", status, text)
			}
		}
	}
}

// work claims a job of one or two types, and does it. One worker in ten leaves soon, and one in twenty falls silent.
func (l *load) work(ctx context.Context) error {
	leaves, silent := rand.N(10) == 0, rand.N(20) == 0
	if leaves {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
	}
	i := rand.N(len(types))
	url := fmt.Sprintf("%s/claims?wait=30s&type=%s&type=%s", l.url, types[i], types[(i+rand.N(2))%len(types)])
	status, text, err := l.do(ctx, http.MethodPost, url, "")
	switch {
	case ctx.Err() != nil: // also if the answer came at the same time: who left has no job
		if leaves {
			l.count(func() { l.left++ })
		}
		return nil
	case err != nil:
		return err
	case status == http.StatusNoContent:
		return nil
	case status != http.StatusOK:
		return fmt.Errorf("a claim: status %d, %s", status, text)
	case silent:
		l.count(func() { l.silent++ })
		return nil
	}
	var j job
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	status, text, err = l.do(context.Background(), http.MethodDelete, fmt.Sprintf("%s/claims/%d", l.url, j.ID), "")
	switch {
	case err != nil:
		return err
	case status == http.StatusNoContent:
		l.count(func() { l.done[j.ID]++ })
	case status != http.StatusGone: // gone: the lease has ended, because the machine is slow
		return fmt.Errorf("job %d is done: status %d, %s", j.ID, status, text)
	}
	return nil
}

func (l *load) do(ctx context.Context, method, url, body string) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	answer, err := l.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

func (l *load) count(one func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one()
}

func (l *load) note(err error) {
	if err != nil {
		l.count(func() { l.errs = append(l.errs, err) })
	}
}

// verdict compares what the service counted with what the workers saw.
func (l *load) verdict(c counts) error {
	switch {
	case c.put == 0:
		return errors.New("nothing was put")
	case c.handedOut == 0:
		return errors.New("nothing was handed out")
	case c.givenBack == 0 || l.left == 0:
		return errors.New("nobody left: this run says nothing about jobs that are given back")
	case c.put+c.givenBack != c.handedOut+c.left:
		return fmt.Errorf("put %d + given back %d is not handed out %d + left %d", c.put, c.givenBack, c.handedOut, c.left)
	case c.done != c.put || int64(len(l.done)) != c.put:
		return fmt.Errorf("%d jobs were put; the service counts %d as done, and the workers %d", c.put, c.done, len(l.done))
	}
	for id, times := range l.done {
		if times != 1 {
			return fmt.Errorf("job %d was done %d times", id, times)
		}
	}
	return nil
}
