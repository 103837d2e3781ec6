package main

import (
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/bench/result"
)

// Those whose position is reached end, two for each, and no others, until they are given up.
func TestPositionsEndWhomTheyReach(t *testing.T) {
	const last = 20
	for _, m := range slices.Concat(positionMakers, timedPositions, readyMakers) {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			s := m.make()
			ctx, cancel := context.WithCancel(t.Context())
			var reached, givenUp [keys][last + 1]atomic.Int64
			var due, all sync.WaitGroup
			for key := range keys {
				for position := 1; position <= last; position++ {
					isDue := key == 1 && position <= last/2
					for range 2 {
						if isDue {
							due.Add(1)
						}
						all.Go(func() {
							if err := s.Wait(ctx, key, int64(position)); err != nil {
								assert.ErrorIs(t, err, context.Canceled)
								givenUp[key][position].Add(1)
							} else {
								reached[key][position].Add(1)
							}
							if isDue {
								due.Done()
							}
						})
					}
				}
			}
			until(func() bool { return s.Waiting() == 2*keys*last })
			s.Advance(1, last/2-1) // several at once
			s.Advance(1, last/2)   // and one
			due.Wait()
			until(func() bool { return s.Waiting() == 2*keys*last-last })
			require.NoError(t, s.Wait(ctx, 1, last/2), "it is there already")
			cancel()
			all.Wait()
			require.Zero(t, s.Waiting())
			s.Close()
			for key := range keys {
				for position := 1; position <= last; position++ {
					want := [2]int64{0, 2}
					if key == 1 && position <= last/2 {
						want = [2]int64{2, 0}
					}
					got := [2]int64{reached[key][position].Load(), givenUp[key][position].Load()}
					assert.Equal(t, want, got, "key %d, position %d", key, position)
				}
			}
		})
	}
}

// A position that comes while its waiter registers is not lost.
func TestPositionsAreNotMissed(t *testing.T) {
	for _, m := range slices.Concat(positionMakers, untimedPositions, timedPositions, readyMakers) {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			s := m.make()
			defer s.Close()
			m := waitAndWake(s, 2, 0)
			assert.Positive(t, m["ns/op"])
		})
	}
}

// A wait on two keys ends when either of them has come as far, and no earlier.
func TestEitherKeyEndsAWait(t *testing.T) {
	for _, m := range slices.Concat(untimedEither, timedEither) {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			s := m.make()
			defer s.Close()
			for key := range keys {
				s.Advance(key, 2)
				require.NoError(t, s.WaitEither(t.Context(), 2))
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				require.ErrorIs(t, s.WaitEither(ctx, int64(3+key)), context.Canceled)
				s.Advance(key, int64(3+key))
				require.NoError(t, s.WaitEither(t.Context(), int64(3+key)))
			}
		})
	}
}

// Each position that is acknowledged has one callback, before the acknowledgement or after it, and the others have none.
func TestAcknowledgementsCallBackOnce(t *testing.T) {
	for _, m := range slices.Concat(untimedAcks, timedAcks) {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			a := m.make()
			const last = 100
			called := make(chan int64, 2*last)
			register := func(from, to int64) {
				for position := from; position <= to; position++ {
					a.Register(position, func(err error) {
						if err == nil {
							called <- position
						}
					})
				}
			}
			register(1, last/2)
			a.Ack(last / 2)
			a.Ack(last)
			register(last/2+1, last+10)
			var got []int64
			for range last {
				got = append(got, <-called)
			}
			a.Close()
			assert.Empty(t, called)
			slices.Sort(got)
			assert.Len(t, slices.Compact(got), last)
			assert.EqualValues(t, last, got[last-1])
		})
	}
}

// Each receiver gets the result of its own id, whichever comes first.
func TestResultsGoToTheirIds(t *testing.T) {
	for _, m := range slices.Concat(resultMakers, blockingResults) {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			r := m.make()
			defer r.Close()
			const ids = 50
			var all sync.WaitGroup
			for id := range uint64(ids) {
				receive := r.Register(id)
				all.Go(func() { assert.Equal(t, id, receive()) })
			}
			for id := range uint64(ids) {
				r.Trigger(ids-1-id, ids-1-id)
			}
			all.Wait()
		})
	}
}

// Each proposal gets the result that was applied for its key, also where others are applied for nobody.
func TestProposalsGetTheirResults(t *testing.T) {
	for _, m := range proposalMakers {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			s := m.make()
			defer s.Close()
			const last = 50
			var all sync.WaitGroup
			for key := uint64(2); key <= last; key += 2 {
				pending := s.Propose(key)
				all.Go(func() { assert.Equal(t, 3*key, s.Result(pending)) })
			}
			for key := uint64(last); key > 0; key-- {
				s.Apply(key, 3*key)
			}
			all.Wait()
			for _, others := range []int{0, 1} {
				fresh := m.make()
				assert.Positive(t, proposed(fresh, others, time.Millisecond)["ns/op"])
				fresh.Close()
			}
		})
	}
}

