package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var orders0 = topicPartition{topic, 0}

// trio is one partition's three replicas, without brokers, connections or a clock of their own.
type trio struct {
	t          *testing.T
	controller *controller
	replicas   [3]*replica
	now        time.Time
}

func newTrio(t *testing.T, minInsync int) *trio {
	t.Helper()
	s := &trio{t: t, controller: newController(1, 3), now: time.Unix(1000, 0)}
	for id := range s.replicas {
		s.replicas[id] = newReplica(orders0, id, []int{0, 1, 2}, minInsync, s.controller)
		s.replicas[id].assume(s.controller.assigned(orders0), s.now)
	}
	return s
}

func (s *trio) leader() *replica { return s.replicas[s.controller.assigned(orders0).leader] }

// fetch lets a follower fetch once from the leader, as a fetcher does.
func (s *trio) fetch(follower int) (joined, moved bool) {
	s.t.Helper()
	at, ok := s.replicas[follower].position(s.leader().broker)
	require.True(s.t, ok)
	joined, moved = s.leader().noteFetch(follower, at, s.now)
	s.replicas[follower].apply(at, s.leader().read(at, 1000))
	return joined, moved
}

func (s *trio) append(value string) appended {
	s.t.Helper()
	at, _, c := s.leader().append(value)
	require.Equal(s.t, none, c)
	return at
}

func (s *trio) stepDown() {
	s.t.Helper()
	successor, ok := s.leader().resign()
	require.True(s.t, ok)
	a, err := s.controller.elect(orders0, successor)
	require.NoError(s.t, err)
	for _, r := range s.replicas {
		r.assume(a, s.now)
	}
}

func (s *trio) verdict(at appended) string {
	c, ended := at.replica.verdict(at)
	if !ended {
		return "waiting"
	}
	return c.String()
}

func TestHighWatermarkFollowsSlowestInsyncFollower(t *testing.T) {
	s := newTrio(t, 2)
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
	s := newTrio(t, 2)
	at := s.append("a")
	s.fetch(1)
	s.fetch(1)
	s.now = s.now.Add(lag)
	dropped, _ := s.leader().dropLagging(s.now, lag)
	assert.Empty(t, dropped, "it has until the lag time is over")
	s.now = s.now.Add(1)
	dropped, moved := s.leader().dropLagging(s.now, lag)
	assert.Equal(t, []int{2}, dropped, "broker 1 has all there is, however long ago it said so")
	assert.True(t, moved)
	assert.Equal(t, "satisfied", s.verdict(at))
	assert.Equal(t, []int{0, 1}, s.controller.assigned(orders0).insync)

	joined, _ := s.fetch(2)
	assert.False(t, joined, "it asks from the start: it is behind the high watermark")
	joined, _ = s.fetch(2)
	assert.True(t, joined)
	assert.Equal(t, []int{0, 1, 2}, s.controller.assigned(orders0).insync)
	next := s.append("b")
	s.fetch(1)
	s.fetch(1)
	assert.Equal(t, "waiting", s.verdict(next), "it counts again")
	dropped, _ = s.leader().dropLagging(s.now.Add(lag), lag)
	assert.Empty(t, dropped, "it has a full lag time from joining on, however long ago it last had everything")
}

// Under load a follower never has all there is, but it has what there was when it fetched last.
func TestFollowerThatKeepsUpIsNotLagging(t *testing.T) {
	const lag = time.Second
	s := newTrio(t, 2)
	for range 20 {
		s.append("a")
		s.fetch(1)
		s.fetch(2)
		s.now = s.now.Add(lag / 2)
		dropped, _ := s.leader().dropLagging(s.now, lag)
		require.Empty(t, dropped)
	}
}

func TestTooFewInsyncReplicas(t *testing.T) {
	s := newTrio(t, 3)
	at := s.append("a")
	s.now = s.now.Add(time.Hour)
	s.leader().dropLagging(s.now, time.Second)
	assert.Equal(t, "not enough replicas", s.verdict(at), "appended, but on fewer replicas than it takes")
	_, _, c := s.leader().append("b")
	assert.Equal(t, notEnoughReplicas, c)
}

