// Package wire carries Kafka's messages over TCP: frames, headers, the versions
// that are spoken, and a server that answers in order. What is inside a message is
// kmsg's business.
package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxFrame is the size of the largest request. A frame that announces more ends its
// connection before anything is allocated for it.
const (
	maxFrame   = 16 << 20
	leastChunk = 4 << 10 // that is read at once
)

var errFrame = errors.New("wire: malformed frame")

// readFrame reads a length and that many bytes. take is asked for memory before it
// is allocated, and that grows with what has arrived, not with what was announced:
// a peer that says 16 MB and sends ten bytes costs four thousand.
func readFrame(r *bufio.Reader, take func(n int) error) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(length[:])))
	if size < 4 || size > maxFrame {
		return nil, fmt.Errorf("%w: length %d, allowed 4..%d", errFrame, size, maxFrame)
	}
	var frame []byte
	for have := 0; have < size; {
		more := min(size-have, max(leastChunk, have))
		if err := take(more); err != nil {
			return nil, err
		}
		grown := make([]byte, have+more)
		copy(grown, frame)
		if _, err := io.ReadFull(r, grown[have:]); err != nil {
			return nil, err
		}
		frame, have = grown, have+more
	}
	return frame, nil
}
