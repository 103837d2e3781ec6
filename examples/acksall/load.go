package main

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/delayedop/purgatory/examples/internal/debugserver"
	"github.com/delayedop/purgatory/examples/internal/program"
	"github.com/delayedop/purgatory/purgatory"
)

// cluster is the brokers and what decides who leads: one lock, where Kafka has a log of metadata.
type cluster struct {
	cfg     config
	brokers []*broker
	start   time.Time
	say     func(format string, args ...any)

	mu struct {
		sync.Mutex
		leaders []int // of each partition
		epoch   int
	}
}

// startCluster starts as many brokers as there are replicas, each with a replica of every partition. The page shows what waits.
func startCluster(cfg config, l *ledger, say func(string, ...any), page *debugserver.Server) (*cluster, error) {
	c := &cluster{cfg: cfg, start: time.Now(), say: say}
	options := append(page.Options(), purgatory.WithLogger(program.ErrorLog()))
	for id := range cfg.replicas {
		replicas := make([]*replica, cfg.partitions)
		for i := range replicas {
			replicas[i] = &replica{id: partition(i), broker: id}
		}
		b, err := newBroker(id, replicas, cfg.lagTime, options...)
		if err == nil {
			c.brokers = append(c.brokers, b)
			b.late, b.say = l.expired, say
			page.Add(b.produces)
			page.Add(b.fetches)
			err = b.listen()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("broker %d: %w", id, err), c.stop(context.Background()))
		}
	}
	for i := range cfg.partitions {
		c.mu.leaders = append(c.mu.leaders, i%cfg.replicas)
		everyone := make(map[int]bool)
		for id := range cfg.replicas {
			everyone[id] = true
		}
		c.appointLocked(partition(i), i%cfg.replicas, everyone)
	}
	for _, b := range c.brokers {
		b.running.Go(b.watchLag)
	}
	return c, nil
}

// holdBack is how long a broker's next fetch is held back: the last one's, until it is well again.
func (c *cluster) holdBack(broker int) time.Duration {
	if t := time.Since(c.start); broker == c.cfg.replicas-1 && t >= c.cfg.slowFrom && t < c.cfg.slowTo {
		return c.cfg.slowTo - t
	}
	return 0
}

// appointLocked makes a broker the leader of a partition in a new epoch, and all others its followers.
func (c *cluster) appointLocked(id partition, leader int, insync map[int]bool) {
	epoch := c.mu.epoch
	c.mu.leaders[id] = leader
	start := c.brokers[leader].replicas[id].lead(epoch, len(c.brokers), insync, time.Now())
	for _, b := range c.brokers {
		if b.id != leader {
			b.replicas[id].follow(epoch, start)
			b.running.Go(func() { b.follow(c.brokers[leader], id, epoch, func() time.Duration { return c.holdBack(b.id) }) })
		}
	}
}

// stepDown makes a broker give up every partition it leads: what waits there is answered, then an in-sync follower leads.
func (c *cluster) stepDown(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.epoch++
	moved, cancelled := 0, 0
	for i, leader := range c.mu.leaders {
		if leader != id {
			continue
		}
		if successor, insync, n, ok := c.brokers[id].resign(partition(i)); ok {
			c.appointLocked(partition(i), successor, insync)
			moved, cancelled = moved+1, cancelled+n
		}
	}
	if moved == 0 {
		c.say("  * broker %d stays leader: there is nobody in sync who could follow it", id)
		return
	}
	c.say("  * broker %d stepped down from %d partitions and answered %d waiting produces \"not leader\"", id, moved, cancelled)
}

// makeTrouble makes happen what the flags say, when they say it, and has a line of numbers written each second, until ctx ends.
func (c *cluster) makeTrouble(ctx context.Context, cfg config, progress func()) {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var slow, well, leaderChange <-chan time.Time // a nil channel never delivers
	if cfg.slow() {
		slow, well = time.After(time.Until(c.start.Add(cfg.slowFrom))), time.After(time.Until(c.start.Add(cfg.slowTo)))
	}
	if cfg.leaderChangeAt > 0 {
		leaderChange = time.After(time.Until(c.start.Add(cfg.leaderChangeAt)))
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-second.C:
			progress()
		case <-slow:
			c.say("  * broker %d stops fetching", cfg.replicas-1)
		case <-well:
			c.say("  * broker %d fetches again", cfg.replicas-1)
		case <-leaderChange:
			c.stepDown(0)
		}
	}
}

// leaders lists the leader of each partition, as producers ask for it.
func (c *cluster) leaders() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.leaders)
}

// stop ends every broker. When it returns nothing of the cluster runs any more; the logs can still be read.
func (c *cluster) stop(ctx context.Context) error {
	var errs []error
	for _, b := range c.brokers {
		errs = append(errs, b.stop(ctx))
	}
	return errors.Join(errs...)
}

// producer sends produces at its rate, whatever becomes of those that it has sent already. An answer "not leader" is final.
type producer struct {
	id      int
	rate    float64 // produces per second
	timeout time.Duration
	ledger  *ledger
	leaders func() []int // of each partition

	brokers []*gob.Encoder // to each broker
	readers errgroup.Group
}

const producers = 4 // each with a connection to every broker

func connectProducers(cfg config, c *cluster, l *ledger) (all []*producer, err error) {
	for id := range producers {
		p := &producer{id: id, rate: float64(cfg.rate) / producers, timeout: cfg.timeout, ledger: l, leaders: c.leaders}
		all = append(all, p)
		for _, b := range c.brokers {
			conn, err := net.DialTimeout("tcp", b.listener.Addr().String(), 5*time.Second)
			if err != nil {
				return nil, fmt.Errorf("producer %d: %w", id, err)
			}
			p.brokers = append(p.brokers, gob.NewEncoder(conn))
			p.readers.Go(func() error { return p.read(conn) })
		}
	}
	return all, nil
}

// read enters the answers in the ledger, until the broker hangs up. A connection that ends in another way, as when it is
// reset, may have lost answers.
func (p *producer) read(conn net.Conn) error {
	defer conn.Close()
	decoder := gob.NewDecoder(conn)
	for {
		var r produceResponse
		switch err := decoder.Decode(&r); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("producer %d: %w", p.id, err)
		}
		p.ledger.answer(r, time.Now())
	}
}

// run produces until ctx ends. Every millisecond it sends what is due by then.
func (p *producer) run(ctx context.Context) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for sent := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		leaders := p.leaders()
		for due := int(time.Since(start).Seconds() * p.rate); sent < due && ctx.Err() == nil; sent++ {
			var records []newRecord
			broker, partitions := pick(leaders)
			for _, id := range partitions {
				records = append(records, newRecord{id, fmt.Sprintf("producer %d, produce %d", p.id, sent)})
			}
			id := p.ledger.open(records, time.Now())
			if err := p.brokers[broker].Encode(produceRequest{id, p.timeout, records}); err != nil {
				return fmt.Errorf("producer %d: %w", p.id, err)
			}
		}
	}
}

// pick draws a partition, and takes the next one that has the same leader, if there is one.
func pick(leaders []int) (broker int, partitions []partition) {
	first := rand.IntN(len(leaders))
	for i := range leaders {
		if next := (first + i) % len(leaders); leaders[next] == leaders[first] && len(partitions) < 2 {
			partitions = append(partitions, partition(next))
		}
	}
	return leaders[first], partitions
}
