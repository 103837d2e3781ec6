package main

import (
	"errors"
	"fmt"
	"sync"
)

// errTooManyTopics says that a message for a new topic was refused.
var errTooManyTopics = errors.New("there are too many topics")

// topics finds a topic by its name. A topic begins with its first message: who waits for one that has none costs nothing here.
// It is safe for concurrent use.
type topics struct {
	max      int
	capacity int // messages per topic
	mu       struct {
		sync.RWMutex
		byName map[string]*topic
	}
}

func newTopics(l limits) *topics {
	t := &topics{max: l.topics, capacity: l.messages}
	t.mu.byName = make(map[string]*topic)
	return t
}

func (t *topics) append(name, body string) (offset int64, err error) {
	to, err := t.create(name)
	if err != nil {
		return 0, err
	}
	return to.append(body), nil
}

func (t *topics) create(name string) (*topic, error) {
	if found := t.find(name); found != nil {
		return found, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if found := t.mu.byName[name]; found != nil {
		return found, nil
	}
	if len(t.mu.byName) == t.max {
		return nil, fmt.Errorf("topic %q: %w: the maximum is %d", name, errTooManyTopics, t.max)
	}
	created := &topic{capacity: t.capacity}
	t.mu.byName[name] = created
	return created, nil
}

// find returns nil where nothing has been published.
func (t *topics) find(name string) *topic {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.byName[name]
}

func (t *topics) read(name string, after int64) ([]message, extent) {
	if found := t.find(name); found != nil {
		return found.read(after)
	}
	return []message{}, extent{Newest: -1}
}

func (t *topics) extent(name string) extent {
	if found := t.find(name); found != nil {
		return found.extent()
	}
	return extent{Newest: -1}
}
