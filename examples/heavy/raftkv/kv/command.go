package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ID names a proposal: the process that made it, and its number there. It is how a proposer recognises its entry when the
// engine applies it.
type ID struct {
	Origin uint64 // drawn at random when a process starts
	Seq    uint64
}

// The kinds of commands.
const (
	kindPut   = 1
	kindBegin = 2
)

// Command is what one log entry says.
type Command struct {
	ID
	// Begin marks the first entry of a leader's term. It changes nothing in the store.
	Begin bool
	Key   string
	Value []byte
}

const commandHeader = 1 + 8 + 8 + 4 // kind, origin, seq, length of the key

var errCommand = errors.New("kv: log entry is no command")

// Encode returns c as a log entry.
func (c *Command) Encode() []byte {
	b := make([]byte, 0, commandHeader+len(c.Key)+len(c.Value))
	kind := byte(kindPut)
	if c.Begin {
		kind = kindBegin
	}
	b = append(b, kind)
	b = binary.BigEndian.AppendUint64(b, c.Origin)
	b = binary.BigEndian.AppendUint64(b, c.Seq)
	b = binary.BigEndian.AppendUint32(b, uint32(len(c.Key)))
	b = append(b, c.Key...)
	return append(b, c.Value...)
}

// Decode reads a log entry. The value of the command shares b's memory.
func Decode(b []byte) (Command, error) {
	if len(b) < commandHeader {
		return Command{}, fmt.Errorf("%w: %d bytes", errCommand, len(b))
	}
	c := Command{ID: ID{binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:])}}
	switch b[0] {
	case kindPut:
	case kindBegin:
		c.Begin = true
	default:
		return Command{}, fmt.Errorf("%w: kind %d", errCommand, b[0])
	}
	keyed := b[commandHeader:]
	n := binary.BigEndian.Uint32(b[17:])
	if uint64(n) > uint64(len(keyed)) {
		return Command{}, fmt.Errorf("%w: a key of %d bytes in %d", errCommand, n, len(keyed))
	}
	c.Key, c.Value = string(keyed[:n]), keyed[n:]
	return c, nil
}
