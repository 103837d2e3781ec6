package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
)

const bucket = "replicas"

type natsStore struct {
	nc *nats.Conn
	kv jetstream.KeyValue
}

// NATS returns a store in a key-value bucket of the server at url, which it creates if it
// does not exist.
func NATS(ctx context.Context, url string) (Store, error) { return openNATS(ctx, url) }

func openNATS(ctx context.Context, url string) (*natsStore, error) {
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true),
		nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(10*time.Millisecond, 10*time.Millisecond),
		nats.PingInterval(2*time.Second), nats.MaxPingsOutstanding(2),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the runner of the hints logs what ends
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	for {
		kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: bucket})
		if err == nil {
			return &natsStore{nc, kv}, nil
		}
		select {
		case <-ctx.Done():
			nc.Close()
			return nil, fmt.Errorf("bucket %q: %w", bucket, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *natsStore) Put(ctx context.Context, key string, value []byte) (int64, error) {
	token, err := natssignals.Encode(key)
	if err != nil {
		return 0, err
	}
	revision, err := s.kv.Put(ctx, token, value)
	return int64(revision), err
}

func (s *natsStore) Get(ctx context.Context, key string) (Entry, error) {
	token, err := natssignals.Encode(key)
	if err != nil {
		return Entry{}, err
	}
	e, err := s.kv.Get(ctx, token)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return Entry{}, nil
	} else if err != nil {
		return Entry{}, err
	}
	return Entry{e.Value(), int64(e.Revision())}, nil
}

func (s *natsStore) Revisions(ctx context.Context, keys []string) (map[string]int64, error) {
	tokens := make([]string, 0, len(keys))
	for _, key := range keys {
		if token, err := natssignals.Encode(key); err == nil {
			tokens = append(tokens, token)
		}
	}
	w, err := s.kv.WatchFiltered(ctx, tokens, jetstream.MetaOnly())
	if err != nil {
		return nil, err
	}
	defer func() { _ = w.Stop() }()
	found := make(map[string]int64, len(keys))
	for {
		select {
		case e, ok := <-w.Updates():
			if !ok {
				return nil, errors.New("the watch has ended")
			}
			if e == nil { // those are all
				return found, nil
			}
			if key, err := natssignals.Decode(e.Key()); err == nil {
				found[key] = int64(e.Revision())
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (s *natsStore) Source() signals.Source[string] { return natssignals.KeyValue(s.nc, bucket) }
func (s *natsStore) Close()                         { s.nc.Close() }
