// Package service is the watch service: an RPC server on a purgatory, whose waits other
// processes end.
package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"connectrpc.com/connect"

	replicasv1 "github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1"
	"github.com/delayedop/purgatory/examples/heavy/replicas/store"
	"github.com/delayedop/purgatory/purgatory"
	"github.com/delayedop/purgatory/signals"
)

const (
	longestWait = 10 * time.Minute
	// maxKey and maxValue are in bytes. What is longer an engine may refuse. A bulk read
	// names a thousand keys, each three times as long, in one request of a megabyte.
	maxKey, maxValue = 256, 512 << 10
	// margin is the part of a request's deadline that is left for the answer to travel.
	margin = 20 * time.Millisecond
	// firstRead and lastRead are how long the first attempt to read the engine may take,
	// and the last one.
	firstRead, lastRead = 500 * time.Millisecond, 4 * time.Second
	// maxReads is how many reads run at a time: in a crowd, others wait before their limit begins.
	maxReads = 32
)

// Service answers the requests of one replica. It is safe for concurrent use.
type Service struct {
	store store.Store
	waits *purgatory.Purgatory[string]
	hints *signals.Runner[string]
	known known
	reads chan struct{} // holds an element for each read that runs
}

// New returns a service that lets at most maxWaits requests wait. audit is the interval of
// signals.WithAudit.
func New(s store.Store, maxWaits int, audit time.Duration, logger *slog.Logger) (*Service, error) {
	p, err := purgatory.New[string]("watches", purgatory.WithTimeoutsExpected(), purgatory.WithMaxPending(maxWaits), purgatory.WithLogger(logger))
	if err != nil {
		return nil, err
	}
	v := &Service{store: s, waits: p, reads: make(chan struct{}, maxReads), known: known{keys: make(map[string]*progress)}}
	v.hints, err = signals.To(p, signals.WithResync(v.resync), signals.WithAudit(audit),
		signals.WithBackoff(10*time.Millisecond, 100*time.Millisecond), signals.WithLogger(logger))
	return v, err
}

// Run hears what other replicas change until ctx ends.
func (v *Service) Run(ctx context.Context) error {
	source := v.store.Source()
	return v.hints.Run(ctx, signals.SourceFunc[string](func(ctx context.Context, sink signals.Sink[string]) error {
		return source.Run(ctx, listening{sink, &v.known})
	}))
}

// Drain ends every wait as unavailable, so that clients go elsewhere, and takes no more.
func (v *Service) Drain() { _ = v.waits.Close() }

// Stats returns what the purgatory and the runner of hints know of themselves.
func (v *Service) Stats() (purgatory.Stats, signals.Stats) { return v.waits.Stats(), v.hints.Stats() }

// resync is the bulk read after a gap.
func (v *Service) resync(ctx context.Context, keys []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	revisions, err := v.store.Revisions(ctx, keys)
	for key, revision := range revisions {
		v.known.rise(key, revision)
		v.hints.Saw(key, revision)
	}
	return err
}

// Put implements the RPC.
func (v *Service) Put(ctx context.Context, r *connect.Request[replicasv1.PutRequest]) (*connect.Response[replicasv1.PutResponse], error) {
	if err := errors.Join(checkKey(r.Msg.Key), checkValue(r.Msg.Value)); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	revision, err := v.store.Put(ctx, r.Msg.Key, r.Msg.Value)
	if err != nil {
		return nil, failure(ctx, err)
	}
	return connect.NewResponse(&replicasv1.PutResponse{Revision: revision}), nil
}

// Get implements the RPC.
func (v *Service) Get(ctx context.Context, r *connect.Request[replicasv1.GetRequest]) (*connect.Response[replicasv1.GetResponse], error) {
	if err := checkKey(r.Msg.Key); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	e, err := v.get(ctx, r.Msg.Key)
	if err != nil {
		return nil, failure(ctx, err)
	}
	return connect.NewResponse(&replicasv1.GetResponse{Entry: entry(r.Msg.Key, e)}), nil
}

// get reads the engine. A request on a connection that breaks may never be answered, and a
// wait that is reading hears no hint: so each attempt has a time limit of its own, however
// far away ctx's deadline is.
func (v *Service) get(ctx context.Context, key string) (store.Entry, error) {
	select {
	case v.reads <- struct{}{}:
		defer func() { <-v.reads }()
	case <-ctx.Done():
		return store.Entry{}, context.Cause(ctx)
	}
	for limit := firstRead; ; limit *= 2 {
		within, cancel := context.WithTimeout(ctx, limit)
		e, err := v.store.Get(within, key)
		late := within.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !late || limit >= lastRead {
			return e, err
		}
	}
}

// Watch implements the RPC.
func (v *Service) Watch(ctx context.Context, r *connect.Request[replicasv1.WatchRequest]) (*connect.Response[replicasv1.WatchResponse], error) {
	key, after := r.Msg.Key, r.Msg.AfterRevision
	if err := errors.Join(checkKey(key), checkRevision(after)); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	timeout := longestWait
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(time.Until(deadline)-margin, timeout)
	}
	v.known.enter(key)
	defer v.known.leave(key)
	var last store.Entry
	been := false
	read := func(ctx context.Context) (store.Entry, bool, error) {
		if been && !v.known.beyond(key, after) {
			return last, false, nil // a re-check whose bulk read has found nothing new
		}
		e, err := v.get(ctx, key)
		if err == nil {
			last, been = e, true
			v.hints.Saw(key, e.Revision)
		}
		return last, e.Revision > after, err
	}
	e, err := signals.AwaitRead(ctx, v.waits, timeout, read, key)
	// When the time has passed, the answer is what was read last, if anything was.
	if err != nil && (!been || !errors.Is(err, purgatory.ErrExpired)) {
		return nil, failure(ctx, err)
	}
	return connect.NewResponse(&replicasv1.WatchResponse{Entry: entry(key, e), Changed: err == nil}), nil
}

// checkKey refuses what some engine cannot take: a client that went to another replica
// would fare no better.
func checkKey(key string) error {
	switch {
	case key == "":
		return errors.New("the key is empty")
	case len(key) > maxKey:
		return fmt.Errorf("the key has %d bytes, the maximum is %d", len(key), maxKey)
	case strings.Contains(key, "\x00"):
		return errors.New("the key has a zero byte")
	}
	return nil
}

func checkValue(value []byte) error {
	if len(value) > maxValue {
		return fmt.Errorf("the value has %d bytes, the maximum is %d", len(value), maxValue)
	}
	return nil
}

func checkRevision(after int64) error {
	if after < 0 || after == math.MaxInt64 {
		return fmt.Errorf("%d is no revision to wait after", after)
	}
	return nil
}

func entry(key string, e store.Entry) *replicasv1.Entry {
	return &replicasv1.Entry{Key: key, Value: e.Value, Revision: e.Revision}
}

// failure says in the RPC's terms what went wrong.
func failure(ctx context.Context, err error) error {
	code := connect.CodeUnavailable // of the engine, or of this replica, which is stopping
	switch {
	case errors.Is(err, purgatory.ErrFull):
		code = connect.CodeResourceExhausted
	case errors.Is(err, purgatory.ErrExpired), errors.Is(ctx.Err(), context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case ctx.Err() != nil:
		code = connect.CodeCanceled
	}
	return connect.NewError(code, err)
}
