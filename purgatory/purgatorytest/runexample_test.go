package purgatorytest_test

import "testing"

// The example is a test, so that go test runs it, too.
func TestTheExampleOfThePackagePasses(t *testing.T) { testAcksAll(t) }
