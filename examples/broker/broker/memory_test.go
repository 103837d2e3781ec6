package broker

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/batch"
	"github.com/delayedop/purgatory/examples/internal/debugserver/debugservertest"
)

// TestTheLogsHaveABound: records that nobody may drop fill it, and then a produce
// is refused as by a disk that is full. Once they are committed the oldest go.
func TestTheLogsHaveABound(t *testing.T) {
	var logged debugservertest.Output
	b := newBench(t, 1, func(c *Config) { c.Memory, c.Logger = 8<<20, slog.New(slog.NewTextHandler(&logged, nil)) })
	p, err := b.partition("t", [16]byte{}, 0)
	require.NoError(t, err)
	client := b.dial()
	records := batch.Build(1, []batch.Record{{Value: make([]byte, 512<<10)}})
	produce := func() error {
		resp, err := client.Do(b.ctx, produceTo("t", 0, records))
		require.NoError(t, err)
		require.LessOrEqual(t, b.memory.logs.Used(), b.memory.logs.Limit())
		return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
	}
	n := int64(0)
	for ; ; n++ {
		if err = produce(); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, kerr.KafkaStorageError)
	require.Greater(t, b.memory.logs.Used(), b.memory.logs.Limit()-1<<20)
	require.ErrorIs(t, produce(), kerr.KafkaStorageError)
	require.Equal(t, 1, strings.Count(logged.String(), "the memory for logs is full"), logged.String())
	require.Contains(t, shownHoldings{b.memory.waits, b.memory}.Name(), "memory-1: logs 5 of 6 MiB, requests ")

	b.replicate(n)
	for range 50 {
		require.NoError(t, produce())
		n++
		b.replicate(n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Equal(t, int64(p.mu.log.Size()), b.memory.logs.Used())
	require.Positive(t, p.mu.log.Start())
}

// TestAPartitionShrinksToItsShare when others come and memory is short.
func TestAPartitionShrinksToItsShare(t *testing.T) {
	b := newBench(t, 1, func(c *Config) { c.Memory = 8 << 20 })
	_, led := b.alone()
	p, err := b.partition("alone", [16]byte{}, led[0])
	require.NoError(t, err)
	records := batch.Build(1, []batch.Record{{Value: make([]byte, 512<<10)}})
	for range 10 {
		b.produced1(produceTo("alone", led[0], records))
	}
	require.Greater(t, p.memory.logs.Used(), p.memory.logs.Limit()/2)
	b.createTopic("more", 1, 1)
	p.shrink()
	require.Positive(t, p.memory.logs.Used())
	require.LessOrEqual(t, p.memory.logs.Used(), p.memory.logs.Limit()/3, "it shares with two others at least")
}

// TestAnswersCountToo: with no memory left a fetch gets nothing now, and is asked to
// come again; what it gets then is given back when it is sent.
func TestAnswersCountToo(t *testing.T) {
	b := newBench(t, 1)
	alone, led := b.alone()
	requests := b.memory.requests
	fetch := b.start(b.dial(), b.awaitBytes(alone, 1, led[0]))
	b.waiting(b.fetches, 1)
	taken := requests.TakeUpTo(int(requests.Limit()))
	p, err := b.partition("alone", [16]byte{}, led[0])
	require.NoError(t, err)
	records := batch.Build(1, []batch.Record{{Value: make([]byte, 512<<10)}})
	_, _, _, pr, err := p.append(records, 1)
	require.NoError(t, err)
	b.wake(p, pr)
	resp, ok := <-fetch
	require.True(t, ok)
	require.Positive(t, resp.(*kmsg.FetchResponse).ThrottleMillis)
	require.Empty(t, resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches)
	requests.Free(taken)
	again := b.start(b.dial(), b.awaitBytes(alone, 1, led[0]))
	require.Len(t, b.fetched(again).RecordBatches, len(records))
	require.Eventually(t, func() bool { return requests.Used() == 0 }, patience, time.Millisecond)
}
