package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/delayedop/purgatory/examples/internal/httpload"
)

// load puts jobs and works on them. Some workers leave while they wait, and some fall silent with a job in their hands.
type load struct {
	*httpload.Load
	url           string
	duration      time.Duration
	workers, rate int

	done   map[int64]int // by job: how often the service has accepted it as done
	left   int           // workers that left while they waited
	silent int           // workers that fell silent with a job
}

var types = []string{"mail", "print", "scan"}

// run returns an error if a promise was broken, or if nothing happened that could have broken one.
func (l *load) run(ctx context.Context, s *service, url string, out io.Writer) error {
	l.Load, l.url, l.done = httpload.New(l.workers), url, make(map[int64]int)
	working, stop := context.WithCancel(context.Background())
	l.Go(l.workers, func() bool {
		l.Note(l.work(working))
		return working.Err() == nil
	})
	putting, cancel := context.WithTimeout(ctx, l.duration)
	defer cancel()
	next := time.NewTicker(time.Second / time.Duration(l.rate))
	defer next.Stop()
	last := make(chan struct{}) // closed after the last put
	patience := time.Now().Add(l.duration + time.Minute)
	more := func() (yes bool) { // a slow machine takes longer until somebody has left
		l.Count(func() { yes = nobodyLeft(s.counts(), l.left) && ctx.Err() == nil && time.Now().Before(patience) })
		return yes
	}
	l.Go(1, func() bool {
		<-next.C
		if (putting.Err() == nil || more()) && l.put() {
			return true
		}
		close(last)
		return false
	})
	httpload.Progress(putting, out, func() string {
		c := s.counts()
		return fmt.Sprintf("put %5d   handed out %5d   left %3d   workers that wait %3d", c.put, c.handedOut, c.left, s.jobs.Stats().Waiting)
	})
	<-last
	for end := time.Now().Add(time.Minute); s.counts().done < s.counts().put && time.Now().Before(end); { // leases end
		time.Sleep(5 * time.Millisecond)
	}
	stop()
	return l.Judge(out, func() error {
		fmt.Fprintf(out, "%d workers left while they waited, %d fell silent with a job\n", l.left, l.silent)
		return l.verdict(s.counts())
	}, "every job that was put was done once, and those of workers that left were handed out again")
}

// nobodyLeft reports whether jobs were put, and no worker has left with or without one.
func nobodyLeft(c counts, left int) bool { return c.put > 0 && (c.givenBack == 0 || left == 0) }

// put puts a job, and reports whether to go on. Whether a job was put must be known, so the request has no end.
func (l *load) put() bool {
	answer, err := l.Do(context.Background(), http.MethodPost, l.url+"/jobs/"+types[rand.N(len(types))], "a job")
	if err == nil && answer.Status != http.StatusCreated {
		err = fmt.Errorf("a put: status %d, %s", answer.Status, answer.Text)
	}
	l.Note(err)
	return err == nil
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
	answer, err := l.Do(ctx, http.MethodPost, url, "")
	switch {
	case ctx.Err() != nil: // also if the answer came at the same time: who left has no job
		if leaves {
			l.Count(func() { l.left++ })
		}
		return nil
	case err != nil:
		return err
	case answer.Status == http.StatusNoContent:
		return nil
	case answer.Status != http.StatusOK:
		return fmt.Errorf("a claim: status %d, %s", answer.Status, answer.Text)
	case silent:
		l.Count(func() { l.silent++ })
		return nil
	}
	var j job
	if err := json.Unmarshal(answer.Text, &j); err != nil {
		return err
	}
	answer, err = l.Do(context.Background(), http.MethodDelete, fmt.Sprintf("%s/claims/%d", l.url, j.Claim), "")
	switch {
	case err != nil:
		return err
	case answer.Status == http.StatusNoContent:
		l.Count(func() { l.done[j.ID]++ })
	case answer.Status != http.StatusGone: // gone: the lease has ended, because the machine is slow
		return fmt.Errorf("job %d is done: status %d, %s", j.ID, answer.Status, answer.Text)
	}
	return nil
}

// verdict compares what the service counted with what the workers saw.
func (l *load) verdict(c counts) error {
	switch {
	case c.put == 0:
		return errors.New("nothing was put")
	case c.handedOut == 0:
		return errors.New("nothing was handed out")
	case nobodyLeft(c, l.left):
		return errors.New("nobody left: this run says nothing about jobs that are given back")
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
