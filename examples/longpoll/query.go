package main

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	defaultTimeout = 30 * time.Second
	maxTopicName   = 100
)

// query is what a GET asks for: at least min messages after an offset, within timeout.
type query struct {
	after   int64 // -1: from the start; newestSoFar: only what is yet to come
	min     int64
	timeout time.Duration
}

// newestSoFar is after where the client has not said.
const newestSoFar = -2

// parseQuery reads ?after=&min=&timeout=. Its errors name the parameter, its value, and what is allowed.
func parseQuery(raw string, l limits) (query, error) {
	q := query{after: newestSoFar, min: 1, timeout: min(defaultTimeout, l.wait)}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, fmt.Errorf("query %q: %w", raw, err)
	}
	for name, given := range values {
		if len(given) > 1 {
			return q, fmt.Errorf("%s is given %d times: %q", name, len(given), given)
		}
		if err := q.set(name, given[0], l); err != nil {
			return q, err
		}
	}
	return q, nil
}

func (q *query) set(name, value string, l limits) error {
	var err error
	switch name {
	case "after":
		if q.after, err = strconv.ParseInt(value, 10, 64); err != nil || q.after < -1 {
			return fmt.Errorf("after %q: must be the offset of the last message that you have, or -1 for none", value)
		}
	case "min":
		if q.min, err = strconv.ParseInt(value, 10, 64); err != nil || q.min < 1 || q.min > int64(min(l.messages, maxAnswer)) {
			return fmt.Errorf("min %q: must be a number of messages from 1 to %d", value, min(l.messages, maxAnswer))
		}
	case "timeout":
		if q.timeout, err = time.ParseDuration(value); err != nil || q.timeout < 0 || q.timeout > l.wait {
			return fmt.Errorf("timeout %q: must be a duration with its unit, such as 500ms or 30s, from 0s to %v", value, l.wait)
		}
	default:
		return fmt.Errorf("unknown parameter %q: there are after, min and timeout", name)
	}
	return nil
}

// checkTopicName refuses names that would not survive a log line or a URL.
func checkTopicName(name string) error {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	foreign := func(r rune) bool { return !strings.ContainsRune(allowed, r) }
	if len(name) > maxTopicName || strings.ContainsFunc(name, foreign) {
		return fmt.Errorf("topic %.*q: must be 1 to %d of the characters a-z A-Z 0-9 . _ -", maxTopicName, name, maxTopicName)
	}
	return nil
}
