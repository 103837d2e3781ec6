// Package controller decides what the brokers of a process have to agree on:
// who lives, which topics there are, who leads each partition and which replicas
// are in sync. It lives as long as the process, and its memory is the only place
// where that is kept. Brokers call its methods; it calls none of theirs.
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/delayedop/purgatory/operation"
	"github.com/delayedop/purgatory/purgatory"
)

// Controller is safe for concurrent use. Its lock is a leaf: a broker may call it
// under a lock of its own.
type Controller struct {
	log            *slog.Logger
	sessionTimeout time.Duration
	sessions       *purgatory.Purgatory[int32] // by broker
	producerID     atomic.Int64

	mu struct {
		sync.Mutex
		now     *Picture
		brokers map[int32]*Session
		placed  int // partitions that topics have begun with, for the next one to begin elsewhere
	}
}

// New makes a controller that gives up a broker which is silent for longer than
// sessionTimeout. Its options are those of the purgatory in which the sessions wait.
func New(sessionTimeout time.Duration, log *slog.Logger, opts ...purgatory.Option) (c *Controller, err error) {
	c = &Controller{log: log, sessionTimeout: sessionTimeout}
	c.mu.now = &Picture{Brokers: make(map[int32]netip.AddrPort)}
	c.mu.brokers = make(map[int32]*Session)
	opts = append(opts[:len(opts):len(opts)], purgatory.WithTimeoutsExpected()) // a broker that is silent is the news
	c.sessions, err = purgatory.New[int32]("broker session", opts...)
	return c, err
}

// Close ends every session.
func (c *Controller) Close() {
	_ = c.sessions.Close()
	_ = c.sessions.Shutdown(context.Background())
}

// Session is one life of one broker, until the controller gives it up. It is a
// delayed operation that waits for silence: each heartbeat extends it.
type Session struct {
	operation.DelayedOperation
	controller *Controller
	id         int32
	changed    chan struct{}
}

var (
	errSilent   = errors.New("no heartbeat within the session timeout")
	errReplaced = errors.New("the broker has started again")
	errLeaving  = errors.New("the broker stops")
)

// TryComplete waits for the timeout or for a cancellation, and for nothing else.
func (s *Session) TryComplete() bool { return false }

// OnComplete takes the broker out of the picture.
func (s *Session) OnComplete() {
	if s.Outcome() != operation.Closed {
		s.controller.fence(s, cmp.Or(s.Cause(), errSilent))
	}
}

// OnExpiration does nothing: OnComplete has done it.
func (s *Session) OnExpiration() {}

// Register begins a session for a broker. A session that its former life has left
// behind ends.
func (c *Controller) Register(id int32, at netip.AddrPort) (*Session, error) {
	c.mu.Lock()
	former := c.mu.brokers[id]
	c.mu.Unlock()
	if former != nil {
		c.fence(former, errReplaced) // also where it is expiring, and has not come so far
		c.sessions.Cancel(former, errReplaced)
	}
	s := &Session{controller: c, id: id, changed: make(chan struct{}, 1)}
	c.mu.Lock()
	c.mu.brokers[id] = s
	next := c.mu.now.clone()
	next.Brokers[id] = at
	c.publishLocked(next)
	c.mu.Unlock()
	c.log.Info("broker registered", "broker", id)
	if _, err := c.sessions.TryCompleteElseWatch(s, c.sessionTimeout, id); err != nil {
		c.fence(s, err)
		return nil, err
	}
	return s, nil
}

// Heartbeat is a broker's sign of life; false when the controller has given it up.
func (s *Session) Heartbeat() bool {
	return s.controller.sessions.Extend(s, s.controller.sessionTimeout)
}

// Leave ends the session of a broker that stops.
func (s *Session) Leave() { s.controller.sessions.Cancel(s, errLeaving) }

// Changed receives when there is a new picture.
func (s *Session) Changed() <-chan struct{} { return s.changed }

// fence takes a broker out of the picture: it leads nothing and is in sync with
// nothing, unless it is the last that was.
func (c *Controller) fence(s *Session, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.currentLocked(s) {
		return
	}
	c.log.Warn("broker fenced", "broker", s.id, "why", why)
	delete(c.mu.brokers, s.id)
	next := c.mu.now.clone()
	delete(next.Brokers, s.id)
	for _, t := range next.Topics {
		for i := range t {
			t[i].leave(s.id)
		}
	}
	c.publishLocked(next)
}

