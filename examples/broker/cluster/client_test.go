package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestProduceAndConsume(t *testing.T) {
	c := start(t, testConfig())
	for name, opts := range map[string][]kgo.Opt{
		"acks-all-idempotent": nil,
		"acks-1":              {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
		"acks-0":              {kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
		"gzip":                {kgo.ProducerBatchCompression(kgo.GzipCompression())},
		"snappy":              {kgo.ProducerBatchCompression(kgo.SnappyCompression())},
		"lz4":                 {kgo.ProducerBatchCompression(kgo.Lz4Compression())},
		"zstd":                {kgo.ProducerBatchCompression(kgo.ZstdCompression())},
	} {
		t.Run(name, func(t *testing.T) {
			produce(t, client(t, c, opts...), name, 0, 500)
			consumer := client(t, c, kgo.ConsumeTopics(name), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			for value, times := range consume(t, consumer, 500) {
				require.Equal(t, 1, times, value)
			}
		})
	}
}
