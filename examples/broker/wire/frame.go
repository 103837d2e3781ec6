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
// connection before anything is allocated for it.
const (
	maxRequestFrame  = 16 << 20
	largeFrame       = 512 << 10 // from here on, only so many at a time
	maxResponseFrame = 64 << 20  // what one broker takes from another
)

var errFrame = errors.New("wire: malformed frame")

// peekSize says how large the next frame says it is.
func peekSize(r *bufio.Reader) (int, error) {
	head, err := r.Peek(4)
	if err != nil {
		return 0, err
	}
	return int(int32(binary.BigEndian.Uint32(head))), nil
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
