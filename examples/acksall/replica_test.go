package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const orders0 = partition(0)

// trio is one partition's three replicas, without brokers, connections or a clock of their own.
type trio struct {
	t        *testing.T
	replicas [3]*replica
	leads    int
	epoch    int
	now      time.Time
}

func newTrio(t *testing.T) *trio {
	t.Helper()
	s := &trio{t: t, now: time.Unix(1000, 0)}
	for id := range s.replicas {
		s.replicas[id] = &replica{id: orders0, broker: id}
	}
	s.appoint(0, map[int]bool{0: true, 1: true, 2: true})
	return s
}

func (s *trio) appoint(leader int, insync map[int]bool) {
	s.leads = leader
	start := s.leader().lead(s.epoch, 3, insync, s.now)
	for id, r := range s.replicas {
		if id != leader {
			r.follow(s.epoch, start)
		}
	}
}

func (s *trio) leader() *replica { return s.replicas[s.leads] }

// fetch lets a follower fetch once from the leader, as a broker does.
func (s *trio) fetch(follower int) (joined, moved bool) {
	s.t.Helper()
	f, ok := s.replicas[follower].next(s.epoch)
	require.True(s.t, ok)
	joined, moved = s.leader().noteFetch(f, s.now)
	answer, _ := s.leader().read(f)
	s.replicas[follower].apply(f, answer)
	return joined, moved
}

func (s *trio) append(value string) appended {
	s.t.Helper()
	at, c := s.leader().append(value)
	require.Equal(s.t, none, c)
	return at
}

func (s *trio) stepDown() {
	s.t.Helper()
	successor, insync, ok := s.leader().resign()
	require.True(s.t, ok)
	s.epoch++
	s.appoint(successor, insync)
}

func (s *trio) insync() map[int]bool { return s.leader().mu.leadership.insync }

func (s *trio) verdict(at appended) string {
	c, ended := at.replica.verdict(at)
	if !ended {
		return "waiting"
	}
	return c.String()
}

func TestHighWatermarkFollowsSlowestInsyncFollower(t *testing.T) {
	s := newTrio(t)
	at := s.append("a")
	assert.Equal(t, "waiting", s.verdict(at))
	s.fetch(1)
	s.fetch(1) // the second fetch says that the first one's records have arrived
	s.fetch(2)
	assert.Equal(t, "waiting", s.verdict(at), "broker 2 has been sent the record, but has not said that it has it")
	_, moved := s.fetch(2)
	assert.True(t, moved)
	assert.Equal(t, "satisfied", s.verdict(at))
	_, moved = s.fetch(2)
	assert.False(t, moved, "there is nothing new")
}

func TestLaggingFollowerIsDroppedAndJoinsAgain(t *testing.T) {
	const lag = time.Second
	s := newTrio(t)
	at := s.append("a")
	s.fetch(1)
	s.fetch(1)
	s.now = s.now.Add(lag)
	assert.Empty(t, s.leader().dropLagging(s.now, lag), "it has until the lag time is over")
	s.now = s.now.Add(1)
	assert.Equal(t, []int{2}, s.leader().dropLagging(s.now, lag), "broker 1 has all there is, however long ago it said so")
	assert.Equal(t, "satisfied", s.verdict(at))
	assert.Equal(t, map[int]bool{0: true, 1: true}, s.insync())

	joined, _ := s.fetch(2)
	assert.False(t, joined, "it asks from the start: it is behind the high watermark")
	joined, _ = s.fetch(2)
	assert.True(t, joined)
	assert.Len(t, s.insync(), 3)
	next := s.append("b")
	s.fetch(1)
	s.fetch(1)
	assert.Equal(t, "waiting", s.verdict(next), "it counts again")
	assert.Empty(t, s.leader().dropLagging(s.now.Add(lag), lag), "it has a full lag time from its last fetch on")
}

