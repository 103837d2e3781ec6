package node

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/delayedop/purgatory/examples/heavy/raftkv/kv"
	"github.com/delayedop/purgatory/purgatory"
)

// Watch waits on this node for a revision of key after a given one, 0 for any, and returns what key has then. Revisions that come
// quickly one after another may be skipped, the last one never is. It returns ErrDeadline if there was none.
func (n *Node) Watch(ctx context.Context, key string, after uint64, timeout time.Duration) (kv.Entry, error) {
	if err := checkTimeout(timeout); err != nil {
		return kv.Entry{}, err
	}
	if err := checkKey(key); err != nil {
		return kv.Entry{}, err
	}
	if after >= math.MaxInt64 {
		return kv.Entry{}, fmt.Errorf("%w: no revision comes after %d", ErrBadRevision, after)
	}
	ready := func() bool { return n.store.Revision(key) > after }
	err := n.watches.AwaitAt(ctx, timeout, ready, purgatory.KeyPosition[string]{Key: key, Position: int64(after) + 1})
	if err != nil {
		return kv.Entry{}, waitError(ctx, err)
	}
	e, _ := n.store.Get(key)
	return e, nil
}