func TestFollowerAndFormerLeaderRefuse(t *testing.T) {
	s := newTrio(t, 2)
	_, _, c := s.replicas[1].append("a")
	assert.Equal(t, notLeader, c)
	at := s.append("a")
	s.stepDown()
	assert.Equal(t, "cancelled (not leader)", s.verdict(at))
	_, _, c = at.replica.append("b")
	assert.Equal(t, notLeader, c)
}

func TestSuccessorIsTheFurthestInsyncFollower(t *testing.T) {
	s := newTrio(t, 2)
	s.append("a")
	s.fetch(2)
	s.fetch(2)
	s.stepDown()
	assert.Equal(t, 2, s.controller.assigned(orders0).leader)
}

func TestNobodyElseInsyncMeansNoStepDown(t *testing.T) {
	s := newTrio(t, 1)
	s.append("a")
	s.now = s.now.Add(time.Hour)
	s.leader().dropLagging(s.now, time.Second)
	_, ok := s.leader().resign()
	assert.False(t, ok)
	s.append("b")
}

func TestControllerElectsOnlyFromInsyncSet(t *testing.T) {
	c := newController(1, 3)
	require.True(t, c.setInsync(orders0, 0, []int{0, 1}))
	_, err := c.elect(orders0, 2)
	assert.ErrorContains(t, err, "only [0 1] are in sync")
	_, err = c.elect(orders0, 1)
	require.NoError(t, err)
	assert.False(t, c.setInsync(orders0, 0, []int{0}), "the leader of an epoch that is over decides nothing")
}

// The leader steps down with records that nobody else has; another one follows it, and its successor too. The logs must
// become one again, however many epochs a replica has slept through.
func TestDivergedLogsBecomeOne(t *testing.T) {
	s := newTrio(t, 2)
	s.append("both")
	s.fetch(1)
	s.fetch(1)
	s.append("only on 0")
	s.stepDown() // to 1
	require.Equal(t, 1, s.leader().broker)
	s.append("from 1")
	s.fetch(2)
	s.fetch(2)
	s.append("only on 1")
	s.stepDown() // to 2
	require.Equal(t, 2, s.leader().broker)
	s.append("from 2")
	for range 6 {
		s.fetch(0)
		s.fetch(1)
	}
	want := []record{{0, "both"}, {1, "from 1"}, {2, "from 2"}}
	for id, r := range s.replicas {
		assert.Equal(t, want, r.mu.log.records, "broker %d", id)
	}
	assert.Equal(t, int64(3), s.leader().mu.highWatermark)
}

// A follower outside the set that has only reached the high watermark a new leader happens to know may lack what the former
// leader acknowledged: it must come up to the start of the epoch.
func TestJoiningTakesTheStartOfTheEpoch(t *testing.T) {
	l := newLeadership(1, 10, []int{0, 1, 2}, []int{0, 1}, time.Unix(0, 0))
	l.fetched(2, 5, 10, time.Unix(1, 0))
	assert.False(t, l.mayJoin(2, 5))
	l.fetched(2, 10, 10, time.Unix(2, 0))
	assert.True(t, l.mayJoin(2, 5))
}

// A fetch that was under way when leadership moved neither counts as progress nor changes a log.
func TestFetchOfAnEarlierEpochChangesNothing(t *testing.T) {
	s := newTrio(t, 2)
	s.append("a")
	at, _ := s.replicas[2].position(0)
	answer := s.leader().read(at, 10)
	require.Len(t, answer.Records, 1)
	s.stepDown()
	s.replicas[2].apply(at, answer)
	assert.Zero(t, s.replicas[2].mu.log.end())
	joined, moved := s.leader().noteFetch(2, at, s.now)
	assert.False(t, joined || moved)
	assert.Equal(t, notLeader, s.leader().read(at, 10).Code)
	assert.True(t, s.leader().hasNews(at), "it need not wait to be told so")
}

func TestLeadersAreSpread(t *testing.T) {
	led := newController(5, 3).ledPartitions()
	assert.Len(t, led[0], 2)
	assert.Len(t, led[1], 2)
	assert.Len(t, led[2], 1)
}
