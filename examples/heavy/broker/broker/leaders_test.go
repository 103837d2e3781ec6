package broker

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog"
	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
	"github.com/delayedop/purgatory/examples/heavy/broker/controller"
)

// replicaSet is one partition's three replicas and the controller, without the network
// and without time: who fetches, dies, comes back or hears the news, and when, is the
// test's to say.
type replicaSet struct {
	t          *testing.T
	controller *controller.Controller
	replicas   [3]*replica
	made       int           // records
	waiting    []appendedOne // appended by somebody, not acknowledged
	acked      map[int64]string
}

type replica struct {
	*partition      // nil while its broker is down
	log             *commitlog.Log
	picture         *controller.Picture // the newest that it has applied
	inFlight        *kmsg.FetchResponseTopicPartition
	inFlightOfEpoch int32
}

type appendedOne struct {
	appendedBatch
	base  int64
	value string
}

var tp = topicPartition{Topic: "t"}

func newReplicaSet(t *testing.T) *replicaSet {
	c, err := controller.New(time.Hour, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s := &replicaSet{t: t, controller: c, acked: make(map[int64]string)}
	for i := range s.replicas {
		s.replicas[i] = &replica{log: new(commitlog.Log)}
		s.start(i)
	}
	_, err = c.Create("t", 1, 3)
	require.NoError(t, err)
	return s
}

// start begins a broker's life with the log that the one before has left.
func (s *replicaSet) start(i int) {
	session, err := s.controller.Register(int32(i+1), netip.MustParseAddrPort("127.0.0.1:1"))
	require.NoError(s.t, err)
	b := &Broker{config: Config{ID: int32(i + 1), Controller: s.controller, MaxLag: time.Hour, MinInsyncReplicas: 1}}
	b.session.Store(session)
	r := s.replicas[i]
	r.partition, r.inFlight, r.picture = &partition{topicPartition: tp, broker: b}, nil, nil
	r.mu.log, r.mu.high = r.log, r.log.Start()
	r.mu.leader, r.mu.leaderEpoch, r.mu.epoch = controller.Nobody, -1, -1
	s.hear(i)
}

// kill ends it; the controller notices at once, or when it starts again.
func (s *replicaSet) kill(i int, noticed bool) {
	if noticed {
		s.replicas[i].broker.session.Load().Leave()
	}
	s.replicas[i].partition = nil
}

// hear applies the newest picture.
func (s *replicaSet) hear(i int) {
	r := s.replicas[i]
	r.picture = s.controller.Picture()
	if topic := r.picture.Topics["t"]; topic != nil {
		r.apply(&topic[0], time.Now())
	}
}

// ask sends a follower's fetch to whom it believes to lead, and keeps the answer on its
// way.
func (s *replicaSet) ask(i int) {
	r := s.replicas[i]
	if topic := r.picture.Topics["t"]; topic == nil || topic[0].Leader <= 0 || topic[0].Leader == int32(i+1) {
		return
	}
	leader := s.replicas[r.picture.Topics["t"][0].Leader-1]
	if leader.partition == nil {
		return
	}
	r.inFlightOfEpoch = r.picture.Topics["t"][0].LeaderEpoch
	req := r.nextFetch(r.inFlightOfEpoch)
	leader.fetched(int32(i+1), &req, time.Now())
	resp := fetchPart{FetchRequestTopicPartition: &req, partition: leader.partition}.read(true, 100, true)
	r.inFlight = &resp
}

// take has it arrive.
func (s *replicaSet) take(i int) {
	if r := s.replicas[i]; r.inFlight != nil {
		_ = r.replicate(r.inFlightOfEpoch, r.inFlight)
		r.inFlight = nil
	}
}

func (s *replicaSet) produce(i int) {
	value := fmt.Sprintf("%06d", s.made)
	s.made++
	base, a, _, err := s.replicas[i].append(batchtest.Build(1, []byte(value)), -1)
	if err == nil {
		s.waiting = append(s.waiting, appendedOne{a, base, value})
	}
}

// check acknowledges what is replicated, and then has every replica that may lead, now or
// after the next election, hold all that was ever acknowledged.
func (s *replicaSet) check() {
	s.waiting = slices.DeleteFunc(s.waiting, func(a appendedOne) bool {
		alive := slices.ContainsFunc(s.replicas[:], func(r *replica) bool { return r.partition == a.partition })
		done, err := false, error(nil)
		if alive {
			done, err = a.replicated(a.epoch, a.end)
		}
		if done && err == nil {
			require.NotContains(s.t, s.acked, a.base, "two records were acknowledged at one offset")
			s.acked[a.base] = a.value
		}
		return done || !alive
	})
	for _, id := range s.controller.Picture().Topics["t"][0].ISR {
		log := s.replicas[id-1].log
		for offset, value := range s.acked {
			records := log.Read(offset, offset+1, 1<<20, true)
			require.Contains(s.t, string(records), value, "broker %d, in sync, at offset %d of %d", id, offset, log.End())
		}
	}
}

func (s *replicaSet) copyAll() {
	for range 4 {
		for i, r := range s.replicas {
			if r.partition != nil {
				s.hear(i)
				s.ask(i)
				s.take(i)
			}
		}
	}
	s.check()
}

// TestAFollowerThatRestartsTakesNothingAway is the first scenario of KIP-101: a follower
// has a record and does not know yet that it is committed, restarts, and the leader dies.
// Were it to cut its log at its high watermark and lead, the record would be lost.
func TestAFollowerThatRestartsTakesNothingAway(t *testing.T) {
	s := newReplicaSet(t)
	s.copyAll()
	s.kill(2, true)
	s.copyAll()
	s.produce(0)
	s.ask(1)
	s.take(1) // it has the record
	s.ask(1)  // the leader knows, and has committed it; the answer does not arrive
	s.check()
	require.Len(t, s.acked, 1)
	require.Zero(t, s.replicas[1].mu.high)
	s.kill(1, false)
	s.start(1)
	s.check()
	s.kill(0, true)
	s.hear(1)
	s.check()
	s.start(0)
	s.copyAll()
	require.Equal(t, int64(1), s.replicas[0].log.End())
}

// TestLogsDoNotDiverge is the second: two replicas have written different records at the
// same offset, and both come back.
func TestLogsDoNotDiverge(t *testing.T) {
	s := newReplicaSet(t)
	s.copyAll()
	s.produce(0) // in vain: nobody fetches it
	s.kill(0, true)
	s.hear(1)
	s.produce(1)
	s.copyAll()
	s.start(0)
	s.copyAll()
	require.Equal(t, s.replicas[1].log.Read(0, 1, 1000, true), s.replicas[0].log.Read(0, 1, 1000, true))
	s.kill(1, true)
	s.copyAll()
}

// TestNothingAcknowledgedIsLostInAnyOrder of some thousands: brokers die, come back and
// hear the news at any time, with answers on their way.
func TestNothingAcknowledgedIsLostInAnyOrder(t *testing.T) {
	acked, elections := 0, int32(0)
	for seed := range uint64(300) {
		s := newReplicaSet(t)
		random := rand.New(rand.NewPCG(seed, 101))
		for range 200 {
			i := random.IntN(3)
			if s.replicas[i].partition == nil {
				if random.IntN(4) == 0 {
					s.start(i)
				}
				s.check()
				continue
			}
			switch n := random.IntN(40); {
			case n < 10:
				s.produce(i)
			case n < 20:
				s.ask(i)
			case n < 30:
				s.take(i)
			case n < 38:
				s.hear(i)
			default:
				s.kill(i, n == 38)
			}
			s.check()
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
		acked, elections = acked+len(s.acked), elections+s.controller.Picture().Topics["t"][0].LeaderEpoch
	}
	t.Logf("%d acknowledged, %d elections", acked, elections)
	require.Positive(t, acked)
}