func (c *Controller) currentLocked(s *Session) bool { return s != nil && c.mu.brokers[s.id] == s }

// Picture is the newest picture.
func (c *Controller) Picture() *Picture {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.now
}

// publishLocked elects where there is somebody to elect, and lets the brokers know.
func (c *Controller) publishLocked(next *Picture) {
	for name, t := range next.Topics {
		for i := range t {
			if p := &t[i]; !next.mayLead(p, p.Leader) {
				c.elect(next, p, TopicPartition{name, int32(i)})
			}
		}
	}
	next.Version++
	c.mu.now = next
	for _, s := range c.mu.brokers {
		select {
		case s.changed <- struct{}{}:
		default: // it has not taken the last one yet
		}
	}
}

func (c *Controller) elect(next *Picture, p *Partition, tp TopicPartition) {
	leader := next.electable(p)
	if leader == p.Leader {
		return
	}
	c.log.Info("leader elected", "partition", tp, "leader", leader, "before", p.Leader, "insync", p.ISR)
	p.Leader = leader
	if leader != Nobody {
		p.ISR = []int32{leader} // the others copy its log from the beginning, and count when they have
	}
	p.LeaderEpoch++
	p.Epoch++
}

// NextProducerID is an id that no other idempotent producer has.
func (c *Controller) NextProducerID() int64 { return c.producerID.Add(1) }

// TopicPartition names a partition.
type TopicPartition struct {
	Topic string
	N     int32
}

func (tp TopicPartition) String() string { return fmt.Sprintf("%s-%d", tp.Topic, tp.N) }

// What a topic gets that does not say, and how much there may be.
const (
	Default       = -1
	partitions    = 3
	replication   = 3
	maxPartitions = 4000 // of all topics: brokers copy and look through the whole picture
)

var validName = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// Create makes a topic.
func (c *Controller) Create(name string, count int32, copies int16) (Topic, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	alive := slices.Sorted(maps.Keys(c.mu.brokers))
	if count == Default {
		count = partitions
	}
	if copies == Default {
		copies = min(replication, int16(len(alive)))
	}
	switch {
	case !validName.MatchString(name) || name == "." || name == "..":
		return nil, kerr.InvalidTopicException
	case c.mu.now.Topics[name] != nil:
		return nil, kerr.TopicAlreadyExists
	case count < 1 || c.mu.placed+int(count) > maxPartitions:
		return nil, kerr.InvalidPartitions
	case copies < 1 || int(copies) > len(alive):
		return nil, kerr.InvalidReplicationFactor
	}
	t := make(Topic, count)
	for i := range t {
		p := &t[i]
		for r := range int(copies) {
			p.Replicas = append(p.Replicas, alive[(c.mu.placed+i+r)%len(alive)])
		}
		p.ISR, p.Leader = p.Replicas, p.Replicas[0]
	}
	c.mu.placed += int(count)
	next := c.mu.now.clone()
	next.Topics[name] = t
	c.publishLocked(next)
	return t, nil
}

// Alter takes a leader's word for who is in sync, if it is news: of the leader's
// present session, of its present leadership, of the set as it is, and with nobody
// new in it who has died. It returns the partition as it is then.
func (c *Controller) Alter(s *Session, tp TopicPartition, leaderEpoch, epoch int32, isr []int32) (Partition, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.currentLocked(s) {
		return Partition{}, kerr.StaleBrokerEpoch
	}
	next := c.mu.now.clone()
	p := &next.Topics[tp.Topic][tp.N]
	switch {
	case p.Leader != s.id || p.LeaderEpoch != leaderEpoch:
		return Partition{}, kerr.FencedLeaderEpoch
	case p.Epoch != epoch:
		return Partition{}, kerr.InvalidUpdateVersion
	case !slices.Contains(isr, s.id):
		return Partition{}, kerr.InvalidRequest
	}
	for _, id := range isr {
		if c.mu.brokers[id] == nil && !slices.Contains(p.ISR, id) || !slices.Contains(p.Replicas, id) {
			return Partition{}, kerr.IneligibleReplica
		}
	}
	c.log.Info("in-sync set changed", "partition", tp, "leader", p.Leader, "insync", isr, "before", p.ISR)
	p.ISR = slices.Clone(isr)
	p.Epoch++
	c.publishLocked(next)
	return *p, nil
}
