// Package wire carries Kafka's messages over TCP: frames, headers, the
// versions both sides speak, a server that answers in order and a client for
// the brokers among themselves. What is inside a message is kmsg's business.
package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The sizes of the largest frames. A frame that announces more ends its
// connection before anything is allocated for it. Only a produce request may
// be large: decoding turns every other kind into structs of up to a hundred
// times its size.
const (
	maxProduceFrame = 16 << 20
	maxRequestFrame = 512 << 10
	// maxResponseFrame bounds what one broker takes from another.
	maxResponseFrame = 64 << 20
)

var errFrame = errors.New("wire: malformed frame")

// peekRequest says how large the next request is and how large it may be.
func peekRequest(r *bufio.Reader) (size, limit int, err error) {
	head, err := r.Peek(6) // the size, and the API key on which the limit depends
	if err != nil {
		return 0, 0, err
	}
	limit = maxRequestFrame
	if binary.BigEndian.Uint16(head[4:]) == keyProduce {
		limit = maxProduceFrame
	}
	return int(int32(binary.BigEndian.Uint32(head))), limit, nil
}

// readFrame reads a length and that many bytes. The buffer grows with what
// has arrived, not with what was announced: a peer that says 16 MB and sends
// ten bytes costs ten bytes.
func readFrame(r *bufio.Reader, limit int) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := int(int32(binary.BigEndian.Uint32(length[:])))
	if size < 4 || size > limit {
		return nil, fmt.Errorf("%w: length %d, allowed 4..%d", errFrame, size, limit)
	}
	var body bytes.Buffer
	if _, err := io.CopyN(&body, r, int64(size)); err != nil {
		return nil, err
	}
	return body.Bytes(), nil
}

// finishFrame writes the length into the four bytes left free at the front.
func finishFrame(frame []byte) []byte {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}
