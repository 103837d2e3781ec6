package cluster

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/delayedop/purgatory/examples/heavy/broker/commitlog/batchtest"
)

// sequenced is a batch of one record as an idempotent producer sends it.
func sequenced(producer int64, sequence int32) []byte {
	b := batchtest.Build(1, []byte("value"))
	binary.BigEndian.PutUint64(b[43:], uint64(producer))
	binary.BigEndian.PutUint16(b[51:], 0)
	binary.BigEndian.PutUint32(b[53:], uint32(sequence))
	batchtest.Seal(b)
	return b
}

// TestAResendAfterAFailover: the producer's answer got lost with the leader. What
// it sends again is known to the new one.
func TestAResendAfterAFailover(t *testing.T) {
	c := start(t, testConfig())
	cl := client(t, c)
	create(t, cl, "resent", 1, 3)
	first := dial(t, c)
	id := first.ask(kmsg.NewPtrInitProducerIDRequest()).(*kmsg.InitProducerIDResponse)
	require.Zero(t, id.ErrorCode)
	produced := func(r *raw, sequence int32) (int64, error) {
		p := r.ask(produceRequest("resent", sequenced(id.ProducerID, sequence))).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		return p.BaseOffset, kerr.ErrorForCode(p.ErrorCode)
	}
	for sequence := range int32(3) {
		offset, err := produced(first, sequence)
		require.NoError(t, err)
		require.Equal(t, int64(sequence), offset)
	}
	require.NoError(t, c.Kill(1))
	awaitLeader(t, cl, "resent", 2)
	second := dialTo(t, c.Addrs()[1])
	var offset int64
	require.Eventually(t, func() (ok bool) { // the third broker may not have heard of it yet
		var err error
		offset, err = produced(second, 2)
		return err == nil
	}, patience, time.Millisecond)
	require.Equal(t, int64(2), offset)
	offset, err := produced(second, 3)
	require.NoError(t, err)
	require.Equal(t, int64(3), offset)
	_, err = produced(second, 7)
	require.Equal(t, kerr.OutOfOrderSequenceNumber, err)
}