func TestFollowerAndFormerLeaderRefuse(t *testing.T) {
	s := newTrio(t)
	_, c := s.replicas[1].append("a")
	assert.Equal(t, notLeader, c)
	at := s.append("a")
	s.stepDown()
	assert.Equal(t, "cancelled (not leader)", s.verdict(at))
	_, c = at.replica.append("b")
	assert.Equal(t, notLeader, c)
}

func TestSuccessorIsTheFurthestInsyncFollower(t *testing.T) {
	s := newTrio(t)
	s.append("a")
	s.fetch(2)
	s.fetch(2)
	s.stepDown()
	assert.Equal(t, 2, s.leads)
}

func TestNobodyElseInsyncMeansNoStepDown(t *testing.T) {
	s := newTrio(t)
	s.append("a")
	s.leader().dropLagging(s.now.Add(time.Hour), time.Second)
	_, _, ok := s.leader().resign()
	assert.False(t, ok)
	s.append("b")
}

// The leader steps down with records that nobody else has; another one follows it, and its successor too. The logs must
// become one again.
func TestDivergedLogsBecomeOne(t *testing.T) {
	s := newTrio(t)
	s.append("both")
	s.fetch(1)
	s.fetch(1)
	s.append("only on 0")
	s.stepDown() // to 1
	require.Equal(t, 1, s.leads)
	s.append("from 1")
	s.fetch(2)
	s.fetch(2)
	s.append("only on 1")
	s.stepDown() // to 2
	require.Equal(t, 2, s.leads)
	s.append("from 2")
	for range 6 {
		s.fetch(0)
		s.fetch(1)
	}
	for id, r := range s.replicas {
		assert.Equal(t, []string{"both", "from 1", "from 2"}, r.mu.records, "broker %d", id)
	}
	assert.Equal(t, int64(3), s.leader().end())
}

// A follower outside the set that has only reached the high watermark a new leader happens to know may lack what the former
// leader acknowledged: it must come up to the start of the epoch.
func TestJoiningTakesTheStartOfTheEpoch(t *testing.T) {
	s := newTrio(t)
	s.append("a")
	s.fetch(1)
	s.fetch(1)
	require.Equal(t, []int{2}, s.leader().dropLagging(s.now.Add(time.Hour), time.Second))
	require.Equal(t, int64(1), s.leader().end())
	s.stepDown()
	require.Equal(t, 1, s.leads)
	require.Zero(t, s.leader().end(), "it has the record, and does not know that it was acknowledged")
	joined, _ := s.fetch(2)
	assert.False(t, joined)
	joined, _ = s.fetch(2)
	assert.True(t, joined)
}

// A fetch that was under way when leadership moved neither counts as progress nor changes a log.
func TestFetchOfAnEarlierEpochChangesNothing(t *testing.T) {
	s := newTrio(t)
	s.append("a")
	f, _ := s.replicas[2].next(0)
	answer, _ := s.leader().read(f)
	require.Len(t, answer.Records, 1)
	s.stepDown()
	s.replicas[2].apply(f, answer)
	assert.Empty(t, s.replicas[2].mu.records)
	joined, moved := s.leader().noteFetch(f, s.now)
	assert.False(t, joined || moved)
	answer, news := s.leader().read(f)
	assert.Equal(t, notLeader, answer.Code)
	assert.True(t, news, "it need not wait to be told so")
}

// What has been read may still be on its way when the log is cut and written again.
func TestReadersAreLeftAlone(t *testing.T) {
	s := newTrio(t)
	for range 3 {
		s.append("old")
	}
	answer, _ := s.leader().read(fetchRequest{Follower: 1, Offset: 1})
	require.Len(t, answer.Records, 2)
	r := s.leader()
	r.follow(1, 1)
	r.lead(2, 3, map[int]bool{0: true}, s.now)
	s.append("new")
	assert.Equal(t, []string{"old", "old"}, answer.Records)
	assert.Equal(t, []string{"old", "new"}, r.mu.records)
	answer, _ = s.leader().read(fetchRequest{Follower: 1, Epoch: 2, Offset: 9})
	assert.Empty(t, answer.Records)
}
