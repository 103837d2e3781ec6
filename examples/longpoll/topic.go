package main

import "sync"

// message is one message of a topic.
type message struct {
	Offset int64  `json:"offset"`
	Body   string `json:"body"`
}

// topic is the latest messages that were published under one name, in a ring. Offsets count from 0 and are never used twice.
// It is safe for concurrent use.
type topic struct {
	capacity int
	mu       struct {
		sync.RWMutex
		ring []string // grows to the capacity; a message's place is its offset modulo the capacity
		next int64    // offset of the next message
	}
}

// extent is which offsets a topic has: oldest to newest. One without messages has oldest 0 and newest -1.
type extent struct {
	Oldest int64 `json:"oldest"`
	Newest int64 `json:"newest"`
}

// lost reports whether a reader who has read up to after has missed messages.
func (e extent) lost(after int64) bool { return after+1 < e.Oldest }

func (t *topic) append(body string) (offset int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	offset = t.mu.next
	if len(t.mu.ring) < t.capacity {
		t.mu.ring = append(t.mu.ring, body)
	} else {
		t.mu.ring[offset%int64(t.capacity)] = body
	}
	t.mu.next++
	return offset
}

// An answer ends where it would get larger than this, but has one message at least: a reader who is behind asks again.
const (
	maxAnswer      = 100     // messages
	maxAnswerBytes = 1 << 20 // of messages
)

// read returns messages after an offset, oldest first, and what the topic had at that moment.
func (t *topic) read(after int64) ([]message, extent) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	e := t.extentLocked()
	messages := []message{}
	size := 0
	for offset := max(after+1, e.Oldest); offset <= e.Newest && len(messages) < maxAnswer; offset++ {
		body := t.mu.ring[offset%int64(t.capacity)]
		if size += len(body); size > maxAnswerBytes && len(messages) > 0 {
			break
		}
		messages = append(messages, message{Offset: offset, Body: body})
	}
	return messages, e
}

func (t *topic) extent() extent {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.extentLocked()
}

func (t *topic) extentLocked() extent {
	return extent{Oldest: t.mu.next - int64(len(t.mu.ring)), Newest: t.mu.next - 1}
}
