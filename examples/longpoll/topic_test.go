package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTopicKeepsTheLatestMessages(t *testing.T) {
	const capacity = 3
	ring := &topic{capacity: capacity}
	messages, e := ring.read(-1)
	assert.Empty(t, messages)
	assert.Equal(t, extent{0, -1}, e)
	for next := range int64(10) {
		assert.Equal(t, next, ring.append(string(rune('a'+next))))
		oldest := max(0, next+1-capacity)
		for after := int64(-1); after <= next; after++ {
			messages, e := ring.read(after)
			assert.Equal(t, extent{oldest, next}, e)
			assert.Equal(t, after+1 < oldest, e.lost(after))
			var want []message
			for offset := max(after+1, oldest); offset <= next; offset++ {
				want = append(want, message{offset, string(rune('a' + offset))})
			}
			assert.ElementsMatch(t, want, messages)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	short := &topic{capacity: 2 * maxAnswer}
	for range 2 * maxAnswer {
		short.append("x")
	}
	messages, _ := short.read(-1)
	assert.Len(t, messages, maxAnswer)
	messages, _ = short.read(messages[len(messages)-1].Offset)
	assert.Len(t, messages, maxAnswer)

	long := &topic{capacity: 10}
	for _, size := range []int{maxAnswerBytes - 1, 1, 1, 2 * maxAnswerBytes, 1} {
		long.append(strings.Repeat("x", size))
	}
	var sizes []int
	for after := int64(-1); after < 4; {
		messages, _ := long.read(after)
		sizes = append(sizes, len(messages))
		after = messages[len(messages)-1].Offset
	}
	assert.Equal(t, []int{2, 1, 1, 1}, sizes)
}