// Every item is taken once, by waiters that came before and after it, and those without one can be ended.
func TestQueuesHandOutEachItemOnce(t *testing.T) {
	const takers, items = 8, 500
	for _, m := range slices.Concat(queueMakers, untimedQueues, timedQueues) {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			q := m.make()
			ctx, cancel := context.WithCancel(t.Context())
			var taken atomic.Int64
			var all sync.WaitGroup
			for range takers {
				all.Go(func() {
					for q.Take(ctx) == nil {
						taken.Add(1)
					}
				})
			}
			for range items {
				q.Put()
			}
			until(func() bool { return taken.Load() >= items })
			cancel()
			q.Close()
			all.Wait()
			assert.EqualValues(t, items, taken.Load())
		})
	}
}

// A fetch ends with the produce that has the last of its bytes, and brings them.
func TestServersAnswerAFetchWhenItHasItsBytes(t *testing.T) {
	for _, m := range serverMakers {
		t.Run(string(m.side)+" "+m.name, func(t *testing.T) {
			b := m.make()
			defer b.Close()
			producer, fetcher := dial(b.address), dial(b.address)
			defer producer.Close()
			defer fetcher.Close()
			records := batch([]byte("value"))
			request := fetch(fetcher, int32(2*len(records)))
			time.Sleep(20 * time.Millisecond) // so that it waits, where the machine is not busy
			answered := make(chan []byte)
			go func() {
				response := request.ResponseKind().(*kmsg.FetchResponse)
				receive(fetcher, response)
				answered <- response.Topics[0].Partitions[0].RecordBatches
			}()
			produce(producer, records)
			select {
			case <-answered:
				t.Fatal("answered with half of what it wants")
			case <-time.After(50 * time.Millisecond):
			}
			produce(producer, records)
			var stored kmsg.RecordBatch
			require.NoError(t, stored.ReadFrom(<-answered))
			got, err := kfake.BatchRecords(stored)
			require.NoError(t, err)
			require.Len(t, got, 1)
			assert.Equal(t, "value", string(got[0].Value))
		})
	}
}

// A trial, whose loops have no time, fills every cell.
func TestTheTableIsFull(t *testing.T) {
	var out strings.Builder
	p := plan{only: *regexp.MustCompile(""), rounds: 1, crowd: 10, many: 1000}
	run(&out, io.Discard, p)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 2+len(shapes(p)))
	for _, line := range lines[2:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, cells, 5, line)
		for _, c := range cells[:4] {
			assert.NotEmpty(t, strings.TrimSpace(c), line)
			assert.False(t, strings.HasSuffix(c, ": "), line)
		}
		assert.NotContains(t, cells[1]+cells[2], "–", line) // there may be no neighbour
		assert.NotContains(t, cells[4], "–", line)
		assert.Equal(t, 1, strings.Count(line, "**")/2, "one is the best: %s", line)
	}
}

// The least of the rounds is shown if that is asked for.
func TestTheTableShowsMediansOrTheLeast(t *testing.T) {
	set := new(result.Set)
	s := shape{"a shape", []peer{{side: hand}, {side: ours}}}
	for round, ns := range []float64{30, 10, 20} {
		set.Add(result.Sample{Workload: s.name, Peer: s.peers[0].id(), Round: round, Metrics: map[string]float64{result.NsOp: ns}})
		set.Add(result.Sample{Workload: s.name, Peer: s.peers[1].id(), Round: round, Metrics: map[string]float64{result.NsOp: 2*ns + 10}})
	}
	for least, line := range map[bool]string{
		false: "| a shape | **20ns** | 50ns | – | 2.50 |",
		true:  "| a shape | **10ns** | 30ns | – | 3.00 |",
	} {
		var out strings.Builder
		writeTable(&out, figures{set, least}, []shape{s})
		assert.Contains(t, out.String(), line)
	}
}

func TestTheBystanderNotesHowLateItWas(t *testing.T) {
	latest := watchSleeper()
	time.Sleep(5 * time.Millisecond)
	assert.Positive(t, latest())
}

func TestWords(t *testing.T) {
	require.Equal(t, "999ns", short(999))
	require.Equal(t, "1.5µs", short(1500))
	require.Equal(t, "12.3µs", short(12_345))
	require.Equal(t, "1.5s", short(1501*time.Millisecond))
	require.Equal(t, "100,000", count(100_000))
}
