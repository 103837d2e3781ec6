package main

import (
	"context"
	"errors"
	"time"
)

// fetcher keeps one follower's replicas up to date with one leader, over one connection: it fetches all the partitions that it
// follows from that leader, and its next fetch says what the last one brought.
type fetcher struct {
	follower int
	leader   int
	address  string // of the leader
	replicas map[topicPartition]*replica
	maxWait  time.Duration
	slow     func() time.Duration // how long the next fetch is held back
	changed  chan struct{}        // has room for one: there may be more to follow
}

// retryPause keeps a fetcher from spinning while a leader is gone or a partition has none.
const retryPause = 5 * time.Millisecond

func newFetcher(follower, leader int, address string, replicas map[topicPartition]*replica) *fetcher {
	return &fetcher{
		follower: follower,
		leader:   leader,
		address:  address,
		replicas: replicas,
		changed:  make(chan struct{}, 1),
	}
}

// wake makes the fetcher look again which partitions it follows. It never blocks.
func (f *fetcher) wake() {
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends.
func (f *fetcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		if f.fetchUntilBroken(ctx) != nil {
			pause(ctx, retryPause)
		}
	}
}

func (f *fetcher) fetchUntilBroken(ctx context.Context) error {
	l, err := dial(f.address)
	if err != nil {
		return err
	}
	defer l.close()
	defer context.AfterFunc(ctx, l.close)()
	for ctx.Err() == nil {
		pause(ctx, f.slow())
		positions := f.positions()
		if len(positions) == 0 {
			select {
			case <-ctx.Done():
			case <-f.changed:
			}
			continue
		}
		if err := f.fetch(ctx, l, positions); err != nil {
			return err
		}
	}
	return nil
}

func (f *fetcher) fetch(ctx context.Context, l *link, positions []fetchPosition) error {
	if err := l.send(request{Fetch: &fetchRequest{Follower: f.follower, MaxWait: f.maxWait, Partitions: positions}}); err != nil {
		return err
	}
	r, err := l.receive()
	if err != nil {
		return err
	}
	if r.Fetch == nil || len(r.Fetch.Partitions) != len(positions) {
		return errors.New("not an answer to this fetch")
	}
	refused := false
	for i, at := range positions {
		got := r.Fetch.Partitions[i]
		f.replicas[at.Partition].apply(at, got)
		refused = refused || got.Code != none
	}
	if refused {
		pause(ctx, retryPause)
	}
	return nil
}

// positions lists the partitions that this broker follows from the leader, and where its logs end.
func (f *fetcher) positions() []fetchPosition {
	var all []fetchPosition
	for _, r := range f.replicas {
		if at, ok := r.position(f.leader); ok {
			all = append(all, at)
		}
	}
	return all
}

// pause returns after a while, or when ctx ends.
func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
