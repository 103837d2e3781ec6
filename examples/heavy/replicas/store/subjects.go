package store

import (
	"context"

	natssignals "github.com/delayedop/purgatory/plugin/nats"
	"github.com/delayedop/purgatory/signals"
)

const prefix = "hints.replicas"

// subjectStore is a bucket whose changes are hinted at on core NATS.
type subjectStore struct {
	*natsStore
	source    *natssignals.SubjectSource
	committed func(revision int64)
}

// Subjects returns a store in the same bucket as [NATS], whose hints are published on core
// NATS after the put. Change and hint are two steps, and core NATS delivers at most once:
// a source of this store needs signals.WithAudit. Subjects exists to show that. committed,
// if it is not nil, is called between the two steps of each put.
func Subjects(ctx context.Context, url string, committed func(revision int64)) (Store, error) {
	s, err := openNATS(ctx, url)
	if err != nil {
		return nil, err
	}
	source, err := natssignals.Subjects(s.nc, prefix)
	if err != nil {
		s.Close()
		return nil, err
	}
	return &subjectStore{s, source, committed}, nil
}

func (s *subjectStore) Put(ctx context.Context, key string, value []byte) (int64, error) {
	revision, err := s.natsStore.Put(ctx, key, value)
	if err != nil {
		return 0, err
	}
	if s.committed != nil {
		s.committed(revision)
	}
	err = natssignals.Hint(s.nc, prefix, key, revision)
	return revision, err
}

func (s *subjectStore) Source() signals.Source[string] { return s.source }
