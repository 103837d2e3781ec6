package controller

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// epochTag is a tagged field of a live broker in a picture, which Kafka's own
// UpdateMetadata does not have: the epoch of the broker's registration.
const epochTag = 1000

func setRegisteredEpoch(live *kmsg.UpdateMetadataRequestLiveBroker, epoch int64) {
	live.UnknownTags.Set(epochTag, binary.BigEndian.AppendUint64(nil, uint64(epoch)))
}

// RegisteredEpoch is the epoch under which a broker of a picture is registered. A
// leader believes the fetches of that registration, and of no other process that
// goes by the same id.
func RegisteredEpoch(live kmsg.UpdateMetadataRequestLiveBroker) (epoch int64, ok bool) {
	live.UnknownTags.Each(func(tag uint32, value []byte) {
		if tag == epochTag && len(value) == 8 {
			epoch, ok = int64(binary.BigEndian.Uint64(value)), true
		}
	})
	return epoch, ok
}
