package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheExampleCanBeScraped(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	urls, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", func(url string) { urls <- url }) }()
	url := <-urls
	assert.Eventually(t, func() bool {
		answer, err := http.Get(url)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return err == nil && answer.StatusCode == http.StatusOK &&
			strings.Contains(string(text), `purgatory_pending_operations{purgatory="poll"}`) &&
			strings.Contains(string(text), `purgatory_wait_seconds_bucket{outcome="satisfied"`)
	}, 10*time.Second, 50*time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}
