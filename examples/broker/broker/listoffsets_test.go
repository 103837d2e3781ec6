package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/broker/batch"
	"github.com/delayedop/purgatory/examples/broker/commitlog"
)

// TestNoOffsetIsBelowTheStart: the log may begin after the batch that has the time.
func TestNoOffsetIsBelowTheStart(t *testing.T) {
	p := &partition{broker: &Broker{config: Config{ID: 1}}}
	p.mu.leader, p.mu.log = 1, &commitlog.Log{}
	_, end, err := p.mu.log.Append(batch.Build(1000, make([]batch.Record, 10)), 0)
	require.NoError(t, err)
	p.mu.high = end
	p.mu.log.DeleteTo(5)
	for _, millis := range []int64{earliest, newest, 0, 1000} {
		req, resp := kmsg.NewListOffsetsRequestTopicPartition(), kmsg.NewListOffsetsResponseTopicPartition()
		req.Timestamp = millis
		require.NoError(t, p.listOffset(req, &resp))
		require.Equal(t, int64(5), resp.Offset, "time %d", millis)
	}
}
