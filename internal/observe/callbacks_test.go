package observe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// To take the stacks of all goroutines stops the process for a while. After that it runs for 19 times as long.
func TestStacksAreTakenForATwentiethOfTheTime(t *testing.T) {
	var c Callbacks[string]
	began := time.Now()
	assert.Contains(t, string(c.allStacks()), "TestStacksAreTakenForATwentiethOfTheTime")
	took := time.Since(began)
	assert.Positive(t, c.rest.Sub(began))
	assert.LessOrEqual(t, c.rest.Sub(began), 20*took)
	c.rest = time.Now().Add(time.Hour)
	assert.Nil(t, c.TakeStuck(), "who is stuck has his record, with his stack, later")
}
