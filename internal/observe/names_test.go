package observe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestALongTextIsCut(t *testing.T) {
	assert.Equal(t, "a\uFFFDb", Key("a\xffb"))
	assert.Equal(t, strings.Repeat("x", 200), Key(strings.Repeat("x", 200)))
	assert.Equal(t, strings.Repeat("x", 199)+"…", Key(strings.Repeat("x", 199)+"é"), "no half of a character")
}

func TestAPointerKeyIsNotDereferenced(t *testing.T) {
	key := &struct{ n int }{1}
	assert.Regexp(t, `^\*struct \{ n int \}\(0x[0-9a-f]+\)$`, Key(key))
	assert.Equal(t, "{orders 3}", Key(struct {
		topic     string
		partition int
	}{"orders", 3}))
}
