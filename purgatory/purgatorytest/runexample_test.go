package purgatorytest_test

import (
	"testing"
	"time"
)

// The example is a test, so that go test runs it, too.
func TestTheExampleOfThePackagePasses(t *testing.T) {
	watchdog := time.AfterFunc(2*time.Minute, func() { panic("the example takes more than two minutes") })
	defer watchdog.Stop()
	testAcksAll(t)
}
