package main

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	replicasv1 "github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1"
	"github.com/delayedop/purgatory/examples/heavy/replicas/replicas/v1/replicasv1connect"
)

// polls are clients that each watch a key for ever. After an error a client goes elsewhere.
type polls struct {
	keys      int
	replicas  []replicasv1connect.StateClient
	transport *http.Transport // of the clients
	seen      []atomic.Int64  // by client: the last revision
	answered  atomic.Int64
	twice     atomic.Int64 // answers with a revision that the client had been given before
	failures  atomic.Int64
	waiting   atomic.Int64

	mu struct {
		sync.Mutex
		acknowledged  []int64 // by key: the last revision that was acknowledged to a writer
		puts, written int     // how many puts were acknowledged, and to how many keys
		took          []time.Duration
	}
}

// newPolls returns n clients of the replicas at the given URLs.
func newPolls(n, keys int, urls []string) *polls {
	p := &polls{keys: keys, seen: make([]atomic.Int64, n)}
	p.replicas, p.transport = clients(urls)
	p.mu.acknowledged = make([]int64, keys)
	return p
}

// run is client i, until ctx ends.
func (p *polls) run(ctx context.Context, i int) {
	for at := i; ctx.Err() == nil; {
		began := time.Now()
		p.waiting.Add(1)
		answer, err := p.replicas[at%len(p.replicas)].Watch(ctx, connect.NewRequest(&replicasv1.WatchRequest{
			Key: demoKey(i % p.keys), AfterRevision: p.seen[i].Load(),
		}))
		p.waiting.Add(-1)
		if err != nil {
			if ctx.Err() == nil {
				p.failures.Add(1)
			}
			at++ // and not all clients at the same moment
			select {
			case <-ctx.Done():
			case <-time.After(10*time.Millisecond + rand.N(40*time.Millisecond)):
			}
			continue
		}
		if !answer.Msg.Changed {
			continue
		}
		if answer.Msg.Entry.Revision <= p.seen[i].Load() {
			p.twice.Add(1)
		}
		p.seen[i].Store(answer.Msg.Entry.Revision)
		p.answered.Add(1)
		nano, _ := strconv.ParseInt(string(answer.Msg.Entry.Value), 10, 64)
		if put := time.Unix(0, nano); put.After(began) { // otherwise the client has not waited for it
			p.mu.Lock()
			p.mu.took = append(p.mu.took, time.Since(put))
			p.mu.Unlock()
		}
	}
}

// acknowledge notes the revision of a put that was acknowledged to a writer.
func (p *polls) acknowledge(key int, revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.acknowledged[key] == 0 {
		p.mu.written++
	}
	p.mu.acknowledged[key] = max(p.mu.acknowledged[key], revision)
	p.mu.puts++
}

// written returns how many puts were acknowledged, and to how many keys.
func (p *polls) written() (puts, keys int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.puts, p.mu.written
}

// awaitPuts waits until n puts were acknowledged, which takes a busy machine longer; within patience,
// and until ctx ends.
func (p *polls) awaitPuts(ctx context.Context, n int) {
	for end := time.Now().Add(patience); ctx.Err() == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if puts, _ := p.written(); puts >= n {
			return
		}
	}
}

// behind returns how many clients have not seen the last acknowledged revision of their key.
func (p *polls) behind() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.seen {
		if p.seen[i].Load() < p.mu.acknowledged[i%p.keys] {
			n++
		}
	}
	return n
}

// takeTimes returns how long the answers since the last call took, from the moment at which
// the put was sent; sorted.
func (p *polls) takeTimes() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	took := p.mu.took
	p.mu.took = nil
	slices.Sort(took)
	return took
}

func quantile(sorted []time.Duration, part float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(part*float64(len(sorted))), len(sorted)-1)].Round(10 * time.Microsecond)
}
